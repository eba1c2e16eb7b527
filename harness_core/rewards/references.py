"""Checks that the task's own reference does not pass here: they grade nobody.

A check may need a package, a file or a right that the box does not give, or be wrong. Then every
program fails it, the best one too, and a 0 for it would be a lie. So references are graded like
candidates, and what they fail is unusable for all.
"""

from collections.abc import Mapping

from harness_core.rewards.grading import GradeRequest
from harness_core.sandbox.result import CheckStatus, Verdict

Checks = tuple[str | None, tuple[str, ...]]
"""Entry point and list of checks: what a task asks of every program."""


def refuted_checks(references: Mapping[GradeRequest, Verdict]) -> dict[Checks, frozenset[int]]:
    """Numbers of the checks that a reference fails, by list of checks; only lists with some."""
    found = {
        (request.entry_point, request.checks): frozenset(
            number for number, status in enumerate(verdict.checks) if status is CheckStatus.FAILED
        )
        for request, verdict in references.items()
    }
    return {checks: numbers for checks, numbers in found.items() if numbers}


def without_refuted(
    verdicts: Mapping[GradeRequest, Verdict], refuted: Mapping[Checks, frozenset[int]]
) -> dict[GradeRequest, Verdict]:
    """The verdicts, with refuted checks unusable."""
    return {
        request: _masked(verdict, refuted.get((request.entry_point, request.checks), frozenset()))
        for request, verdict in verdicts.items()
    }


def _masked(verdict: Verdict, numbers: frozenset[int]) -> Verdict:
    if not numbers:
        return verdict
    checks = tuple(
        CheckStatus.UNUSABLE if number in numbers else status
        for number, status in enumerate(verdict.checks)
    )
    return verdict.model_copy(update={"checks": checks})
