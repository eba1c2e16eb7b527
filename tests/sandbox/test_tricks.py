import pytest

from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.result import CheckStatus, Verdict
from tests.sandbox.tricks import TRICKS, Trick


@pytest.fixture(scope="module")
def verdicts(boxed) -> dict[str, Verdict]:
    jobs = [GradeJob(trick.program, "f", trick.checks) for trick in TRICKS]
    graded = Grader(boxed).grade(jobs)
    return dict(zip((trick.name for trick in TRICKS), graded, strict=True))


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_no_trick_passes_a_check(trick: Trick, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[trick.name]
    assert verdict.checks == (CheckStatus.FAILED,) * len(trick.checks)
    assert verdict.tampered == trick.flagged


def test_an_honest_program_passes_after_all_the_tricks(verdicts, grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob("def f(x): return x + 1", "f", ("assert f(1) == 2",))])
    assert verdict.all_passed
    assert not verdict.tampered


def test_the_corpus_is_large_enough_and_named_once() -> None:
    assert len({trick.name for trick in TRICKS}) == len(TRICKS) >= 50
