"""Which programs of a log have to be run on which checks, and what came of it.

Visible checks are run for every program, hidden ones only for the program that a trajectory
submits and for candidates of one state, which may each be submitted. A program is run once,
however often the log holds it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from harness_core.rewards.tool_policy import ALLOW_ALL, ToolPolicy
from harness_core.sandbox.result import Verdict
from harness_core.trajectories.schema import Action, Step, TaskSpec, Trajectory
from harness_core.trajectories.vocabulary import ActionKind, Language


class GradeRequest(NamedTuple):
    """One program on one list of checks."""

    program: str
    entry_point: str | None
    checks: tuple[str, ...]

    def draw(self, purpose: str) -> float:
        """A number in [0, 1) that depends on the request and what it is drawn for alone."""
        text = "\0".join((purpose, self.entry_point or "", self.program, *self.checks))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


class Judge(Protocol):
    """What judges programs: the grader of the sandbox, or a fake in tests."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation layers that programs run under."""

    @property
    def trusted(self) -> bool:
        """False when isolation was switched off."""

    @property
    def n_cache_hits(self) -> int:
        """Verdicts that were known from an earlier run."""

    def judge(self, requests: Sequence[GradeRequest]) -> Sequence[Verdict]:
        """One verdict a request, in order."""

    def judge_anew(self, requests: Sequence[GradeRequest]) -> Sequence[Verdict]:
        """The same, running every program whatever is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Everything that has to be run, each program and list of checks once, in a fixed order."""

    visible: dict[GradeRequest, None] = field(default_factory=dict)
    hidden: dict[GradeRequest, None] = field(default_factory=dict)
    references: dict[GradeRequest, None] = field(default_factory=dict)
    """The tasks' own solutions on the same lists of checks."""
    programs: dict[str, None] = field(default_factory=dict)
    """All Python programs, for the linter."""

    @property
    def n_different(self) -> int:
        """Number of different requests."""
        return len({**self.visible, **self.hidden, **self.references})

    def add(self, trajectory: Trajectory, task: TaskSpec) -> None:
        """Add what one trajectory needs."""
        if task.reference is not None and task.language is Language.PYTHON:
            for checks in (task.visible_checks, task.hidden_checks):
                self._add(self.references, task.reference, task, checks)
        for step in trajectory.steps:
            for action in actions_of(step):
                if (program := program_of(action, task)) is not None:
                    self.programs[program] = None
                    self._add(self.visible, program, task, task.visible_checks)
        for program in _judged_programs(trajectory, task):
            self._add(self.hidden, program, task, task.hidden_checks)

    @staticmethod
    def _add(
        requests: dict[GradeRequest, None], program: str, task: TaskSpec, checks: tuple[str, ...]
    ) -> None:
        if checks:
            requests[GradeRequest(program, task.entry_point, checks)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Verdicts and linter findings on the programs of a log."""

    visible: Mapping[GradeRequest, Verdict]
    hidden: Mapping[GradeRequest, Verdict]
    clean: frozenset[str]
    policy: ToolPolicy = ALLOW_ALL
    quarantined: frozenset[tuple[str, ...]] = frozenset()
    """Lists of checks that do not always say the same of a program."""

    def is_quarantined(self, task: TaskSpec) -> bool:
        """Whether nothing is to be learnt from what the checks of a task say."""
        return bool(self.quarantined & {task.visible_checks, task.hidden_checks})

    def visible_verdict(self, program: str, task: TaskSpec) -> Verdict | None:
        """How a program did on the visible checks; None without any."""
        return self._known(self.visible, program, task, task.visible_checks)

    def hidden_verdict(self, program: str, task: TaskSpec) -> Verdict | None:
        """How a program did on the hidden checks; None without any, or if it was not run."""
        return self._known(self.hidden, program, task, task.hidden_checks)

    def _known(
        self,
        verdicts: Mapping[GradeRequest, Verdict],
        program: str,
        task: TaskSpec,
        checks: tuple[str, ...],
    ) -> Verdict | None:
        if self.is_quarantined(task):
            return None
        return verdicts.get(GradeRequest(program, task.entry_point, checks))


def grade(requests: Iterable[GradeRequest], judge: Judge) -> dict[GradeRequest, Verdict]:
    """Judge all requests in one call."""
    wanted = list(requests)
    return dict(zip(wanted, judge.judge(wanted), strict=True)) if wanted else {}


def actions_of(step: Step) -> tuple[Action, ...]:
    """The actions proposed for a state: the logged candidates, or the one taken."""
    return tuple(candidate.action for candidate in step.candidates) or (step.action,)


def program_of(action: Action, task: TaskSpec) -> str | None:
    """The Python program that an action is, None for any other action."""
    is_program = action.kind is ActionKind.CODE and task.language is Language.PYTHON
    return action.text if is_program else None


def submitted_program(steps: Sequence[Step], task: TaskSpec) -> str | None:
    """The program that a trajectory ends with: its last one, whatever was said after it."""
    programs = (program_of(step.action, task) for step in reversed(steps))
    return next((program for program in programs if program is not None), None)


def _judged_programs(trajectory: Trajectory, task: TaskSpec) -> Iterator[str]:
    submitted = submitted_program(trajectory.steps, task)
    if submitted is not None:
        yield submitted
    for step in trajectory.steps:
        for candidate in step.candidates:
            program = program_of(candidate.action, task)
            if program is not None:
                yield program
