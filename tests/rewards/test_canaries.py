"""A grader that lets an impossible task pass is found out before its verdicts are used."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from harness_core.errors import CanaryPassed, IsolationUnavailable, SandboxError
from harness_core.params import Params
from harness_core.rewards.canaries import CONTROL, canaries, refuse_if_fooled
from harness_core.rewards.grading import GradeRequest
from harness_core.rewards.judge import open_judge
from harness_core.sandbox.result import CheckStatus, Verdict

BATCH = [
    GradeRequest(f"def f(x):\n    return x + {number}\n", "f", checks)
    for number in range(12)
    for checks in (
        ("assert f(1) == 2", "assert f(2) == 3"),
        ("def check(candidate):\n    assert candidate(3) == 4\n",),
        ("print('this asserts nothing')",),
    )
]


class FakeJudge:
    """Answers as it is told; the control passes."""

    layers = ("fake",)
    trusted = True
    n_cache_hits = 0

    def __init__(self, passes: Callable[[GradeRequest], bool]) -> None:
        self._passes = passes

    def judge(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        return [self._verdict(request) for request in requests]

    judge_anew = judge

    def _verdict(self, request: GradeRequest) -> Verdict:
        status = CheckStatus.PASSED if self._passes(request) else CheckStatus.FAILED
        return Verdict(checks=(status,) * len(request.checks), layers=("fake",), trusted=True)


def test_a_canary_asks_for_a_value_and_its_contrary() -> None:
    for request in canaries(BATCH, n_canaries=10):
        first, second = request.checks
        assert second == first.replace(" == ", " != ")
    assert len(canaries(BATCH, n_canaries=10)) == 10
    assert len(canaries(BATCH, n_canaries=10**6)) == 24


def test_canaries_are_the_same_in_whatever_order_the_log_was_read() -> None:
    assert canaries(BATCH, n_canaries=10) == canaries(BATCH[::-1], n_canaries=10)


def test_half_of_them_are_known_cheats() -> None:
    programs = {request.program for request in BATCH}
    cheats = [item for item in canaries(BATCH, n_canaries=10) if item.program not in programs]
    assert len(cheats) == 5
    assert len({item.program for item in cheats}) >= 3


def test_a_grader_that_believes_anything_is_refused() -> None:
    judge = FakeJudge(lambda request: True)
    with pytest.raises(CanaryPassed, match=r"passed `assert f\(.*` and its contrary.*no verdict"):
        refuse_if_fooled(canaries(BATCH, n_canaries=4), judge)


def test_a_grader_that_fails_everything_is_refused() -> None:
    with pytest.raises(SandboxError, match="harness doctor"):
        refuse_if_fooled(canaries(BATCH, n_canaries=4), FakeJudge(lambda request: False))


def test_a_grader_that_only_the_control_passes_is_believed() -> None:
    refuse_if_fooled(canaries(BATCH, n_canaries=4), FakeJudge(lambda request: request == CONTROL))
    refuse_if_fooled([], FakeJudge(lambda request: False))


@pytest.fixture(scope="module")
def judge(params: Params, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    try:
        with open_judge(params.sandbox, cache=tmp_path_factory.mktemp("cache")) as opened:
            yield opened
    except IsolationUnavailable as error:
        pytest.skip(f"no isolation on this machine: {error}")


def test_the_real_grader_passes_no_canary(judge) -> None:
    refuse_if_fooled(canaries(BATCH, n_canaries=24), judge)


def test_the_real_grader_sees_a_program_that_changes_its_mind(judge) -> None:
    program = "answers = iter([2])\ndef f(*a): return next(answers, None)\n"
    request = GradeRequest(program, "f", ("assert f(1) == 2", "assert f(1) != 2"))
    (verdict,) = judge.judge_anew([request])
    assert verdict.stateful
    assert not verdict.is_honest
