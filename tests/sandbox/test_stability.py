"""The same program gets the same verdict, each time it is run."""

import sys
from collections.abc import Iterator

import pytest

from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.simulation.problems import load_problems
from tests.sandbox.hostile import CHECKS, SLOW, hostile
from tests.sandbox.tricks import TRICKS

N_REPEATS = 5
MIN_EQUAL = 0.999
SLOW_TRICKS = (
    *("17 ", "19 a clock", "31 ", "33 a giant", "33 endless", "34 endless"),
    *("43 a wide", "43 shared"),
)
RAISING = "\n\ndef f(x):\n    return [x][x - 1] + 1 if x < 9 else {}[x]\n"


def programs() -> Iterator[GradeJob]:
    """Right, wrong, raising, slow and hostile ones."""
    for name in ("a loop", "sleep"):  # first, so that the others need not wait for them
        yield GradeJob(SLOW[name].replace("NUMBER", "1"), "f", CHECKS)
    for problem in load_problems():
        for program in (problem.reference, problem.wrong_variants[0]):
            yield GradeJob(program, problem.entry_point, problem.hidden_checks)
    for trick in TRICKS:
        if not trick.name.startswith(SLOW_TRICKS):  # each would cost seconds in every repeat
            yield GradeJob(trick.program, "f", trick.checks)
    for program in hostile(n=68):
        yield GradeJob(program, "f", CHECKS)
    yield GradeJob(RAISING, "f", CHECKS)
    # What programs draw at random, and the order of their sets, is the same each time.
    yield GradeJob("import random\ndef f(x): return x + random.randrange(3)", "f", CHECKS)
    yield GradeJob("def f(x): return x + (list({'a', 'b', 'c'})[0] == 'a')", "f", CHECKS)


def test_five_repeats_give_the_same_verdicts(
    grader: Grader, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = list(programs())
    repeats = [grader.grade(jobs) for _ in range(N_REPEATS)]
    n_equal = sum(
        verdict == first
        for verdicts in repeats
        for first, verdict in zip(repeats[0], verdicts, strict=True)
    )
    n_all = N_REPEATS * len(jobs)
    differing = [
        jobs[index].program[:200]
        for index, verdicts in enumerate(zip(*repeats, strict=True))
        if len({verdict.model_dump_json() for verdict in verdicts}) > 1
    ]
    with capsys.disabled():
        sys.stdout.write(
            f"\n{n_equal} of {n_all} verdicts on {len(jobs)} programs are those of the first run\n"
        )
    assert len(jobs) >= 200
    assert n_equal >= MIN_EQUAL * n_all, differing
