"""Stage `train`: the fold models, the final model and stage two, published as whole folders."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from pydantic import ValidationError

from harness_core.controller.combination import Combination, fit_combination
from harness_core.controller.config import ControllerConfig
from harness_core.controller.manifest import ModelManifest, file_digests, write_manifest
from harness_core.controller.scoring import attempt_logits
from harness_core.errors import NoDataError
from harness_core.features.batch import DecisionGroup, Floats, TransitionArrays
from harness_core.features.load import load_groups, load_transitions
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.features.table import FeatureSchema
from harness_core.learners.checkpoint import Critic, save_critic
from harness_core.learners.checks import Check
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import CrossFit, cross_fit
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.trainer import Fitted
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.table import COMPONENTS
from harness_core.stages.dag import (
    CANDIDATE_MODEL,
    CANDIDATES,
    FEATURES,
    FOLD_MODELS,
    TRANSITIONS,
    Workspace,
)
from harness_core.stages.report import StageReport
from harness_core.tables import combine_digests, publish_bytes, tree_digest
from harness_core.trajectories.vocabulary import GroupKind, Split

COMBINATION: Final = "combination.json"
PIPELINE: Final = "pipeline"

_N_DRAWS: Final = 2
"""Random subsets of each size that stage two is fitted on, besides the whole group."""


def run(
    train: TrainConfig, rewards: RewardConfig, controller: ControllerConfig, workspace: Workspace
) -> StageReport:
    """Train on everything outside the frozen test slice.

    Raises:
        NoDataError: there is no development task, or all its attempts have the same outcome.
    """
    groups = [group for group in load_groups(workspace) if group.split is not Split.TEST]
    if not groups:
        raise NoDataError("no decision group outside the frozen test slice; import more tasks")
    arrays = _development(load_transitions(workspace))
    spec = _network_spec(groups, train, rewards)
    checkpoints = _checkpoint_folder(train, rewards, workspace)
    fits = cross_fit(
        groups, arrays, spec, train, set_relative=set_relative, checkpoints=checkpoints
    )
    scored = _ScoredGroups(groups, fits, train)
    with _published(workspace.path(FOLD_MODELS)) as folder:
        for fold, fitted in enumerate(fits.folds):
            save_critic(folder / str(fold), fitted.network)
            _write_combination(folder / str(fold), scored.combination(without_fold=fold))
    with _published(workspace.path(CANDIDATE_MODEL)) as folder:
        save_critic(folder, fits.final.network)
        shutil.copytree(workspace.path(FEATURES) / PIPELINE, folder / PIPELINE)
        combination = scored.combination(without_fold=None)
        schema = _read_schema(workspace.path(FEATURES) / "schema.json")
        manifest = ModelManifest(
            learner=train.learner,
            components=COMPONENTS,
            weights=dict(zip(COMPONENTS, spec.weights, strict=True)),
            feature_fingerprint=schema.fingerprint,
            encoders=schema.encoders,
            combination=combination,
            controller=controller,
            k_max=max(group.size for group in groups),
            development_tasks=tuple(sorted({group.task_id for group in groups})),
            files=file_digests(folder),
        )
        write_manifest(folder, manifest)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return StageReport(stage="train", figures=_figures(groups, arrays, fits, combination, train))


class _ScoredGroups:
    """Subsets of development attempts with logits of the model that never saw their task."""

    def __init__(self, groups: Sequence[DecisionGroup], fits: CrossFit, train: TrainConfig) -> None:
        critics = [Critic(fitted.network) for fitted in fits.folds]
        self._seed = train.seed
        self._groups = [
            subset
            for group in groups
            if group.kind is GroupKind.ATTEMPT
            for subset in _subsets(group, train.group_sizes, seed=train.seed)
        ]
        self._logits: list[Floats] = [
            attempt_logits(critics[group.fold], group) for group in self._groups
        ]

    def combination(self, *, without_fold: int | None) -> Combination:
        """Stage two fitted on all folds but one."""
        chosen = [i for i, group in enumerate(self._groups) if group.fold != without_fold]
        return fit_combination(
            [self._groups[i] for i in chosen],
            [self._logits[i] for i in chosen],
            # Sizes are drawn here, since set-relative features, and so logits, depend on them.
            group_sizes=(),
            seed=self._seed,
        )


def _subsets(group: DecisionGroup, sizes: Iterable[int], *, seed: int) -> Iterator[DecisionGroup]:
    rng = np.random.default_rng([seed, crc32(group.group_id.encode())])
    for size in sizes:
        if size < group.size:
            for _ in range(_N_DRAWS):
                yield group.take(np.sort(rng.choice(group.size, size=size, replace=False)))
    yield group


def _development(arrays: TransitionArrays) -> TransitionArrays:
    inside = arrays.split != Split.TEST
    fields = {name: getattr(arrays, name)[inside] for name in TransitionArrays.__slots__}
    return TransitionArrays(**fields)


def _network_spec(
    groups: Sequence[DecisionGroup], train: TrainConfig, rewards: RewardConfig
) -> NetworkSpec:
    return NetworkSpec(
        n_state=groups[0].after.shape[1],
        n_action=groups[0].action.shape[1],
        n_relative=len(SET_RELATIVE),
        hidden_sizes=train.hidden_sizes,
        n_members=train.n_members,
        components=COMPONENTS,
        weights=tuple(getattr(rewards.weights, name) for name in COMPONENTS),
    )


def _checkpoint_folder(train: TrainConfig, rewards: RewardConfig, workspace: Workspace) -> Path:
    """Where unfinished models wait; another key for other data or parameters."""
    inputs = [(path, tree_digest(workspace.path(path))) for path in (TRANSITIONS, CANDIDATES)]
    key = combine_digests(
        [
            ("train", train.model_dump_json()),
            ("rewards", rewards.model_dump_json()),
            ("features", tree_digest(workspace.path(FEATURES))),
            *inputs,
        ]
    )
    return workspace.root / ".harness" / "training" / key[:16]


def _read_schema(path: Path) -> FeatureSchema:
    try:
        return FeatureSchema.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError) as error:
        raise NoDataError(f"{path} is missing or damaged; run the stage features again") from error


def _write_combination(folder: Path, combination: Combination) -> None:
    publish_bytes(folder / COMBINATION, combination.model_dump_json(indent=2).encode() + b"\n")


@contextmanager
def _published(target: Path) -> Iterator[Path]:
    """A fresh folder that takes the place of `target` once it is complete."""
    building = target.with_name(f".tmp-{os.getpid()}-{target.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        shutil.rmtree(target, ignore_errors=True)
        building.replace(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _figures(
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    fits: CrossFit,
    combination: Combination,
    train: TrainConfig,
) -> dict[str, Any]:
    return {
        "learner": train.learner,
        "n_tasks": len({group.task_id for group in groups}),
        "n_attempt_groups": sum(group.kind is GroupKind.ATTEMPT for group in groups),
        "n_step_groups": sum(group.kind is GroupKind.STEP for group in groups),
        "n_transitions": len(arrays.discount),
        "n_weights": sum(weight.numel() for weight in fits.final.network.parameters()),
        "folds": [_fold_figures(fitted) for fitted in fits.folds],
        "final_updates": fits.final.kept_at,
        "combination": combination.weights,
    }


def _fold_figures(fitted: Fitted) -> dict[str, Any]:
    kept = {item.update: item for item in fitted.checks}
    terminal = kept.get(fitted.kept_at["terminal"])
    critic = kept.get(fitted.kept_at["critic"])
    return {
        "n_updates": fitted.kept_at,
        "validation_auc": _rounded(terminal, "terminal_auc"),
        "terminal_loss": _rounded(terminal, "terminal_loss"),
        "critic_loss": _rounded(critic, "critic_loss"),
    }


def _rounded(check: Check | None, name: str) -> float | None:
    """None where there was no validation task to look at."""
    value = float("nan") if check is None else float(getattr(check, name))
    return round(value, 6) if isfinite(value) else None
