"""What an action earns by the log alone: outcome, progress, refused and repeated calls, costs."""

import unicodedata
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import orjson

from harness_core.trajectories.guidance import without_guidance
from harness_core.trajectories.schema import Action, Outcome, Usage
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind

_PASSING: Final = frozenset({"pass", "passed", "ok", "success"})


def logged_outcome(outcome: Outcome) -> float | None:
    """What the log says of the result, in [0, 1]: its score, else its success; None if silent."""
    if outcome.score is not None:
        return min(1.0, max(0.0, outcome.score))
    return None if outcome.success is None else float(outcome.success)


def logged_success(outcome: Outcome) -> bool | None:
    """Whether the log claims success: its own word, else a full score; None if it is silent."""
    if outcome.success is not None or outcome.score is None:
        return outcome.success
    return outcome.score >= 1.0


def claims_to_pass(extra: Mapping[str, Any], step_index: int) -> bool:
    """Whether the log says of a step, in a bare word, that its tests passed.

    A plain `true` may only mean that tests were run, so it claims nothing.
    """
    claims = extra.get("claims")
    claim = claims.get(str(step_index)) if isinstance(claims, Mapping) else None
    return isinstance(claim, str) and claim.strip().lower() in _PASSING


def progress_of(graded: Sequence[float | None]) -> list[float] | None:
    r"""Potential-based shaping Φ_t − Φ_(t−1) with Φ_(−1) = 0 (Ng, Harada and Russell, 1999).

    Φ_t is the graded value of turn t, clipped to [0, 1]; an ungraded turn keeps the value before.
    The potential is not discounted, so that the sum telescopes to the last Φ exactly: whatever
    way a run takes, it is paid the value it ends with, and going back and forth pays nothing.
    None when the log grades no turn.
    """
    if all(value is None for value in graded):
        return None
    differences, potential = [], 0.0
    for value in graded:
        reached = potential if value is None else min(1.0, max(0.0, value))
        differences.append(reached - potential)
        potential = reached
    return differences


def repeated_action(action: Action, earlier: AbstractSet[str]) -> float | None:
    """1 when the same action was taken before in the trajectory; None for an intervention.

    `earlier` holds the keys of those actions. An intervention carries no text: testing again after
    a revision repeats nothing.
    """
    if action.kind in INTERVENTIONS:
        return None
    return float(action_key(action) in earlier)


def action_key(action: Action) -> str:
    """What makes two actions the same: kind, arguments, and text up to blanks and Unicode form.

    In code the blanks before a line mean something, so only those behind it and empty lines go.
    The guidance that an action was proposed under makes it no other action.
    """
    text = unicodedata.normalize("NFKC", action.text)
    if action.kind is ActionKind.CODE:
        text = "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
    else:
        text = " ".join(text.split())
    own = without_guidance(action.arguments)
    arguments = orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode()
    return f"{action.kind.value}\0{text}\0{arguments}"


def token_cost(usage: Usage) -> float | None:
    """Thousands of tokens read and written; None when the log counts neither."""
    counts = [
        count for count in (usage.prompt_tokens, usage.completion_tokens) if count is not None
    ]
    return sum(counts) / 1000 if counts else None
