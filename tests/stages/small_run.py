"""A working folder as the stages before `evaluate` leave it, with networks that learnt nothing."""

import shutil
from pathlib import Path

import torch

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.manifest import ModelManifest, file_digests, write_manifest
from harness_core.features.config import FeatureConfig
from harness_core.features.load import read_schema
from harness_core.features.set_relative import SET_RELATIVE
from harness_core.learners.checkpoint import save_critic
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.params import Params
from harness_core.rewards.table import COMPONENTS
from harness_core.stages import features
from harness_core.stages.dag import CANDIDATE_MODEL, FEATURES, FOLD_MODELS, Workspace
from harness_core.tables import publish_bytes
from tests.features.world import World, make_config, make_world


def finished_run(
    root: Path, params: Params, *, seed: int = 0, config: FeatureConfig | None = None
) -> Workspace:
    """Features of a small world without programs, a candidate model and two fold models."""
    workspace = world_without_programs().write(root)
    features.run(config or make_config(), params.sandbox, workspace)
    for fold in (0, 1):
        folder = workspace.path(FOLD_MODELS) / str(fold)
        _save_network(folder, workspace, seed=seed)
        publish_bytes(folder / "combination.json", CRITIC_ALONE.model_dump_json().encode())
    write_model(workspace.path(CANDIDATE_MODEL), workspace, params, seed=seed)
    return workspace


def write_model(
    folder: Path,
    workspace: Workspace,
    params: Params,
    *,
    seed: int,
    development_tasks: tuple[str, ...] = (),
) -> None:
    """A complete model folder for the features of a working folder."""
    _save_network(folder, workspace, seed=seed)
    shutil.copytree(workspace.path(FEATURES) / "pipeline", folder / "pipeline")
    schema = read_schema(workspace)
    manifest = ModelManifest(
        learner="iql",
        components=COMPONENTS,
        weights=dict.fromkeys(COMPONENTS, 1.0),
        feature_fingerprint=schema.fingerprint,
        encoders=schema.encoders,
        combination=CRITIC_ALONE,
        controller=params.controller,
        k_max=8,
        development_tasks=development_tasks,
        files=file_digests(folder),
    )
    write_manifest(folder, manifest)


def world_without_programs() -> World:
    """Queries and tool calls only, so that no sandbox is needed."""
    world = make_world()
    return World(
        trajectories=tuple(t for t in world.trajectories if t.provenance.source != "code"),
        tasks=tuple(t for t in world.tasks if t.source != "code"),
    )


def _save_network(folder: Path, workspace: Workspace, *, seed: int) -> None:
    schema = read_schema(workspace)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = CriticNetwork(
            NetworkSpec(
                n_state=len(schema.state),
                n_action=len(schema.action),
                n_relative=len(SET_RELATIVE),
                hidden_sizes=(4,),
                n_members=1,
                components=COMPONENTS,
                weights=(1.0,) * len(COMPONENTS),
            )
        )
    save_critic(folder, network)
