"""A task that is judged one way the first time and another way the second."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from harness_core.rewards.flakiness import flaky_checks, n_repeated
from harness_core.rewards.grading import GradeRequest
from harness_core.sandbox.result import CheckStatus, Verdict

STEADY, FLAKY = ("assert f(1) == 1",), ("assert f(2) == 2",)
BATCH = [
    GradeRequest(f"x = {number}", "f", checks) for number in range(40) for checks in (STEADY, FLAKY)
]


def verdict(status: CheckStatus) -> Verdict:
    return Verdict(checks=(status,), layers=(), trusted=True)


class FakeJudge:
    """Passes every program the second time it is asked; the flaky ones had failed."""

    layers = ()
    trusted = True
    n_cache_hits = 0

    def __init__(self) -> None:
        self.asked: list[GradeRequest] = []

    def judge(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        return [
            verdict(CheckStatus.FAILED if request.checks == FLAKY else CheckStatus.PASSED)
            for request in requests
        ]

    def judge_anew(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        self.asked.extend(requests)
        return [verdict(CheckStatus.PASSED) for _ in requests]


def first_verdicts() -> dict[GradeRequest, Verdict]:
    return dict(zip(BATCH, FakeJudge().judge(BATCH), strict=True))


def test_checks_with_two_answers_are_found_and_only_those() -> None:
    assert flaky_checks(first_verdicts(), FakeJudge(), repeat_share=1.0) == {FLAKY}


def test_a_sample_is_asked_again_and_no_more() -> None:
    judge = FakeJudge()
    flaky_checks(first_verdicts(), judge, repeat_share=0.25)
    assert len(judge.asked) == n_repeated(BATCH, repeat_share=0.25)
    assert 5 < len(judge.asked) < 40


def test_no_sample_asks_nobody() -> None:
    judge = FakeJudge()
    assert flaky_checks(first_verdicts(), judge, repeat_share=0.0) == frozenset()
    assert judge.asked == []


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_asks_the_smaller_sample_and_more(one: float, two: float) -> None:
    small, large = sorted((one, two))
    judges = FakeJudge(), FakeJudge()
    for judge, share in zip(judges, (small, large), strict=True):
        flaky_checks(first_verdicts(), judge, repeat_share=share)
    assert set(judges[0].asked) <= set(judges[1].asked)
