"""Stage `train`: the fold models, the final model and stage two, published as whole folders."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from harness_core.controller.abstention import Abstention, figures_of, fit_abstention
from harness_core.controller.combination import Combination
from harness_core.controller.config import ControllerConfig
from harness_core.controller.manifest import (
    POLICY_FILE,
    ModelManifest,
    file_digests,
    write_manifest,
)
from harness_core.controller.stopping import Acceptance, Steering, learn_acceptance
from harness_core.errors import NoDataError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.crossfit import CrossFit as JudgedCrossFit
from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.evaluation.over_optimisation import OverOptimisation, over_optimisation
from harness_core.evaluation.task_picks import GROUP_SIZE, task_picks
from harness_core.features.batch import DecisionGroup, TransitionArrays
from harness_core.features.load import load_groups, load_transitions
from harness_core.features.set_relative import set_relative
from harness_core.features.table import SIGNALS, SIGNALS_FILE, FeatureSchema
from harness_core.features.tuning import judgeable
from harness_core.learners.checkpoint import save_critic
from harness_core.learners.checks import Check
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import CrossFit, cross_fit
from harness_core.learners.distil import Lessons
from harness_core.learners.trainer import Fitted
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.table import COMPONENTS
from harness_core.rewards.tool_policy import load_policy
from harness_core.stages.dag import (
    CANDIDATE_MODEL,
    CANDIDATES,
    FEATURES,
    FOLD_MODELS,
    POLICY,
    TRANSITIONS,
    Workspace,
)
from harness_core.stages.report import StageReport
from harness_core.stages.train_guidance import learn_guidance
from harness_core.stages.train_known_states import figures_of as known_figures
from harness_core.stages.train_known_states import learn_known_states
from harness_core.tables import combine_digests, publish_bytes, read_table, tree_digest
from harness_core.trajectories.vocabulary import GroupKind, Split
from harness_core.transitions.table import TRANSITIONS as TRANSITIONS_SCHEMA

COMBINATION: Final = "combination.json"
PIPELINE: Final = "pipeline"

_TOLD_BY_PROGRAMS: Final = ("outputs", "made_outputs", "generated_passed")
_N_SUBSETS: Final = 8
"""Random subsets of each K and task that `k_max` is measured on."""
_N_RESAMPLES: Final = 2000
_CONFIDENCE: Final = 0.95


def run(
    train: TrainConfig,
    rewards: RewardConfig,
    controller: ControllerConfig,
    workspace: Workspace,
    *,
    lessons: Lessons | None = None,
) -> StageReport:
    """Train on everything outside the frozen test slice; with `lessons` a student of a teacher.

    Raises:
        NoDataError: there is no development task, or all its attempts have the same outcome.
        ParameterError: the tool policy, which is pinned in the model, cannot be used.
    """
    policy = workspace.path(POLICY)
    load_policy(policy)  # refused before any training
    groups = [group for group in load_groups(workspace) if group.split is not Split.TEST]
    if not groups:
        raise NoDataError("no decision group outside the frozen test slice; import more tasks")
    schema = _read_schema(workspace.path(FEATURES) / "schema.json")
    judged = judgeable(groups, schema)
    every = load_transitions(workspace)
    arrays = development(every)
    spec = network_spec(groups, train, rewards.weights.model_dump())
    checkpoints = _checkpoint_folder(train, rewards, workspace, lessons)
    sources = _sources(workspace, every)[every.split != Split.TEST]
    fits = cross_fit(
        groups,
        arrays,
        spec,
        train,
        set_relative=set_relative,
        sources=None if train.replay is None else sources,
        retarget=None if lessons is None else lessons.targets,
        checkpoints=checkpoints,
    )
    scored = OutOfFold(judged, fits.folds, train)
    chart = _over_optimisation(scored.judged(), judged, train)
    abstention = _abstention(scored.judged(), judged, train)
    known_states = learn_known_states(workspace, arrays, sources, seed=train.seed)
    acceptance = _acceptance(scored, judged, train)
    guidance = learn_guidance(workspace, schema.state, n_folds=len(fits.folds), seed=train.seed)
    with _published(workspace.path(FOLD_MODELS)) as folder:
        for fold, fitted in enumerate(fits.folds):
            save_critic(folder / str(fold), fitted.network, fitted.trees, fitted.linear)
            guidance.save(folder / str(fold), fold=fold)
            _write_combination(folder / str(fold), scored.combination(fold))
    with _published(workspace.path(CANDIDATE_MODEL)) as folder:
        save_critic(folder, fits.final.network, fits.final.trees, fits.final.linear)
        shutil.copytree(workspace.path(FEATURES) / PIPELINE, folder / PIPELINE)
        shutil.copyfile(policy, folder / POLICY_FILE)
        guidance.save(folder, fold=None)
        if known_states is not None:
            known_states.save(folder)
        combination = scored.combination(None)
        manifest = ModelManifest(
            learner=train.learner,
            components=COMPONENTS,
            weights=dict(zip(COMPONENTS, spec.weights, strict=True)),
            feature_fingerprint=schema.fingerprint,
            encoders=schema.encoders,
            combination=combination,
            controller=controller,
            k_max=chart.k_max,
            development_tasks=tuple(sorted({group.task_id for group in groups})),
            teacher=None if lessons is None else lessons.teacher,
            steering=Steering(actor=train.actor, acceptance=acceptance),
            abstention=abstention,
            ran_programs=_ran_programs(workspace),
            files=file_digests(folder),
        )
        write_manifest(folder, manifest)
    shutil.rmtree(checkpoints, ignore_errors=True)
    figures = _figures(groups, arrays, fits, combination, train)
    figures["over_optimisation"] = chart.figures()
    figures["abstention"] = figures_of(
        abstention, max_risk=controller.max_risk, confidence=controller.confidence
    )
    figures["known_states"] = known_figures(known_states)
    if guided := guidance.figures():
        figures["guidance"] = guided
    return StageReport(stage="train", figures=figures)


def _over_optimisation(
    judged: JudgedCrossFit, groups: Sequence[DecisionGroup], train: TrainConfig
) -> OverOptimisation:
    """How far the score may be trusted to choose, on tasks that the models of the folds never saw.

    Resampling has settings of its own: another confidence of the report must not train anew.
    """
    return over_optimisation(
        judged,
        groups,
        n_subsets=_N_SUBSETS,
        bootstrap=Bootstrap(n_resamples=_N_RESAMPLES, confidence=_CONFIDENCE, seed=train.seed),
    )


def _abstention(
    judged: JudgedCrossFit, groups: Sequence[DecisionGroup], train: TrainConfig
) -> Abstention:
    """What picks are worth by how sure the model is of them, on tasks that it never saw."""
    picks = task_picks(judged, groups, group_size=GROUP_SIZE, seed=train.seed)
    return fit_abstention(picks, group_size=GROUP_SIZE)


def _acceptance(
    scored: OutOfFold, groups: Sequence[DecisionGroup], train: TrainConfig
) -> Acceptance | None:
    """When an attempt is good enough to hand in, from attempts that the models never saw."""
    models = [model for _, model in sorted(scored.models().items())]
    return learn_acceptance(
        [group for group in groups if group.kind is GroupKind.ATTEMPT],
        [model.critic for model in models],
        [model.combination for model in models],
        seed=train.seed,
    )


def _ran_programs(workspace: Workspace) -> bool | None:
    """Whether any program was run for the features; None where nothing tells."""
    path = workspace.path(FEATURES) / SIGNALS_FILE
    if not path.exists():
        return None
    told = read_table(path, SIGNALS, columns=("visible_rate", *_TOLD_BY_PROGRAMS))
    has_checks = not np.isnan(told.column("visible_rate").to_numpy()).all()
    return has_checks or any(
        len(told.column(name).combine_chunks().flatten()) for name in _TOLD_BY_PROGRAMS
    )


def development(arrays: TransitionArrays) -> TransitionArrays:
    """The transitions outside the frozen test slice."""
    inside = arrays.split != Split.TEST
    fields = {name: getattr(arrays, name)[inside] for name in TransitionArrays.__slots__}
    return TransitionArrays(**fields)


def _sources(workspace: Workspace, arrays: TransitionArrays) -> npt.NDArray[np.str_]:
    """Source of every transition, in their order; empty ones for arrays without a table."""
    if not workspace.path(TRANSITIONS).exists():
        return np.full(len(arrays.discount), "", dtype=np.str_)
    table = read_table(workspace.path(TRANSITIONS), TRANSITIONS_SCHEMA, columns=("source",))
    return np.array(table.column("source").to_pylist(), dtype=np.str_)


def _checkpoint_folder(
    train: TrainConfig, rewards: RewardConfig, workspace: Workspace, lessons: Lessons | None
) -> Path:
    """Where unfinished models wait; another key for other data or parameters."""
    inputs = [(path, tree_digest(workspace.path(path))) for path in (TRANSITIONS, CANDIDATES)]
    key = combine_digests(
        [
            ("train", train.model_dump_json()),
            ("rewards", rewards.model_dump_json()),
            ("lessons", "" if lessons is None else lessons.key),
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
