"""The verb `distil`: a student without a transformer learns the scores of the trained model.

No stage of the table: nothing is built on it, and a flywheel without students is whole. The student
has features of its own (every text hashed), and so a fingerprint, folds and a model folder of its
own; how it is trained, folded and packed is the stage `train`, on other targets. It is judged
beside its teacher on tasks that neither of them has seen.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from harness_core.controller.manifest import ModelManifest, read_manifest
from harness_core.errors import FingerprintMismatch, ParameterError
from harness_core.evaluation.crossfit import Model
from harness_core.evaluation.model_folders import load_cross_fit
from harness_core.evaluation.student import STUDENT, TEACHER, Side, compare_student
from harness_core.features.batch import DecisionGroup, Flags, TransitionArrays
from harness_core.features.config import FeatureConfig
from harness_core.features.interim import DATASETS_PATH
from harness_core.features.load import load_groups, load_transitions, read_schema
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.set_relative import set_relative
from harness_core.features.tuning import judgeable
from harness_core.learners.checkpoint import load_critic
from harness_core.learners.crossfit import make_pools
from harness_core.learners.distil import Calibration, Lessons, SoftTargets, fit_teachers
from harness_core.learners.distil_config import DistilConfig
from harness_core.params import Params
from harness_core.registry.side_runs import SideRun
from harness_core.stages import features as features_stage
from harness_core.stages import train as train_stage
from harness_core.stages.dag import (
    CANDIDATE_MODEL,
    FEATURES,
    FOLD_MODELS,
    REPORTS,
    STUDENT_MODEL,
    Workspace,
    report_path,
)
from harness_core.stages.register import register_student
from harness_core.stages.report import StageReport
from harness_core.tables import combine_digests, publish_bytes
from harness_core.trajectories.vocabulary import Split

KIND: Final = "distil"
_SHOWN: Final = ("overall", "headline", "within_task_auc", "likeness")
REPORT: Final = f"{REPORTS}/distil.json"

_MOVED: Final = {
    CANDIDATE_MODEL: STUDENT_MODEL,
    FOLD_MODELS: ".harness/student/folds",
    FEATURES: ".harness/student/features",
    DATASETS_PATH: ".harness/student/datasets",
}


@dataclass(frozen=True, slots=True)
class StudentFolder(Workspace):
    """A working folder in which features and models are those of the student."""

    def path(self, relative: str) -> Path:
        """Absolute path of a path of the table of stages."""
        for theirs, ours in _MOVED.items():
            if relative == theirs or relative.startswith(f"{theirs}/"):
                return self.root / f"{ours}{relative[len(theirs) :]}"
        return self.root / relative


def run(params: Params, workspace: Workspace, *, register: bool) -> dict[str, Any]:
    """Distil the candidate model, judge the student, and register it under a name of its own.

    Raises:
        ParameterError: the candidate model has no transformer.
        FingerprintMismatch: the features are not those that the candidate model learnt from.
        NoDataError: a table is missing, or tasks are in fewer than three folds.
    """
    teacher = read_manifest(workspace.path(CANDIDATE_MODEL))
    config = FeaturePipeline.load(workspace.path(CANDIDATE_MODEL) / "pipeline").config
    _refuse(teacher, config, workspace)
    ours = StudentFolder(workspace.root, workspace.shared_cache)
    figures = features_stage.run(student_features(config, params.distil), params.sandbox, ours)
    train = params.train.model_copy(update={"hidden_sizes": params.distil.hidden_sizes})
    lessons = _lessons(params, teacher, workspace)
    trained = train_stage.run(train, params.rewards, params.controller, ours, lessons=lessons)
    student = read_manifest(ours.path(CANDIDATE_MODEL))
    result = {
        "teacher": {
            "digest": teacher.digest,
            "feature_fingerprint": teacher.feature_fingerprint,
            "encoders": _choices(workspace),
        },
        "student": {
            "digest": student.digest,
            "feature_fingerprint": student.feature_fingerprint,
            "folder": STUDENT_MODEL,
            "widths": figures.figures["widths"],
            "n_weights": trained.figures["n_weights"],
            "k_max": student.k_max,
        },
        "teacher_weight": params.distil.teacher_weight,
        **_compare(params, workspace, ours),
    }
    result["kept"] = _is_kept(result["overall"], params.distil)
    content = orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    publish_bytes(workspace.path(REPORT), content)
    if not register:
        return result
    side_run = SideRun(
        kind=KIND,
        key=combine_digests([("student", student.digest), ("result", content.hex())])[:32],
        params=params.model_dump(mode="json"),
        figures={name: result[name] for name in _SHOWN},
        note=as_words(result),
    )
    registered = register_student(
        params.registry,
        workspace,
        side_run,
        folder=ours.path(CANDIDATE_MODEL),
        is_good=result["kept"],
    )
    return {**result, **registered}


def student_features(teacher: FeatureConfig, distil: DistilConfig) -> FeatureConfig:
    """The features of the teacher, but every text hashed."""
    encoder = teacher.encoder.model_copy(update={"name": "hashed", "path": None, "finetune": None})
    return teacher.model_copy(
        update={"encoder": encoder, "n_text_dimensions": distil.n_text_dimensions}
    )


def as_words(result: dict[str, Any]) -> str:
    """What people read first."""
    overall = result["overall"]
    if not overall["n_tasks"]:
        return "Distilled; no held-out task has attempts to choose from."
    if None in overall["gap_closed"].values():
        return "Distilled; on the held-out tasks there is no gap to close."
    size, sizes = result["headline"]["size"], overall["sizes"]
    first = f"Gap closed on {overall['n_tasks']} held-out tasks, mean of K = {_listed(sizes)}: "
    return f"{first}{_gaps(overall)}. At K = {size} alone: {_gaps(result['headline'])}."


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))


def _gaps(row: dict[str, Any]) -> str:
    gaps, (low, high) = row["gap_closed"], row["gap_lost_interval"]
    return (
        f"teacher {gaps[TEACHER]:.3f}, student {gaps[STUDENT]:.3f}, lost {row['gap_lost']:.3f} "
        f"[{low:.3f}, {high:.3f}]"
    )


def _refuse(teacher: ModelManifest, config: FeatureConfig, workspace: Workspace) -> None:
    if config.encoder.name == "hashed":
        raise ParameterError(
            "the candidate model has no transformer (features.encoder.name is 'hashed'): it is as "
            "fast as a student would be"
        )
    found = read_schema(workspace).fingerprint
    if found != teacher.feature_fingerprint:
        raise FingerprintMismatch(expected=teacher.feature_fingerprint, found=found)


def _lessons(params: Params, teacher: ModelManifest, workspace: Workspace) -> Lessons:
    """The teacher's scores of all development tasks, each by models that never saw it."""
    groups = [group for group in load_groups(workspace) if group.split is not Split.TEST]
    arrays = train_stage.development(load_transitions(workspace))
    folders = sorted(workspace.path(FOLD_MODELS).glob("[0-9]*"), key=lambda path: int(path.name))
    critics = {int(folder.name): load_critic(folder) for folder in folders}
    spec = load_critic(workspace.path(CANDIDATE_MODEL)).expected
    train = params.train.model_copy(
        update={"learner": teacher.learner, "hidden_sizes": spec.hidden_sizes, "replay": None}
    )
    pools = make_pools(groups, arrays, spec, train, set_relative)
    judged = load_cross_fit(workspace.path(CANDIDATE_MODEL), workspace.path(FOLD_MODELS))
    models: dict[int | None, Model] = {None: judged.final}
    models.update(judged.folds.items())
    targets = SoftTargets(
        pools=pools,
        teachers=fit_teachers(pools, critics, spec, train, keep_at=_kept_at(workspace)),
        calibration={
            fold: Calibration(model.combination.slope, model.combination.intercept)
            for fold, model in models.items()
        },
        weight=params.distil.teacher_weight,
        ended=_ended(arrays),
    )
    return Lessons(targets=targets, teacher=teacher.digest)


def _kept_at(workspace: Workspace) -> dict[str, int] | None:
    """After how many updates the teacher itself was kept; None where its report is gone."""
    path = workspace.path(report_path("train"))
    return StageReport.read(path).figures["final_updates"] if path.exists() else None


def _ended(arrays: TransitionArrays) -> Flags:
    """Rows of runs that came to an end of their own, [N]."""
    _, run = np.unique(arrays.trajectory, return_inverse=True)
    last = np.zeros(run.max(initial=-1) + 1, dtype=np.int64)
    last[run] = np.arange(len(run))
    return np.asarray(arrays.discount[last][run] == 0.0)


def _choices(workspace: Workspace) -> dict[str, str]:
    """Which text columns the teacher sends through its transformer."""
    stored = FeaturePipeline.load(workspace.path(CANDIDATE_MODEL) / "pipeline")._stored
    return dict(stored.choices)


def _compare(params: Params, workspace: Workspace, ours: Workspace) -> dict[str, Any]:
    theirs = judgeable(load_groups(workspace), read_schema(workspace))
    known = {group.group_id for group in theirs}
    own = [group for group in load_groups(ours) if group.group_id in known]
    return compare_student(_side(workspace, theirs), _side(ours, own), params.evaluation)


def _side(workspace: Workspace, groups: list[DecisionGroup]) -> Side:
    folders = (workspace.path(CANDIDATE_MODEL), workspace.path(FOLD_MODELS))
    return Side(load_cross_fit(*folders), groups)


def _is_kept(overall: dict[str, Any], config: DistilConfig) -> bool:
    """Whether so little is lost that the student may stand in; not where nothing can be said."""
    lost = overall.get("gap_lost")
    return lost is not None and lost <= config.max_gap_loss
