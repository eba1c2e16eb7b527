"""Features of a pack as if every run had ended where its attempt is judged.

What an agent did after its first answer belongs to no candidate. Leaving it out spares the encoder
most of the texts, which it would have to encode once a setting.
"""

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from benchmarks.selection.pack import Pack
from harness_core.evaluation.subsets import labelled
from harness_core.features.config import FeatureConfig
from harness_core.features.execution import needs_running
from harness_core.features.interim import TRANSITIONS_PATH, InterimTables
from harness_core.features.load import groups_from, transitions_from
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import SandboxRunner, run_limits
from harness_core.learners.encoder_tuning import tune_encoder
from harness_core.sandbox.api import open_sandbox
from harness_core.stages.dag import Workspace
from harness_core.tables import read_table
from harness_core.trajectories.vocabulary import GroupKind
from harness_core.transitions.table import TRANSITIONS


def pack_under(pack: Pack, workspace: Workspace, config: FeatureConfig) -> Pack:
    """The pack with features made under other parameters, from the tables of its working folder."""
    tables = _attempts_alone(InterimTables.read(workspace))
    ends = _ends(tables.candidates)
    tables = dataclasses.replace(
        tables,
        trajectories=tables.trajectories.filter(pa.array(_inside(tables.trajectories, ends))),
        steps=tables.steps.filter(pa.array(_inside(tables.steps, ends))),
    )
    with ExitStack() as stack:
        runner = None
        if needs_running(tables.contents()):
            boxes = stack.enter_context(open_sandbox(run_limits(pack.params.sandbox, config)))
            runner = stack.enter_context(SandboxRunner(boxes, cache=workspace.cache))
        pipeline, features = FeaturePipeline.fit_transform(
            tables, config, runner=runner, cache=workspace.cache, tuner=tune_encoder
        )
    groups = groups_from(tables.candidates, features.states, features.actions, features.signals)
    transitions = read_table(workspace.path(TRANSITIONS_PATH), TRANSITIONS)
    kept = _inside(transitions, ends) & ~np.array(transitions["is_virtual"].to_pylist(), dtype=bool)
    return dataclasses.replace(
        pack,
        groups=tuple(group for group in labelled(groups) if group.fold >= 0),
        transitions=transitions_from(
            transitions.filter(pa.array(kept)), features.states, pipeline.schema, {}
        ),
        schema=pipeline.schema,
    )


def _attempts_alone(tables: InterimTables) -> InterimTables:
    is_attempt = [kind == GroupKind.ATTEMPT for kind in tables.candidates["kind"].to_pylist()]
    return dataclasses.replace(tables, candidates=tables.candidates.filter(pa.array(is_attempt)))


def _ends(candidates: pa.Table) -> dict[str, int]:
    """Trajectory → step of the action that it is judged by."""
    columns = candidates.select(["trajectory_id", "step_index"]).to_pydict()
    return dict(zip(columns["trajectory_id"], columns["step_index"], strict=True))


def _inside(table: pa.Table, ends: Mapping[str, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows belong to an attempt, and not to what came after it."""
    trajectories = table["trajectory_id"].to_pylist()
    if "step_index" not in table.column_names:
        return np.array([trajectory in ends for trajectory in trajectories])
    steps = table["step_index"].to_pylist()
    return np.array(
        [step <= ends.get(of, -1) for of, step in zip(trajectories, steps, strict=True)]
    )
