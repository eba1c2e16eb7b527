"""An agent that plays the part of a language model: it draws its programs from a pool."""

import random
from collections.abc import Sequence
from typing import Final

from harness_core.simulation.agent import AgentState, Proposal
from harness_core.simulation.pool import ProgramPool
from harness_core.simulation.problems import Problem
from harness_core.simulation.profiles import SkillProfile, right_rate
from harness_core.simulation.responses import Effect, changed_rate, effect_of

_PLAIN_THOUGHTS: Final = (
    "I write down what the statement says.",
    "This looks simple, one pass should do.",
    "I start from the examples and generalise.",
    "A direct solution is enough here.",
)
_CAREFUL_THOUGHTS: Final = (
    "Before I write it I look at the empty case and at the limits.",
    "I read the statement twice; the special cases at the end matter.",
    "I go through the examples by hand, then through a case they do not show.",
)
_REVISING_THOUGHTS: Final = (
    "The last program failed a check, so I go through that case again.",
    "The feedback points at a case that I had missed.",
    "Something is wrong in the last program; I change it where the failing check leads.",
)
# Care goes with success, but loosely: the words alone must not decide.
_CARE_WHEN_RIGHT: Final = 0.5
_CARE_WHEN_WRONG: Final = 0.35
_CHARACTERS_PER_TOKEN: Final = 4


class SimulatedAgent:
    """One model at work on one problem. It knows the answers, but uses them only by its skill."""

    name: Final = "simulated-coder"
    version: Final = "1"

    def __init__(
        self, problem: Problem, profile: SkillProfile, *, pool: ProgramPool, rng: random.Random
    ) -> None:
        self._problem = problem
        self._profile = profile
        self._pool = pool
        self._rng = rng
        self._right_rate = right_rate(profile, problem)

    @property
    def model(self) -> str:
        """Name of the simulated model."""
        return self._profile.model

    def propose(self, state: AgentState, k: int) -> list[Proposal]:
        """Draw `k` candidates; each failed attempt in the history makes right ones likelier."""
        effect = self._effect(state)
        return [self._candidate(state, effect) for _ in range(k)]

    def right_rate(self, state: AgentState) -> float:
        """Probability that a candidate is drawn from the right programs. No agent knows it."""
        profile, effect = self._profile, self._effect(state)
        repeats = effect.stubbornness * profile.stubbornness if state.history else 0.0
        faults = profile.dangerous * effect.dangerous + profile.broken * effect.broken
        return (1 - repeats) * (1 - faults) * (1 - self._missing(state, effect))

    def _effect(self, state: AgentState) -> Effect:
        given = None if state.guidance is None else state.guidance.id
        return effect_of(given, self._problem, has_feedback=bool(state.history))

    def _candidate(self, state: AgentState, effect: Effect) -> Proposal:
        code = self._code(state, effect)
        thought = self._thought(state, is_right=code in self._pool.right)
        n_tokens = (len(thought) + len(code)) // _CHARACTERS_PER_TOKEN + 1
        return Proposal(thought=thought, code=code, n_tokens=n_tokens)

    def _code(self, state: AgentState, effect: Effect) -> str:
        profile, rng = self._profile, self._rng
        stubbornness = profile.stubbornness * effect.stubbornness
        if state.history and rng.random() < stubbornness:
            return state.history[-1].program
        draw = rng.random()
        dangerous = profile.dangerous * effect.dangerous
        if draw < dangerous:
            return rng.choice(self._pool.dangerous)
        if draw < dangerous + profile.broken * effect.broken:
            return rng.choice(self._pool.broken)
        if rng.random() >= self._missing(state, effect):
            return rng.choice(self._pool.right)
        tried = {attempt.program for attempt in state.history}
        untried = [program for program in self._pool.wrong if program not in tried]
        return _early_ones_first(untried or self._pool.wrong, rng=rng)

    def _missing(self, state: AgentState, effect: Effect) -> float:
        """Rate of mistakes among programs without another fault."""
        revision = changed_rate(self._profile.revision, effect.revision)
        unlearnt = (1 - revision) ** len(state.history)
        return (1 - changed_rate(self._right_rate, effect.skill)) * unlearnt

    def _thought(self, state: AgentState, *, is_right: bool) -> str:
        if state.history:
            return self._rng.choice(_REVISING_THOUGHTS)
        care = _CARE_WHEN_RIGHT if is_right else _CARE_WHEN_WRONG
        is_careful = self._rng.random() < care
        return self._rng.choice(_CAREFUL_THOUGHTS if is_careful else _PLAIN_THOUGHTS)


def _early_ones_first(programs: Sequence[str], *, rng: random.Random) -> str:
    """Draw with weights 1, 1/2, 1/3, …: popular mistakes are made by many."""
    weights = [1 / rank for rank in range(1, len(programs) + 1)]
    return rng.choices(programs, weights=weights)[0]
