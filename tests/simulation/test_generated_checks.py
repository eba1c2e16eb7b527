import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.simulation.generated_checks import varied_calls, write_checks
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import problem_pool

PROBLEMS = load_problems()


@settings(deadline=None, max_examples=40)
@given(problem=st.sampled_from(PROBLEMS), seed=st.integers(0, 1000))
def test_varied_calls_are_different_calls_of_the_entry_point(problem, seed):
    calls = varied_calls(problem, rng=random.Random(seed))
    assert len(set(calls)) == len(calls) > 0
    assert all(call.startswith(f"{problem.entry_point}(") for call in calls)


@pytest.fixture(scope="module")
def written(params: Params):
    few = PROBLEMS[::8]
    pools = {problem.id: problem_pool(problem, seed=0) for problem in few}
    with open_sandbox(params.sandbox) as boxes:
        checks = write_checks(pools, few, seed=0, runner=boxes)
        again = write_checks(pools, few, seed=0, runner=boxes)
        jobs = [
            GradeJob(
                program=problem.reference,
                entry_point=problem.entry_point,
                checks=checks[problem.id],
            )
            for problem in few
        ]
        verdicts = Grader(boxes, cache=None).grade(jobs)
    return few, checks, again, verdicts


def test_the_same_seed_writes_the_same_checks(written):
    _, checks, again, _ = written
    assert checks == again


def test_most_generated_checks_are_right_and_many_are_wrong(written):
    _, _, _, verdicts = written
    shares = [verdict.n_passed / verdict.n_usable for verdict in verdicts]
    mean = sum(shares) / len(shares)
    assert 0.5 < mean < 0.95
    assert min(shares) < 1


def test_no_hidden_check_is_handed_out_as_a_generated_one(written):
    few, checks, _, _ = written
    copied = [problem.id for problem in few if set(checks[problem.id]) == {*problem.hidden_checks}]
    assert not copied
