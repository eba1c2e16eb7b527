"""The simulated agent under guidance, the draws of sample logs, and what their rows say."""

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from harness_core.importers.base import ImportContext
from harness_core.importers.native import NativeImporter
from harness_core.params import Params
from harness_core.rewards.tools import action_key
from harness_core.simulation.agent import AgentState, Attempt, Feedback, Guidance
from harness_core.simulation.config import SampleConfig
from harness_core.simulation.environment import Environment
from harness_core.simulation.problems import Problem
from harness_core.simulation.profiles import PROFILES
from harness_core.simulation.responses import RESPONSES
from harness_core.simulation.runs import Run, play, problem_pool, simulated_agent, start_state
from harness_core.simulation.simulated_agent import SimulatedAgent
from harness_core.simulation.writer import log_bytes
from harness_core.trajectories.guidance import guidance_of
from harness_core.trajectories.guidance_library import GuidanceLibrary, load_library
from harness_core.trajectories.schema import Step, Trajectory
from tests.simulation.conftest import KnowingGrader

CONFIG = SampleConfig(seed=3, n_runs=4, n_candidates=3, max_attempts=3, guidance_share=0.6)
FAILED = Feedback(n_passed=0, n_total=2, output="0/2 visible checks passed; assert f(1) failed")


@pytest.fixture(scope="module")
def library(project_root: Path) -> GuidanceLibrary:
    return load_library(project_root / "guidance.yaml")


@pytest.fixture(scope="module")
def references(problems: tuple[Problem, ...]) -> Environment:
    return Environment(KnowingGrader(frozenset(problem.reference for problem in problems)))


@pytest.fixture(scope="module")
def runs(
    problems: tuple[Problem, ...], references: Environment, library: GuidanceLibrary
) -> list[Run]:
    return play(problems[:20], config=CONFIG, environment=references, library=library)


def under(state: AgentState, template_id: str) -> AgentState:
    return state.model_copy(update={"guidance": Guidance(id=template_id, text="…")})


@cache
def agent_of(problem: Problem) -> SimulatedAgent:
    return simulated_agent(problem, number=0, seed=0)


def gain(problem: Problem, template_id: str, state: AgentState | None = None) -> float:
    agent = agent_of(problem)
    state = state or start_state(problem)
    return agent.right_rate(under(state, template_id)) - agent.right_rate(state)


def test_the_agent_knows_every_template_that_ships(library: GuidanceLibrary):
    assert set(library.ids) == set(RESPONSES)


def test_no_template_is_best_in_all_families(problems: tuple[Problem, ...]):
    best = {
        problem.family: max(RESPONSES, key=lambda name: gain(problem, name)) for problem in problems
    }
    assert len(set(best.values())) >= 3
    for name in ("edge-cases", "list-rules", "name-the-state"):
        gains = [gain(problem, name) for problem in problems]
        assert min(gains) < -0.02
        assert max(gains) > 0.1
    # It differs within a family too, so that knowing the family does not tell all.
    arrays = [gain(problem, "edge-cases") for problem in problems if problem.family == "arrays"]
    assert max(arrays) > 1.3 * min(arrays) > 0


def test_programs_are_drawn_at_the_rate_that_guidance_makes(problems: tuple[Problem, ...]):
    problem = next(item for item in problems if item.family == "strings")
    pool = problem_pool(problem, seed=0)
    for name in ("edge-cases", "be-quick"):
        agent = SimulatedAgent(problem, PROFILES[0], pool=pool, rng=random.Random(name))
        state = under(start_state(problem), name)
        found = sum(item.code in pool.right for item in agent.propose(state, 3000)) / 3000
        assert found == pytest.approx(agent.right_rate(state), abs=0.03)


def test_the_failing_check_helps_only_where_one_has_failed(problems: tuple[Problem, ...]):
    problem = problems[0]
    wrong = problem_pool(problem, seed=0).wrong[0]
    failed = start_state(problem).model_copy(
        update={"history": (Attempt(program=wrong, feedback=FAILED),)}
    )
    assert gain(problem, "follow-the-check") < 0 < gain(problem, "follow-the-check", failed)
    assert gain(problem, "a text that nobody knows") < 0


def test_only_code_makes_broken_answers_rare_and_plain_functions_dangers(
    problems: tuple[Problem, ...],
):
    problem = problems[0]
    pool = problem_pool(problem, seed=0)

    def share(template_id: str | None, programs: tuple[str, ...]) -> float:
        agent = SimulatedAgent(problem, PROFILES[0], pool=pool, rng=random.Random(1))
        state = start_state(problem)
        state = state if template_id is None else under(state, template_id)
        return sum(item.code in programs for item in agent.propose(state, 2000)) / 2000

    assert share("only-code", pool.broken) < 0.5 * share(None, pool.broken)
    assert share("plain-function", pool.dangerous) < 0.5 * share(None, pool.dangerous)


def test_templates_are_drawn_in_their_share_and_only_where_they_are_legal(runs: list[Run]):
    firsts = [run.turns[0].guided for run in runs]
    names = Counter(item.id for item in firsts if item is not None)
    assert sum(names.values()) == len(runs)
    assert 0.25 * len(runs) < names[None] < 0.55 * len(runs)
    assert not {"follow-the-check", "start-over"} & set(names)
    later = {turn.guided.id for run in runs for turn in run.turns[1:] if turn.guided}
    assert "be-quick" not in later
    assert {"follow-the-check", "start-over"} <= later


def test_propensities_are_those_of_the_draw(runs: list[Run]):
    for run in runs:
        guided = run.turns[0].guided
        assert guided is not None
        expected = 0.4 if guided.id is None else 0.6 / 6
        assert guided.propensity == pytest.approx(expected, abs=1e-5)


def test_to_draw_guidance_changes_no_other_draw(
    problems: tuple[Problem, ...], references: Environment, library: GuidanceLibrary
):
    config = CONFIG.model_copy(update={"guidance_share": 0.0})
    without = play(problems[:5], config=config, environment=references)
    silent = play(problems[:5], config=config, environment=references, library=library)
    assert log_bytes(without) == log_bytes(silent)
    guided = play(problems[:5], config=CONFIG, environment=references, library=library)
    unguided = [
        (one.turns[0], other.turns[0])
        for one, other in zip(guided, without, strict=True)
        if one.turns[0].guided is not None and one.turns[0].guided.id is None
    ]
    assert unguided
    assert all(one.proposals == other.proposals for one, other in unguided)


def test_a_seed_decides_every_byte_of_a_guided_log(
    problems: tuple[Problem, ...],
    references: Environment,
    library: GuidanceLibrary,
    runs: list[Run],
):
    again = play(problems[:20], config=CONFIG, environment=references, library=library)
    assert log_bytes(again) == log_bytes(runs)


def test_guidance_survives_the_log_and_the_importer(
    tmp_path: Path, runs: list[Run], params: Params
):
    (tmp_path / "logs.jsonl").write_bytes(log_bytes(runs))
    context = ImportContext(source="sample", config=params.ingest)
    read = [
        item for item in NativeImporter().read(tmp_path, context) if isinstance(item, Trajectory)
    ]
    assert len(read) == len(runs)
    for run, trajectory in zip(runs, read, strict=True):
        for turn, step in zip(run.turns, trajectory.steps, strict=True):
            assert guidance_of(step.action.arguments) == turn.guided
            of_candidates = [guidance_of(item.action.arguments) for item in step.candidates]
            assert of_candidates == [turn.guided] * CONFIG.n_candidates
    assert not _told_apart_by_guidance(read)


def _told_apart_by_guidance(read: list[Trajectory]) -> list[Step]:
    return [
        step
        for trajectory in read
        for step in trajectory.steps
        if action_key(step.action) != action_key(step.action.model_copy(update={"arguments": {}}))
    ]
