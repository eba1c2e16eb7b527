"""A controller that likes short texts; cheap to import, for processes that decide with it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from harness_core.controller.decision import Decision, Reason
from harness_core.controller.guard import filter_dangerous
from harness_core.rewards.tool_policy import PolicyRule, ToolPolicy
from harness_core.serving.conversation import actions_of
from harness_core.trajectories.vocabulary import Language

POLICY = ToolPolicy(
    version=1,
    default="allow",
    rules=(
        PolicyRule(id="entry-files", tool=("write_*",), effect="deny"),
        PolicyRule(id="weather", tool=("get_*",), effect="needs_review"),
    ),
)
GOOD_ENOUGH_S = 5.0


class ShortestFirst:
    """A controller that likes short texts, and does what a test tells it besides."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.asked: list[tuple[dict[str, Any], list[dict[str, Any]], Any]] = []
        self.waits_for: threading.Event | None = None
        self.raises: BaseException | None = None

    def wants_more(self, decision: Decision, *, price: float | None = None) -> bool:
        """Half of what is missing to certainty may be hoped for."""
        assert decision.success_probability is not None
        return (1 - decision.success_probability) / 2 >= (price or 0)

    def select(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: Any = None,
    ) -> Decision:
        self.asked.append((dict(state), [dict(one) for one in candidates], goal))
        if self.waits_for is not None:
            self.waits_for.wait(GOOD_ENOUGH_S)
        if self.raises is not None:
            raise self.raises
        actions = actions_of([dict(one) for one in candidates])
        language = Language(state["language"])
        filtered = filter_dangerous(actions, language=language, policy=POLICY)
        out = {item.index for item in filtered}
        scores = tuple(
            None if index in out else -float(len(one["text"]))
            for index, one in enumerate(candidates)
        )
        kept = [index for index, score in enumerate(scores) if score is not None]
        best = max(kept, key=lambda index: scores[index] or 0.0) if kept else None
        values: dict[str, Any] = {
            "decision_id": "inner",
            "chosen_index": best,
            "scores": scores,
            "component_scores": ({},) * len(scores),
            "success_probability": 0.5,
            "reason": Reason.BEST_SCORE if kept else Reason.ALL_FILTERED,
            "fallback": None,
            "filtered": filtered,
            "propensity": 1.0,
            "model_digest": "m",
            "feature_fingerprint": "f",
        }
        return Decision(**{**values, **(self.changes if kept else {})})
