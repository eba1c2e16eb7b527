"""What a program does when it is run: visible and generated checks, and what it returns.

Each distinct program of a task runs once, on call expressions taken from the visible and generated
checks, and on further ones made from these (`features.made_inputs`). Only the calls enter the box;
expected values stay here, and hidden checks are never looked at. What comes back serves three
times: visible checks passed, generated checks passed, and a key of each returned value, so that
candidates can be compared on the same inputs without any answer.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from harness_core.features.contents import ActionContent, TaskContent, TrajectoryContent
from harness_core.features.keys import value_key
from harness_core.features.made_inputs import made_calls
from harness_core.sandbox.comparison import Comparison
from harness_core.sandbox.grader import GradeJob
from harness_core.sandbox.protocol import ProgramJob
from harness_core.sandbox.result import CallStatus, ProgramRun, Verdict
from harness_core.sandbox.splitting import split_check
from harness_core.trajectories.vocabulary import ActionKind, Language

EXECUTION: Final[tuple[str, ...]] = (
    "was_run",
    "not_loaded",
    "visible_rate",
    "visible_known",
    "visible_all",
    "generated_share",
    "generated_known",
    "raised_share",
    "stopped_share",
    "not_data_share",
    "distinct_share",
)
"""Names of the execution features of an action, in order; all zero when it was not run."""


class ProgramRunner(Protocol):
    """Runs and grades programs; `features.running` does it in a sandbox."""

    def run(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        """What each program returned, in order."""
        ...

    def grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        """Verdicts on visible checks that are no plain calls, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSignals:
    """What running one program said."""

    visible_rate: float = math.nan
    """Share of visible checks passed, NaN without any."""
    generated_passed: tuple[bool, ...] = ()
    """One flag a generated check that was run."""
    outputs: tuple[int, ...] = ()
    """Key of what came back on each input of a check; 0 for an error or time-out."""
    made_outputs: tuple[int, ...] = ()
    """The same on each input that was made."""
    columns: tuple[float, ...] = (0.0,) * len(EXECUTION)
    """The columns `EXECUTION`."""


UNKNOWN: Final = ExecutionSignals()
"""The signals of an action that is no program, or that nothing could be run for."""


class Expectation(NamedTuple):
    """A check as data: which call, and what is asked of the value it returns."""

    call_index: int
    comparison: Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """How one task's programs are run."""

    calls: tuple[str, ...]
    """Calls of checks, then those that were made."""
    n_shown: int
    """Number of calls of checks."""
    n_inputs: int
    """The first calls are those whose outputs are compared, besides those that were made."""
    visible: tuple[Expectation, ...]
    opaque: tuple[str, ...]
    """Visible checks that are no plain calls; the grader judges them."""
    generated: tuple[Expectation, ...]


def is_program(action: ActionContent, task: TaskContent) -> bool:
    """Whether an action is a Python program that can be run."""
    return (
        action.kind is ActionKind.CODE
        and task.language is Language.PYTHON
        and bool(action.text.strip())
    )


def plan_checks(task: TaskContent, *, max_inputs: int, max_made: int = 0) -> CheckPlan:
    """Take the calls out of a task's visible and generated checks, and make further ones.

    Every visible call is run; generated ones, most frequent first, fill up to `max_inputs`. Up to
    `max_made` more are made.
    """
    calls: dict[str, int] = {}
    visible, opaque, generated = [], [], []
    for check in task.visible_checks:
        split = split_check(check, task.entry_point)
        if split is None:
            opaque.append(check)
        else:
            index = calls.setdefault(split.call, len(calls))
            visible.append(Expectation(index, split.comparison))
    for check in task.generated_checks:
        split = split_check(check, task.entry_point)
        if split is not None and (split.call in calls or len(calls) < max_inputs):
            index = calls.setdefault(split.call, len(calls))
            generated.append(Expectation(index, split.comparison))
    return CheckPlan(
        calls=(*calls, *_made(task, list(calls), limit=max_made)),
        n_shown=len(calls),
        n_inputs=min(len(calls), max_inputs),
        visible=tuple(visible),
        opaque=tuple(opaque),
        generated=tuple(generated),
    )


def _made(task: TaskContent, calls: Sequence[str], *, limit: int) -> list[str]:
    if not task.entry_point:
        return []
    source = "\n".join(text for text in (task.initial_state, task.description) if text)
    return made_calls(source, task.entry_point, calls, limit=limit)


def needs_running(contents: Iterable[TrajectoryContent]) -> bool:
    """Whether there is any program that could be run on any check."""
    return any(
        is_program(action, content.task)
        for content in contents
        if content.task.visible_checks or content.task.generated_checks or content.task.entry_point
        for step in content.steps
        for action in step.actions
    )


class ProgramKey(NamedTuple):
    """One distinct program of one task."""

    source: str
    task_id: str
    text: str


def run_all(
    programs: Mapping[ProgramKey, TaskContent],
    runner: ProgramRunner,
    *,
    max_inputs: int,
    max_made: int = 0,
) -> dict[ProgramKey, ExecutionSignals]:
    """Run every distinct program once; equal programs with equal calls share one run."""
    plans: dict[tuple[str, str], CheckPlan] = {}
    jobs: dict[ProgramJob, None] = {}
    grades: dict[GradeJob, None] = {}
    for key, task in programs.items():
        place = (task.source, task.task_id)
        if place not in plans:
            plans[place] = plan_checks(task, max_inputs=max_inputs, max_made=max_made)
        plan = plans[place]
        if plan.calls:
            jobs[ProgramJob(key.text, plan.calls)] = None
        if plan.opaque:
            grades[GradeJob(key.text, task.entry_point, plan.opaque)] = None
    runs = dict(zip(jobs, runner.run(list(jobs)), strict=True))
    verdicts = dict(zip(grades, runner.grade(list(grades)), strict=True))
    signals = {}
    for key, task in programs.items():
        plan = plans[(task.source, task.task_id)]
        run = runs.get(ProgramJob(key.text, plan.calls))
        verdict = verdicts.get(GradeJob(key.text, task.entry_point, plan.opaque))
        signals[key] = read_signals(plan, run, verdict)
    return signals


def read_signals(
    plan: CheckPlan, run: ProgramRun | None, verdict: Verdict | None
) -> ExecutionSignals:
    """The signals of one program from what came back."""
    if run is None and verdict is None:
        return UNKNOWN
    calls = () if run is None or run.tampered else run.calls
    # Made inputs may break the contract of the task: failing on them says nothing by itself.
    statuses = [call.status for call in calls[: plan.n_shown]]
    # A reply that honest code does not produce counts as no reply at all.
    values = [call.value if call.status is CallStatus.VALUE else _NOTHING for call in calls]
    values += [_NOTHING] * (len(plan.calls) - len(values))
    visible_rate = _visible_rate(plan, values, verdict)
    generated = tuple(_passes(item, values) for item in plan.generated)
    keys = tuple(0 if value is _NOTHING else value_key(value) for value in values)
    known = [key for key in keys[: plan.n_shown] if key]
    n = max(plan.n_shown, 1)
    stopped = statuses.count(CallStatus.TIMEOUT) + statuses.count(CallStatus.DIED)
    columns = (
        1.0,
        float(any(call.status is CallStatus.NOT_LOADED for call in calls)),
        0.0 if math.isnan(visible_rate) else visible_rate,
        float(not math.isnan(visible_rate)),
        float(visible_rate == 1.0),
        sum(generated) / max(len(generated), 1),
        float(bool(generated)),
        statuses.count(CallStatus.RAISED) / n,
        stopped / n,
        statuses.count(CallStatus.NOT_DATA) / n,
        (len(set(known)) - 1) / (len(known) - 1) if len(known) > 1 else 0.0,
    )
    return ExecutionSignals(
        visible_rate=visible_rate,
        generated_passed=generated,
        outputs=keys[: plan.n_inputs],
        made_outputs=keys[plan.n_shown :],
        columns=columns,
    )


_NOTHING: Final = object()


def _visible_rate(plan: CheckPlan, values: Sequence[Any], verdict: Verdict | None) -> float:
    n_passed = sum(_passes(item, values) for item in plan.visible)
    n_usable = len(plan.visible)
    if verdict is not None:
        n_passed += verdict.n_passed
        n_usable += verdict.n_usable
    return n_passed / n_usable if n_usable else math.nan


def _passes(expectation: Expectation, values: Sequence[Any]) -> bool:
    value = values[expectation.call_index]
    return value is not _NOTHING and expectation.comparison.holds(value)
