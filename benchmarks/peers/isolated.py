"""Our own grader: a jailed process a candidate, in long-lived boxes; values compared outside."""

from collections.abc import Sequence
from typing import Final

from benchmarks.candidates import Candidate
from benchmarks.peers.method import Outcome
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import Sandbox


class Isolated:
    """Grades in the sandbox."""

    name: Final = "isolated"

    def __init__(self, sandbox: Sandbox) -> None:
        self._grader = Grader(sandbox)

    def grade(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """One batch for the pool."""
        jobs = [GradeJob(item.program, item.entry_point, item.checks) for item in candidates]
        return [Outcome(verdict.all_passed) for verdict in self._grader.grade(jobs)]
