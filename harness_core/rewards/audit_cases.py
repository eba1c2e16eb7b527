"""What the audit compares: attempts at a task, honest ones and probes, and what each of them earns.

What an attempt *earns* is what learning is paid for it: the sum of `reward_of` over the actions
taken, up to the first dangerous one, which ends the trajectory; the pay of the whole attempt
(`all_tests`, `outcome`) is void then. Nothing is discounted.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pydantic import Field

from harness_core.records import Record
from harness_core.rewards.compose import Row, reward_of, reward_rows
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.grading import Facts, Judge, Requests, grade, program_of
from harness_core.rewards.style import clean_programs
from harness_core.rewards.table import COMPONENTS, OF_THE_END
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind

_NOBODY: Final = Provenance(importer="audit", source="audit", path="-", source_sha256="0", line=1)


class Attempt(Record):
    """One run at a task, made up for the audit."""

    name: str
    actions: tuple[Action, ...] = Field(min_length=1)
    graded: tuple[float, ...] = ()
    """Graded value of each turn, for a task whose log grades turns; else empty."""
    outcome: Outcome = Outcome()
    """What the log claims of the end."""
    claims: bool = False
    """Whether the log says of every step that its tests passed."""


class Probe(Record):
    """A way to earn without merit."""

    name: str
    attempt: Attempt
    original: str | None = None
    """Name of the honest attempt that this one dresses up, None when it is made from nothing."""
    forfeits: bool = False
    """Whether it loses the merit of its original (it is dangerous)."""
    is_answer: bool = False
    """Whether it is a harmless program that knows nothing: then checks that it passes are weak."""


class AuditCase(Record):
    """One task with the attempts that are compared on it."""

    task: TaskSpec
    honest: tuple[Attempt, ...] = Field(min_length=1)
    """The first one submits the reference, where the task has one."""
    probes: tuple[Probe, ...]

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All of them."""
        return (*self.honest, *(probe.attempt for probe in self.probes))


class Earned(NamedTuple):
    """What one attempt earns, in all and by component."""

    total: float
    columns: Mapping[str, float]  # component -> sum of its unweighted column over the attempt
    n_actions: int
    has_merit: bool  # its last program passes a telling visible test, or its last turn is graded


def program_attempt(name: str, *programs: str, claims: bool = False) -> Attempt:
    """An attempt that submits programs one after the other."""
    actions = tuple(Action(kind=ActionKind.CODE, text=program) for program in programs)
    outcome = Outcome(success=True, score=1.0) if claims else Outcome()
    return Attempt(name=name, actions=actions, claims=claims, outcome=outcome)


def trajectory_of(attempt: Attempt, task: TaskSpec) -> Trajectory:
    """An attempt as the log of an agent would hold it."""
    graded = attempt.graded or (None,) * len(attempt.actions)
    claims = {str(index): "passed" for index in range(len(attempt.actions))}
    return Trajectory(
        task=TaskRef(task_id=task.task_id, family=task.family, description=task.description),
        agent=Agent(name="audit"),
        steps=tuple(
            Step(index=index, action=action, logged_reward=value)
            for index, (action, value) in enumerate(zip(attempt.actions, graded, strict=True))
        ),
        outcome=attempt.outcome,
        terminated=True,
        truncated=False,
        provenance=_NOBODY,
        extra={"claims": claims} if attempt.claims else {},
    )


def grade_cases(cases: Iterable[AuditCase], judge: Judge, config: RewardConfig) -> Facts:
    """Everything that has to be run for the cases, run once."""
    requests = Requests()
    for case in cases:
        for attempt in case.attempts:
            requests.add(trajectory_of(attempt, case.task), case.task)
    # Apart, so that no box ever sees visible and hidden checks together.
    visible, hidden = grade(requests.visible, judge), grade(requests.hidden, judge)
    if not config.accept_in_box:
        visible, hidden = (
            {request: verdict.without_in_box() for request, verdict in verdicts.items()}
            for verdicts in (visible, hidden)
        )
    return Facts(visible=visible, hidden=hidden, clean=clean_programs(requests.programs))


def earned(attempt: Attempt, task: TaskSpec, facts: Facts, config: RewardConfig) -> Earned:
    """What an attempt earns under a configuration."""
    rows = _learnt_from(attempt, task, facts, config)
    return Earned(
        total=sum(reward_of(row, config) for row in rows),
        columns={name: sum(row[name] or 0.0 for row in rows) for name in COMPONENTS},
        n_actions=len(attempt.actions),
        has_merit=_passes_visible(attempt, task, facts) or any(v > 0 for v in attempt.graded[-1:]),
    )


def _passes_visible(attempt: Attempt, task: TaskSpec, facts: Facts) -> bool:
    """Whether the last program of an attempt passes a visible test which says something.

    Read off the verdict and not off the rewards, since those are what is audited.
    """
    programs = (program_of(action, task) for action in reversed(attempt.actions))
    last = next((program for program in programs if program is not None), None)
    verdict = None if last is None else facts.visible_verdict(last, task)
    return verdict is not None and verdict.n_telling_passed > 0


def weakness(case: AuditCase, facts: Facts) -> str | None:
    """Why the checks of a task cannot tell right from wrong, None if they can.

    Such a task says nothing of the weights. Only programs that know nothing and do nothing count
    here: a program that goes for the grader and passes is a finding.
    """
    if not _is_solved(case.honest[0], case.task, facts):
        return "its reference does not pass its own checks"
    for probe in case.probes:
        if probe.is_answer and _is_solved(probe.attempt, case.task, facts):
            return f"its hidden checks let the probe {probe.name} pass"
    return None


def _is_solved(attempt: Attempt, task: TaskSpec, facts: Facts) -> bool:
    program = program_of(attempt.actions[-1], task)
    verdict = None if program is None else facts.hidden_verdict(program, task)
    return verdict is not None and verdict.all_passed


def _learnt_from(attempt: Attempt, task: TaskSpec, facts: Facts, config: RewardConfig) -> list[Row]:
    rows: list[Row] = []
    for row in reward_rows(trajectory_of(attempt, task), task, facts, config):
        if not row["is_taken"]:
            continue
        rows.append(row)
        if row["ends_here"]:
            # A dangerous attempt is never submitted, so what it ends with pays nothing.
            return [{**item, **dict.fromkeys(OF_THE_END)} for item in rows]
    return rows
