"""What a replay changes, counted: both answers to each decision side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from harness_core.serving.outcomes import DecisionStory

_N_LISTED: Final = 100
"""Decisions that change which are written out; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one side says to one request."""

    pick: int | None
    success: float | None
    """Calibrated probability of the pick, be it the best candidate or what a fallback took."""
    abstained: bool
    n_filtered: int
    completion_tokens: float | None

    def shown(self) -> dict[str, Any]:
        """For people and programs."""
        return {
            "pick": self.pick,
            "success_probability": self.success,
            "abstained": self.abstained,
            "n_filtered": self.n_filtered,
            "completion_tokens": self.completion_tokens,
        }


Replayed = tuple[DecisionStory, Answer, Answer]
"""A decision, what was said then, and what is said now."""


def figures(pairs: Sequence[Replayed]) -> dict[str, Any]:
    """Figures before and after, and the decisions that change."""
    changed = [pair for pair in pairs if pair[1].pick != pair[2].pick]
    return {
        "n_picks_changed": len(changed),
        "abstained": _sums(pairs, lambda answer: answer.abstained),
        "candidates_filtered": _sums(pairs, lambda answer: answer.n_filtered),
        "expected_success": _means(pairs, "success"),
        "risk": _risk(pairs),
        "completion_tokens": _means(pairs, "completion_tokens", total=True),
        "reported_success": _reported(pairs),
        "changed": [
            {
                "decision_id": story.decision.decision_id,
                "before": before.shown(),
                "after": after.shown(),
            }
            for story, before, after in changed[:_N_LISTED]
        ],
    }


def _sums(pairs: Sequence[Replayed], count: Any) -> dict[str, int]:
    return {
        "before": sum(int(count(before)) for _, before, _ in pairs),
        "after": sum(int(count(after)) for _, _, after in pairs),
    }


def _means(pairs: Sequence[Replayed], name: str, *, total: bool = False) -> dict[str, Any]:
    """Over the decisions where both sides know it."""
    known = [
        (getattr(before, name), getattr(after, name))
        for _, before, after in pairs
        if getattr(before, name) is not None and getattr(after, name) is not None
    ]
    if not known:
        return {"before": None, "after": None, "n_known": 0}
    fold = sum if total else fmean
    return {
        "before": float(fold(first for first, _ in known)),
        "after": float(fold(second for _, second in known)),
        "n_known": len(known),
    }


def _risk(pairs: Sequence[Replayed]) -> dict[str, Any]:
    """Mean probability that an accepted pick fails, on each side of those that it accepts."""
    before = _risks([answer for _, answer, _ in pairs])
    after = _risks([answer for _, _, answer in pairs])
    return {
        "before": fmean(before) if before else None,
        "after": fmean(after) if after else None,
        "n_before": len(before),
        "n_after": len(after),
    }


def _risks(answers: Sequence[Answer]) -> list[float]:
    known = [answer.success for answer in answers if not answer.abstained]
    return [1 - success for success in known if success is not None]


def _reported(pairs: Sequence[Replayed]) -> dict[str, Any]:
    """What was reported of decisions, and of those whose answer would have been the same.

    Of the others nobody knows how they would have gone.
    """
    known = [
        (bool(story.outcome.success), story.decision.answered_index == after.pick)
        for story, _, after in pairs
        if story.outcome is not None and story.outcome.success is not None
    ]
    kept = [success for success, is_same in known if is_same]
    return {
        "n_reported": len(known),
        "n_same_answer": len(kept),
        "rate": fmean(success for success, _ in known) if known else None,
        "rate_same_answer": fmean(kept) if kept else None,
    }
