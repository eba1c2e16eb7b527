"""What the page of a decision shows, as plain values for its template."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from harness_core.serving.review.queue import Cause, ReviewItem
from harness_core.serving.review.readable import MAX_SHOWN_CHARS, compared, pretty
from harness_core.serving.review.rule_words import rule_in_words
from harness_core.trajectories.decision_log import LoggedReview

CAUSE_WORDS: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        "abstained": "The controller was not sure enough to choose.",
        "all_filtered": "Every candidate was filtered as dangerous, so nothing was chosen.",
        "policy": "The tool policy asks for a person's agreement before this is run.",
        "filtered": "The filter took candidates out. If one of them is harmless, appeal it.",
    }
)
CAUSE_NAMES: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        "abstained": "not sure enough",
        "all_filtered": "all filtered",
        "policy": "agreement asked for",
        "filtered": "may be appealed",
    }
)
_REASON_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "best_score": "highest score",
        "exploration": "a draw by lot, to explore",
        "only_candidate": "the only candidate left",
        "low_confidence": "the best candidate is below the threshold",
        "all_filtered": "every candidate was filtered",
        "out_of_distribution": "the state is stranger than is allowed",
        "risk_too_high": "no candidate is among those whose risk is bounded",
        "rules_only": "nothing was scored: the first candidate that no rule takes out",
        "good_enough": "the best attempt is likely enough to succeed",
        "not_good_enough": "the best attempt is not likely enough to succeed",
    }
)
_TOLD_APART: Final = frozenset(
    {"description", "initial_state", "language", "task_id", "history", "family", "source"}
)
_LAST_STEPS: Final = 3


def decision_view(item: ReviewItem) -> dict[str, Any]:
    """The values of `decision.html.jinja`."""
    logged, decision = item.logged, item.decision
    suggested = item.suggested_index
    return {
        "id": item.decision_id,
        "decided_at": when(logged.decided_at),
        "mode": logged.mode,
        "session": logged.session_id,
        "causes": [CAUSE_WORDS[cause] for cause in item.causes],
        "reason": _REASON_WORDS.get(decision.reason, decision.reason.replace("_", " ")),
        "probability": decision.success_probability,
        "risk": decision.risk,
        "strangeness": decision.out_of_distribution,
        "model_version": decision.model_version,
        "suggested": None if suggested is None else suggested + 1,
        "suggested_by": _suggested_by(item),
        "state": state_view(logged.state),
        "goal": logged.goal,
        "candidates": [_candidate(item, index) for index in range(len(logged.candidates))],
        "has_allowed": bool(item.allowed),
        "needs_verdict": item.needs_verdict,
    }


def state_view(state: Mapping[str, Any]) -> dict[str, Any]:
    """Task and history as a reviewer reads them; every other field as JSON."""
    history = state.get("history")
    steps = [_step(one) for one in history] if isinstance(history, Sequence) else []
    for number, step in enumerate(steps, start=1):
        step["number"] = number
    rest = {name: value for name, value in state.items() if name not in _TOLD_APART and value}
    return {
        "description": cut(pretty(state.get("description") or "")),
        "initial_state": cut(pretty(state.get("initial_state") or "")),
        "labels": [str(state[name]) for name in ("task_id", "language") if state.get(name)],
        "earlier": steps[:-_LAST_STEPS],
        "last": steps[-_LAST_STEPS:],
        "rest": cut(pretty(rest)) if rest else "",
    }


def review_view(review: LoggedReview) -> dict[str, Any]:
    """One earlier review."""
    number = None if review.chosen_index is None else review.chosen_index + 1
    words = {
        "approve": f"approved candidate {number}",
        "choose": f"chose candidate {number}",
        "correct": "wrote a correction",
        "appeal": f"appealed the filter on candidate {number}",
        "reject": "rejected every candidate",
    }
    return {
        "reviewer": review.reviewer,
        "at": when(review.reviewed_at),
        "verdict": words[review.verdict],
        "correction": review.correction,
        "note": review.note,
    }


def body_of(candidate: Mapping[str, Any]) -> str:
    """What a candidate would do: its arguments where it has some, else its text."""
    arguments = candidate.get("arguments")
    return pretty(arguments) if arguments else pretty(candidate.get("text") or "")


def when(moment: datetime) -> str:
    """A time for people, in UTC as everywhere."""
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def cut(text: str) -> str:
    """At most what a page can show."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}\n… {len(text) - MAX_SHOWN_CHARS:,} more characters"


def _candidate(item: ReviewItem, index: int) -> dict[str, Any]:
    candidate = item.logged.candidates[index]
    suggested = item.suggested_index
    body = body_of(candidate)
    other = None
    if suggested is not None and suggested != index:
        other = cut(body_of(item.logged.candidates[suggested]))
    filtered = item.filtered.get(index)
    asked = {one.index: one.rules for one in item.decision.needs_review}.get(index, ())
    text = pretty(candidate.get("text") or "")
    return {
        "index": index,
        "number": index + 1,
        "kind": str(candidate.get("kind", "")).replace("_", " "),
        "lines": compared(cut(body), other),
        "is_cut": len(body) > MAX_SHOWN_CHARS,
        "text": cut(text) if candidate.get("arguments") and text else "",
        "badges": _badges(item, index),
        "score": _at(item.decision.scores, index),
        "probability": _at(item.decision.success_probabilities, index),
        "components": _at(item.decision.component_scores, index) or {},
        "filtered": None if filtered is None else [_rule(rule) for rule in filtered],
        "asked": [_rule(rule) for rule in asked],
    }


def _badges(item: ReviewItem, index: int) -> list[str]:
    badges = []
    if index == item.decision.chosen_index:
        badges.append("controller's pick")
    if index == 0:
        badges.append("agent's first")
    if index == item.logged.answered_index:
        badges.append("what the agent got")
    return badges


def _suggested_by(item: ReviewItem) -> str:
    if item.suggested_index == item.decision.chosen_index:
        return "the controller's pick"
    if item.suggested_index == item.logged.answered_index:
        return "what the agent got"
    return "the highest score"


def _rule(rule: str) -> dict[str, str]:
    return {"id": rule, "words": rule_in_words(rule)}


def _step(step: Any) -> dict[str, Any]:
    if not isinstance(step, Mapping):
        return {"kind": "", "parts": [("", cut(pretty(step)))], "is_error": False}
    named = (
        ("saw", step.get("observation")),
        ("did", body_of(step)),
        ("result", step.get("result")),
    )
    parts = [(name, cut(pretty(value))) for name, value in named if value]
    return {
        "kind": str(step.get("kind", "")).replace("_", " "),
        "parts": parts,
        "is_error": step.get("is_error") is True,
    }


def _at(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else None
