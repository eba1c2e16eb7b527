"""Models of the closed loop: which controller may judge which task, and how they come about."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision
from harness_core.controller.guidance import GuidanceChoice, load_guidance
from harness_core.controller.manifest import POLICY_FILE, read_manifest
from harness_core.errors import NoDataError
from harness_core.evaluation.model_folders import load_cross_fit
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import run_limits
from harness_core.params import Params
from harness_core.rewards.tool_policy import ALLOW_ALL, load_policy
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.protocol import Sandbox
from harness_core.simulation.problems import Problem
from harness_core.stages.dag import CANDIDATE_MODEL, CANDIDATES, FOLD_MODELS, STAGES, Workspace
from harness_core.stages.execute import execute
from harness_core.tables import read_table
from harness_core.transitions import table

FEW: Final = 30
"""Frozen tasks below which those of development are judged too, by the models of their folds."""
FROZEN: Final = -1
"""The fold of frozen tasks, whose judge is the model that is shipped."""


class Chooser(Protocol):
    """The part of a controller that is needed here."""

    def select(self, state: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> Decision:
        """Choose one of K candidates."""
        ...

    def guide(self, state: Mapping[str, Any]) -> GuidanceChoice:
        """Choose guidance, or none, before there are candidates."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Controllers by fold, and which of them has not learnt from a task."""

    by_fold: Mapping[int, Chooser]
    """Fold −1 is the model that is shipped."""
    fold_of: Mapping[str, int]
    """Task → fold for the tasks of development; all other tasks are frozen."""

    def judge_of(self, task_id: str) -> Chooser | None:
        """None where every model that there is may have learnt from the task."""
        return self.by_fold.get(self.fold_of.get(task_id, FROZEN))

    def is_frozen(self, task_id: str) -> bool:
        """Whether the task is of the frozen slice."""
        return task_id not in self.fold_of

    def held_out(self, problems: Sequence[Problem]) -> list[Problem]:
        """Those to measure on: frozen ones if they are enough, else all that have a judge.

        Raises:
            NoDataError: the models may have learnt from all of them.
        """
        frozen = [problem for problem in problems if self.is_frozen(problem.id)]
        judged = [problem for problem in problems if self.judge_of(problem.id) is not None]
        chosen = frozen if len(frozen) >= FEW else judged
        if not chosen:
            raise NoDataError("the model may have learnt from every task; train on fewer of them")
        return chosen


def train_on_samples(params: Params, workspace: Workspace) -> None:
    """Sample logs, and all stages from them to a model."""
    names = list(STAGES)
    for name in names[: names.index("train") + 1]:
        execute(name, params, workspace)


@contextmanager
def opened_judges(
    workspace: Workspace, params: Params, *, folder: Path | None = None
) -> Iterator[Judges]:
    """The models of a working folder, or one model folder alone, with a sandbox to run programs in.

    Raises:
        IsolationUnavailable: candidates cannot be run safely on this machine.
        ModelError: a model is incomplete or damaged.
    """
    model = folder or workspace.path(CANDIDATE_MODEL)
    config = FeaturePipeline.load(model / "pipeline").config
    with open_sandbox(run_limits(params.sandbox, config)) as boxes:
        final = Controller.load(model, sandbox=boxes)
        if folder is not None:
            # Its folds are not at hand: what it may have learnt from has no judge.
            judges = Judges(
                by_fold={FROZEN: final},
                fold_of=dict.fromkeys(final.manifest.development_tasks, 0),
            )
        else:
            judges = Judges(
                by_fold={FROZEN: final, **_fold_controllers(workspace, boxes)},
                fold_of=_folds(workspace),
            )
        yield judges


def _fold_controllers(workspace: Workspace, boxes: Sandbox) -> dict[int, Controller]:
    model = workspace.path(CANDIDATE_MODEL)
    manifest = read_manifest(model)
    pipeline = FeaturePipeline.load(model / "pipeline")
    has_policy = POLICY_FILE in manifest.files
    policy = load_policy(model / POLICY_FILE) if has_policy else ALLOW_ALL
    fitted = load_cross_fit(model, workspace.path(FOLD_MODELS)).folds
    return {
        fold: Controller(
            manifest=manifest.model_copy(update={"combination": item.combination}),
            critic=item.critic,
            pipeline=pipeline,
            sandbox=boxes,
            policy=policy,
            guidance=load_guidance(workspace.path(FOLD_MODELS) / str(fold), pipeline.schema.state),
        )
        for fold, item in fitted.items()
    }


def _folds(workspace: Workspace) -> dict[str, int]:
    found = read_table(
        workspace.path(CANDIDATES), table.CANDIDATES, columns=("task_id", "fold")
    ).to_pydict()
    pairs = zip(found["task_id"], found["fold"], strict=True)
    return {task: fold for task, fold in pairs if fold != FROZEN}
