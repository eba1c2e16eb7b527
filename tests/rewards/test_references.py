"""A check that the task's own solution fails says nothing of other programs."""

from harness_core.rewards.grading import GradeRequest
from harness_core.rewards.references import refuted_checks, without_refuted
from harness_core.sandbox.result import CheckStatus, Verdict

PASSED, FAILED, UNUSABLE = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.UNUSABLE
CHECKS = ("assert f(1) == 2", "assert f(2) == 9", "assert f(3) == 4")
OTHERS = ("assert f(4) == 5",)


def verdict(*checks: CheckStatus) -> Verdict:
    return Verdict(checks=checks, layers=(), trusted=True)


def request(program: str, checks: tuple[str, ...]) -> GradeRequest:
    return GradeRequest(program, "f", checks)


REFUTED = refuted_checks(
    {
        request("reference", CHECKS): verdict(PASSED, FAILED, PASSED),
        request("reference", OTHERS): verdict(PASSED),
    }
)


def test_only_what_a_reference_fails_is_refuted() -> None:
    assert dict(REFUTED.items()) == {("f", CHECKS): frozenset({1})}


def test_a_refuted_check_is_unusable_for_every_program() -> None:
    verdicts = {
        request("right", CHECKS): verdict(PASSED, FAILED, PASSED),
        request("lucky", CHECKS): verdict(FAILED, PASSED, FAILED),
        request("right", OTHERS): verdict(PASSED),
    }
    right, lucky, other = without_refuted(verdicts, REFUTED).values()
    assert (right.checks, right.all_passed) == ((PASSED, UNUSABLE, PASSED), True)
    assert (lucky.checks, lucky.n_passed) == ((FAILED, UNUSABLE, FAILED), 0)
    assert other.checks == (PASSED,)


def test_checks_of_another_entry_point_are_left_alone() -> None:
    other = GradeRequest("right", "g", CHECKS)
    (found,) = without_refuted({other: verdict(FAILED, FAILED, FAILED)}, REFUTED).values()
    assert found.checks == (FAILED,) * 3
