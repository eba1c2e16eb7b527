"""Where programs of an agent are tried: visible checks give feedback, hidden ones judge."""

import ast
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from harness_core.sandbox.grader import GradeJob
from harness_core.sandbox.result import CheckStatus, Verdict
from harness_core.simulation.agent import Feedback
from harness_core.simulation.problems import Problem


class Submission(NamedTuple):
    """A program for a problem."""

    problem: Problem
    program: str


class Grading(Protocol):
    """The part of a grader that is needed here."""

    def grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        """Verdicts in the order of jobs."""
        ...


class Environment:
    """Grades in batches; the same program of the same problem is never run twice in one batch."""

    def __init__(self, grader: Grading) -> None:
        self._grader = grader

    def test(self, submissions: Sequence[Submission]) -> list[Feedback]:
        """Feedback of the visible checks, in order. This the agent may see."""
        jobs = [_job(item, item.problem.visible_checks) for item in submissions]
        verdicts = self._grade(jobs)
        return [
            _feedback(item.program, item.problem.visible_checks, verdict)
            for item, verdict in zip(submissions, verdicts, strict=True)
        ]

    def judge(self, submissions: Sequence[Submission]) -> list[bool]:
        """Whether each program passes all hidden checks, in order. No agent may see this."""
        jobs = [_job(item, item.problem.hidden_checks) for item in submissions]
        return [verdict.all_passed for verdict in self._grade(jobs)]

    def _grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        distinct = list(dict.fromkeys(jobs))
        verdicts = dict(zip(distinct, self._grader.grade(distinct), strict=True))
        return [verdicts[job] for job in jobs]


def _job(submission: Submission, checks: tuple[str, ...]) -> GradeJob:
    return GradeJob(
        program=submission.program, entry_point=submission.problem.entry_point, checks=checks
    )


def _feedback(program: str, checks: tuple[str, ...], verdict: Verdict) -> Feedback:
    failed = [
        check
        for check, status in zip(checks, verdict.checks, strict=True)
        if status is not CheckStatus.PASSED
    ]
    n_passed = len(checks) - len(failed)
    summary = f"{n_passed}/{len(checks)} visible checks passed"
    # One failing check is enough to go on, as a test run that stops at the first failure gives.
    output = f"{summary}; {_reason(program, failed[0])}" if failed else summary
    return Feedback(n_passed=n_passed, n_total=len(checks), output=output)


def _reason(program: str, failed: str) -> str:
    """What a test run says of a failure: of a program that it cannot read, only that."""
    try:
        ast.parse(program)
    except (SyntaxError, ValueError):
        return "SyntaxError: the program cannot be read"
    return f"{failed} failed"
