"""The problems, a real sandbox to try programs in, and a grader that knows what is right."""

from collections.abc import Iterator, Sequence

import pytest

from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.result import CheckStatus, Verdict
from harness_core.simulation.environment import Environment
from harness_core.simulation.problems import Problem, load_problems


class KnowingGrader:
    """A fake that runs nothing: a program passes if it is one of the given ones."""

    def __init__(self, right: frozenset[str]) -> None:
        self._right = right
        self.n_graded = 0

    def grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        self.n_graded += len(jobs)
        return [self._verdict(job) for job in jobs]

    def _verdict(self, job: GradeJob) -> Verdict:
        last = CheckStatus.PASSED if job.program in self._right else CheckStatus.FAILED
        passed = [CheckStatus.PASSED] * (len(job.checks) - 1)
        return Verdict(checks=(*passed, last), layers=(), trusted=False)


@pytest.fixture(scope="session")
def problems() -> tuple[Problem, ...]:
    return load_problems()


@pytest.fixture(scope="session")
def environment(params: Params) -> Iterator[Environment]:
    with open_sandbox(params.sandbox) as boxes:
        yield Environment(Grader(boxes, cache=None))


@pytest.fixture
def references_only(problems: tuple[Problem, ...]) -> Environment:
    return Environment(KnowingGrader(frozenset(problem.reference for problem in problems)))
