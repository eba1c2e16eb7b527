"""A generated log of agent runs whose true values are known: a chain with noisy features.

A run must make `GOAL` steps forward within `HORIZON` actions. An action has a level, which is its
chance of a step forward; the agent draws levels evenly. The last action of a run pays 1 if the goal
is reached. Nobody sees progress, time or level: features are random projections of them in noise.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from harness_core.features.batch import Flags, Floats, Integers, TransitionArrays
from harness_core.trajectories.vocabulary import ActionKind, Split

GOAL: Final = 4
HORIZON: Final = 8
CHANCE: Final = np.array([0.1, 0.35, 0.6, 0.85])
"""Chance of a step forward, by level of the action."""
DISCOUNT: Final = 0.98
N_KINDS: Final = len(ActionKind)

SIGNAL: Final = 5.0
"""Length of a projection, in standard deviations of the noise in one direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What truly happened, one row an action, ordered by run."""

    run: Integers  # [N]
    progress: Integers  # [N] before the action
    time: Integers  # [N]
    level: Integers  # [N]
    is_last: Flags  # [N]
    reward: Floats  # [N]
    success: Flags  # [N] of the whole run

    def true_q(self) -> Floats:
        """Discounted value of each action if the agent goes on as it does, [N]."""
        q: Floats = true_values()[self.progress, self.time, self.level].astype(np.float32)
        return q


@dataclass(frozen=True, slots=True, kw_only=True)
class Projections:
    """How the hidden numbers show in the features; the same for every log of one seed."""

    state: Floats  # [GOAL + HORIZON, Ds]
    action: Floats  # [levels, Da − kinds]

    @classmethod
    def draw(
        cls, *, n_state: int, n_action: int, seed: int, signal: float = SIGNAL
    ) -> "Projections":
        """Projections to these widths; the first columns of an action are the one-hot kind."""
        rng = np.random.default_rng([seed, 0])
        return cls(
            state=signal * _directions(rng, GOAL + HORIZON, n_state),
            action=signal * _directions(rng, len(CHANCE), n_action - N_KINDS),
        )

    def features(self, runs: Runs, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """State, action and next state of each row; the next state is 0 after the last action."""
        n_rows = len(runs.run)
        state = self.state[runs.progress] + self.state[GOAL + runs.time]
        state += _normal(rng, *state.shape)
        kind = np.eye(N_KINDS, dtype=np.float32)[rng.integers(N_KINDS, size=n_rows)]
        shown = self.action[runs.level]
        shown += _normal(rng, *shown.shape)
        next_state = np.zeros_like(state)
        next_state[:-1] = state[1:]
        next_state[runs.is_last] = 0.0
        return state, np.hstack([kind, shown]), next_state


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLog:
    """A log as the learners take it, with the truth beside it."""

    arrays: TransitionArrays
    runs: Runs


def generate(*, n_runs: int, projections: Projections, seed: int) -> AgentLog:
    """A log of `n_runs` runs; equal seeds give equal logs."""
    rng = np.random.default_rng([seed, 1])
    runs = play(n_runs, rng)
    state, action, next_state = projections.features(runs, rng)
    return AgentLog(
        arrays=as_arrays(runs, state=state, action=action, next_state=next_state), runs=runs
    )


def play(n_runs: int, rng: np.random.Generator) -> Runs:
    """Let the agent run."""
    level = rng.integers(len(CHANCE), size=(n_runs, HORIZON))
    forward = rng.random((n_runs, HORIZON)) < CHANCE[level]
    after = np.cumsum(forward, axis=1)
    before: Integers = after - forward
    happened: Flags = np.less(before, GOAL)
    is_goal: Flags = np.logical_and(happened, np.equal(after, GOAL))
    is_end: Flags = is_goal.copy()
    is_end[:, -1] |= happened[:, -1]
    is_won: Flags = np.asarray(is_goal.any(axis=1))
    rows = np.nonzero(happened)
    return Runs(
        run=rows[0],
        progress=before[rows],
        time=rows[1],
        level=level[rows],
        is_last=is_end[rows],
        reward=is_goal[rows].astype(np.float32),
        success=is_won[rows[0]],
    )


def as_arrays(runs: Runs, *, state: Floats, action: Floats, next_state: Floats) -> TransitionArrays:
    """One component, the success; every run is a task of its own."""
    n_rows = len(runs.run)
    return TransitionArrays(
        trajectory=runs.run,
        step_index=runs.time,
        state=state,
        action=action,
        next_state=next_state,
        rewards=runs.reward[:, None],
        discount=np.where(runs.is_last, 0.0, DISCOUNT).astype(np.float32),
        fold=np.zeros(n_rows, dtype=np.int64),
        split=np.full(n_rows, str(Split.TRAIN)),
        task_id=np.char.add("run/", runs.run.astype(np.str_)),
        # So that there is an actor to learn, as the peers have one.
        intervention=action[:, :N_KINDS].argmax(axis=1),
    )


def true_values() -> Floats:
    """Q of the agent's own policy by dynamic programming, [GOAL, HORIZON, levels]."""
    q = np.zeros((GOAL, HORIZON, len(CHANCE)))
    following = np.zeros(GOAL)  # worth of what comes after, by progress; nothing after the end
    for time in reversed(range(HORIZON)):
        forward = np.append(following[1:], 1.0)
        q[:, time] = CHANCE * forward[:, None] + (1.0 - CHANCE) * following[:, None]
        following = DISCOUNT * q[:, time].mean(axis=1)
    return q.astype(np.float32)


def _directions(rng: np.random.Generator, n: int, width: int) -> Floats:
    drawn = _normal(rng, n, width)
    directions: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return directions


def _normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape, dtype=np.float32)
