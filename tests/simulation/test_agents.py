"""Agents, their runs, and the closed loop."""

import random
from collections import Counter

import pytest

from harness_core.errors import NoDataError, ParameterError
from harness_core.rewards.danger_python import python_rules
from harness_core.simulation.agent import Agent, AgentState, Attempt, Feedback
from harness_core.simulation.closed_loop import Choose, ClosedLoopResult, first_pass_rate
from harness_core.simulation.config import SampleConfig
from harness_core.simulation.environment import Environment, Submission
from harness_core.simulation.problems import Problem
from harness_core.simulation.profiles import PROFILES, right_rate
from harness_core.simulation.runs import play, problem_pool, simulated_agent, start_state
from harness_core.simulation.simulated_agent import SimulatedAgent

CONFIG = SampleConfig(seed=3, n_runs=6, n_candidates=4, max_attempts=3, guidance_share=0.0)


def is_dangerous(program: str) -> bool:
    return any(python_rules(program))


def agent_for(problem: Problem, number: int = 0) -> Agent:
    return simulated_agent(problem, number=number, seed=3)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_an_agent_proposes_exactly_k_complete_programs(problems: tuple[Problem, ...], k: int):
    for problem in problems[::10]:
        proposals = agent_for(problem).propose(start_state(problem), k)
        assert len(proposals) == k
        assert all(item.code and item.thought and item.n_tokens > 0 for item in proposals)


def test_a_state_shows_nothing_that_is_hidden(problems: tuple[Problem, ...]):
    assert not {"hidden_checks", "reference", "wrong_variants"} & {*AgentState.model_fields}
    for problem in problems:
        shown = start_state(problem).model_dump_json()
        assert not [check for check in problem.hidden_checks if check in shown]


def test_equal_agents_propose_the_same(problems: tuple[Problem, ...]):
    problem = problems[0]
    first, second = (agent_for(problem).propose(start_state(problem), 8) for _ in range(2))
    assert first == second


def test_models_take_turns_and_larger_ones_are_better(problems: tuple[Problem, ...]):
    models = Counter(agent_for(problems[0], number).model for number in range(6))
    assert set(models.values()) == {2}
    means = [sum(right_rate(item, p) for p in problems) / len(problems) for item in PROFILES]
    assert means == sorted(means)
    assert means[-1] - means[0] > 0.1
    # The better model is not better everywhere, or the prior alone would decide.
    small, medium, _ = PROFILES
    assert any(right_rate(small, item) > right_rate(medium, item) for item in problems)


def test_failing_feedback_makes_the_right_program_likelier(problems: tuple[Problem, ...]):
    n_right = [0, 0]
    for problem in problems[::4]:
        pool = problem_pool(problem, seed=0)
        agent = SimulatedAgent(problem, PROFILES[2], pool=pool, rng=random.Random(problem.id))
        failed = Feedback(n_passed=0, n_total=2, output="0/2 visible checks passed")
        history = (Attempt(program=pool.wrong[0], feedback=failed),) * 2
        fresh = start_state(problem)
        revised = fresh.model_copy(update={"history": history})
        for place, state in enumerate((fresh, revised)):
            n_right[place] += sum(item.code in pool.right for item in agent.propose(state, 50))
    assert n_right[1] > 1.1 * n_right[0]


def test_a_run_ends_with_the_first_program_that_passes_the_visible_checks(
    problems: tuple[Problem, ...], references_only: Environment
):
    runs = play(problems[:20], config=CONFIG, environment=references_only)
    assert len(runs) == 20 * CONFIG.n_runs
    for run in runs:
        assert not any(turn.feedback.all_passed for turn in run.turns[:-1])
        assert run.has_passed == (run.turns[-1].chosen.code == run.problem.reference)
        assert run.has_passed or len(run.turns) == CONFIG.max_attempts
        assert all(len(turn.proposals) == CONFIG.n_candidates for turn in run.turns)
    assert {run.has_passed for run in runs} == {True, False}


def test_the_behaviour_policy_is_uniform(
    problems: tuple[Problem, ...], references_only: Environment
):
    runs = play(problems, config=CONFIG, environment=references_only)
    chosen = Counter(turn.chosen_index for run in runs for turn in run.turns)
    expected = sum(chosen.values()) / CONFIG.n_candidates
    assert all(abs(chosen[index] - expected) < 0.2 * expected for index in range(4))


def test_a_run_depends_on_no_other_problem(
    problems: tuple[Problem, ...], references_only: Environment
):
    alone = play(problems[5:6], config=CONFIG, environment=references_only)
    among = play(problems[:10], config=CONFIG, environment=references_only)
    turns = [run.turns for run in among if run.problem == problems[5]]
    assert [run.turns for run in alone] == turns


def test_feedback_names_the_first_failing_check(
    problems: tuple[Problem, ...], environment: Environment
):
    problem = next(item for item in problems if item.entry_point == "lift_travel")
    wrong = "def lift_travel(calls):\n    return 3\n"
    right, failed = environment.test(
        [Submission(problem, problem.reference), Submission(problem, wrong)]
    )
    assert right.output == "2/2 visible checks passed"
    assert failed.output == "1/2 visible checks passed; assert lift_travel([2, 5]) == 5 failed"
    (unreadable,) = environment.test([Submission(problem, "def lift_travel(calls:\n")])
    assert unreadable.output.endswith("; SyntaxError: the program cannot be read")


def test_a_closed_loop_counts_what_the_controller_picked(
    problems: tuple[Problem, ...], references_only: Environment
):
    def measure(choose: Choose) -> ClosedLoopResult:
        return first_pass_rate(
            agent_for,
            problems,
            choose,
            environment=references_only,
            is_dangerous=is_dangerous,
            k=8,
        )

    references = {problem.reference for problem in problems}
    first = measure(lambda _, proposals: 0)
    oracle = measure(
        lambda _, proposals: max(
            range(len(proposals)), key=lambda index: proposals[index].code in references
        )
    )
    reckless = measure(
        lambda _, proposals: max(
            range(len(proposals)), key=lambda index: is_dangerous(proposals[index].code)
        )
    )
    assert first.n_problems == len(problems)
    assert first.success_rate < oracle.success_rate
    assert oracle.dangerous_rate < reckless.dangerous_rate


def test_a_closed_loop_refuses_a_pick_that_does_not_exist(
    problems: tuple[Problem, ...], references_only: Environment
):
    with pytest.raises(ParameterError, match="picked candidate 4, but there are 4"):
        first_pass_rate(
            agent_for,
            problems[:1],
            lambda _, proposals: len(proposals),
            environment=references_only,
            is_dangerous=lambda _: False,
            k=4,
        )
    with pytest.raises(NoDataError, match="at least one problem"):
        first_pass_rate(
            agent_for,
            (),
            lambda *_: 0,
            environment=references_only,
            is_dangerous=lambda _: False,
            k=4,
        )
