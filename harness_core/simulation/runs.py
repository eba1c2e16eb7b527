"""Runs of simulated agents: candidates, a uniform choice, visible checks, and the next attempt."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from harness_core.simulation.agent import (
    Agent,
    AgentState,
    Attempt,
    Feedback,
    Guidance,
    Proposal,
)
from harness_core.simulation.config import SampleConfig
from harness_core.simulation.environment import Environment, Submission
from harness_core.simulation.pool import ProgramPool, build_pool
from harness_core.simulation.problems import Problem
from harness_core.simulation.profiles import PROFILES
from harness_core.simulation.simulated_agent import SimulatedAgent
from harness_core.trajectories.guidance import Guided, Tried
from harness_core.trajectories.guidance_library import (
    NO_TEMPLATES,
    GuidanceLibrary,
    GuidanceTemplate,
    situations_of,
)

DIGITS: Final = 6
"""Decimals of what a log says of probabilities."""
_N_PROFILES: Final = len(PROFILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One state of a run: what was proposed, what was taken, and what came back."""

    observation: str
    proposals: tuple[Proposal, ...]
    chosen_index: int
    feedback: Feedback
    guided: Guided | None = None
    """The guidance of all proposals; None where no template could have been drawn."""

    @property
    def chosen(self) -> Proposal:
        """The proposal that was taken."""
        return self.proposals[self.chosen_index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One agent on one problem."""

    problem: Problem
    number: int
    agent: Agent
    turns: tuple[Turn, ...] = ()

    @property
    def has_passed(self) -> bool:
        """Whether the last program passed all visible checks, which ends a run."""
        return bool(self.turns) and self.turns[-1].feedback.all_passed

    @property
    def state(self) -> AgentState:
        """What the agent knows before its next turn."""
        history = tuple(
            Attempt(program=turn.chosen.code, feedback=turn.feedback) for turn in self.turns
        )
        return start_state(self.problem).model_copy(update={"history": history})


def start_state(problem: Problem) -> AgentState:
    """What an agent knows of a problem before its first attempt."""
    return AgentState(
        task_id=problem.id,
        prompt=problem.prompt,
        entry_point=problem.entry_point,
        visible_checks=problem.visible_checks,
    )


def simulated_agent(
    problem: Problem, *, number: int, seed: int, pool: ProgramPool | None = None
) -> SimulatedAgent:
    """The agent of one run. Models take turns, so that each meets every problem."""
    shift = random.Random(f"model/{problem.id}").randrange(_N_PROFILES)
    return SimulatedAgent(
        problem,
        PROFILES[(number + shift) % _N_PROFILES],
        pool=pool or problem_pool(problem, seed=seed),
        rng=random.Random(f"agent/{seed}/{problem.id}/{number}"),
    )


def problem_pool(problem: Problem, *, seed: int) -> ProgramPool:
    """The programs that agents know for a problem under a seed."""
    return build_pool(problem, rng=random.Random(f"pool/{seed}/{problem.id}"))


def legal_templates(state: AgentState, library: GuidanceLibrary) -> tuple[GuidanceTemplate, ...]:
    """The templates that may be given to an agent in a state."""
    tried = [Tried(item.program, item.feedback.output) for item in state.history]
    return library.legal(situations_of(tried))


def guided_state(state: AgentState, template: GuidanceTemplate | None) -> AgentState:
    """The state with a template put before the prompt."""
    if template is None:
        return state
    guidance = Guidance(id=template.id, text=template.text)
    return state.model_copy(update={"guidance": guidance})


def play(
    problems: Sequence[Problem],
    *,
    config: SampleConfig,
    environment: Environment,
    library: GuidanceLibrary = NO_TEMPLATES,
) -> list[Run]:
    """Play all runs, attempt by attempt, so that the programs of a round are graded in one batch.

    In a share of the states an agent is given a template of the library, drawn evenly among those
    that are legal there.

    Each run draws from generators of its own: the result depends on the seed and the problem only,
    neither on other problems nor on the number of workers.
    """
    runs = [
        Run(
            problem=problem,
            number=number,
            agent=simulated_agent(problem, number=number, seed=config.seed, pool=pool),
        )
        for problem in problems
        for pool in [problem_pool(problem, seed=config.seed)]
        for number in range(config.n_runs)
    ]
    policies = _generators("policy", runs, seed=config.seed)
    guides = _generators("guidance", runs, seed=config.seed)
    for _ in range(config.max_attempts):
        going = [place for place, run in enumerate(runs) if not run.has_passed]
        drafts = [
            _draft(
                runs[place],
                config=config,
                policy=policies[place],
                drawn=_draw(runs[place].state, library, config.guidance_share, rng=guides[place]),
            )
            for place in going
        ]
        submissions = [
            Submission(runs[place].problem, draft.chosen.code)
            for place, draft in zip(going, drafts, strict=True)
        ]
        answers = environment.test(submissions)
        for place, draft, feedback in zip(going, drafts, answers, strict=True):
            turn = replace(draft, feedback=feedback)
            runs[place] = replace(runs[place], turns=(*runs[place].turns, turn))
    return runs


def _generators(name: str, runs: Sequence[Run], *, seed: int) -> list[random.Random]:
    """One generator a run, of its own for each purpose: to draw more of one changes no other."""
    return [random.Random(f"{name}/{seed}/{run.problem.id}/{run.number}") for run in runs]


class _Drawn(NamedTuple):
    template: GuidanceTemplate | None
    guided: Guided | None


def _draw(
    state: AgentState, library: GuidanceLibrary, share: float, *, rng: random.Random
) -> _Drawn:
    """A template, or none, with the probability of just that."""
    legal = legal_templates(state, library)
    if not legal or not share:
        return _Drawn(None, None)
    if rng.random() >= share:
        return _Drawn(None, Guided(id=None, propensity=round(1 - share, DIGITS)))
    template = rng.choice(legal)
    guided = Guided(id=template.id, propensity=round(share / len(legal), DIGITS))
    return _Drawn(template, guided)


def _draft(run: Run, *, config: SampleConfig, policy: random.Random, drawn: _Drawn) -> Turn:
    """The next turn, not yet tested."""
    state = guided_state(run.state, drawn.template)
    proposals = tuple(run.agent.propose(state, config.n_candidates))
    return Turn(
        observation=f"Attempt {len(run.turns) + 1} of {config.max_attempts}.",
        proposals=proposals,
        chosen_index=policy.randrange(len(proposals)),
        feedback=Feedback(n_passed=0, n_total=0, output=""),
        guided=drawn.guided,
    )
