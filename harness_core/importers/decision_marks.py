"""What a trajectory made of logged decisions says of them, in `extra.controller`."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from harness_core.trajectories.decision_log import (
    LoggedDecision,
    LoggedOutcome,
    LoggedReview,
    LoggedRound,
)
from harness_core.trajectories.schema import JsonObject, Trajectory

CONTROLLER: Final = "controller"
"""The controller decided what was done."""
AGENT: Final = "agent"
"""The agent did what it would have done alone: the controller only looked on."""

_ACTING: Final = ("library", "rerank", "filter")
_KEPT: Final = (
    *("chosen_index", "scores", "success_probability", "reason", "fallback", "filtered", "risk"),
    *("out_of_distribution", "model_digest", "model_version", "feature_fingerprint"),
)
"""Of the controller's answer; timings would make equal runs differ."""


def policy_of(decisions: Iterable[LoggedDecision]) -> str:
    """Who the behaviour policy was: the controller, as soon as it decided once."""
    return CONTROLLER if any(map(_acted, decisions)) else AGENT


def _acted(decision: LoggedDecision) -> bool:
    """Without a model the rules alone may have put another candidate in the place of the first."""
    has_moved = (decision.answered_index or 0) > 0
    return decision.mode in _ACTING and (decision.decision is not None or has_moved)


def is_own(trajectory: Trajectory) -> bool:
    """Whether the controller made what stands in a trajectory, as its log says."""
    said = trajectory.extra.get("controller")
    return isinstance(said, dict) and said.get("policy") == CONTROLLER


def within_share(trajectories: Sequence[Trajectory], max_share: float) -> list[Trajectory]:
    """Those of others, and of the controller's own as many as make up `max_share` of the result.

    Which of its own stay is decided by digests of decision ids: neither the order of the logs nor
    an outcome that came late changes it.
    """
    own = sorted((item for item in trajectories if is_own(item)), key=_lot)
    n_others = len(trajectories) - len(own)
    # n / (n + others) ≤ share; the slack is for what floating point makes of a whole number.
    n_own = len(own) if max_share == 1 else int(max_share / (1 - max_share) * n_others + 1e-9)
    kept = {item.trajectory_id for item in own[:n_own]}
    return [item for item in trajectories if not is_own(item) or item.trajectory_id in kept]


def _lot(trajectory: Trajectory) -> str:
    said = [step.decision_id for step in trajectory.steps if step.decision_id]
    name = said[0] if said else trajectory.trajectory_id
    return hashlib.sha256(name.encode()).hexdigest()


def mark_of(
    decision: LoggedDecision, reviews: Sequence[LoggedReview], outcome: LoggedOutcome | None
) -> JsonObject:
    """One entry of `extra.controller.decisions`; what is not known is left out."""
    said = {
        "decision_id": decision.decision_id,
        "mode": decision.mode,
        "answered_index": decision.answered_index,
        "propensity": decision.propensity,
        "failure": decision.failure,
        "goal": decision.goal,
        "reviews": [review.verdict for review in reviews],
        "outcome_source": None if outcome is None else outcome.source,
        # Tries of other rounds are no candidates of the step: they were made under other guidance
        # and never stood beside those that one was chosen from.
        "turned_down": [_round(one) for one in decision.turned_down],
    }
    return {**_kept(decision.decision), **_known(said)}


def _round(one: LoggedRound) -> JsonObject:
    said = {"failure": one.failure, "candidates": list(one.candidates)}
    return {**_kept(one.decision), **_known(said)}


def _kept(answer: JsonObject | None) -> JsonObject:
    return _known({key: (answer or {}).get(key) for key in _KEPT})


def _known(said: JsonObject) -> JsonObject:
    return {key: value for key, value in said.items() if value not in (None, [])}
