"""Long plans without the steps that do nothing: by rule, without a model.

Three rules, each looking only at what was kept so far, so that compacting twice is compacting once:

- `empty`: a step without text and without arguments. Interventions (`test`, `retry`, …) need
  neither and are never empty.
- `no_op`: a step that says itself that it does nothing: punctuation, "none", "do nothing",
  `pass`, `true`, a program of comments only.
- `repeated`: the same step again. What is only said (`message`) counts wherever it was said before.
  What is done counts only directly after itself, since in between the world may have changed; and a
  tool call only if its name says that it reads: turning the page twice is not turning it once.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from harness_core.controller.request import action_of
from harness_core.records import Record
from harness_core.rewards.tool_calls import calls_of
from harness_core.trajectories.guidance import without_guidance
from harness_core.trajectories.schema import Action, JsonObject
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind

RemovalReason = Literal["empty", "no_op", "repeated"]

_NOTHING: Final = frozenset(
    {"", "none", "na", "nothing", "do nothing", "noop", "no op", "skip", "pass", "true", "continue"}
)
"""What a step that does nothing says, without its punctuation."""
_READS: Final = re.compile(
    r"(?:.*[./:])?(?:get|list|find|search|read|look_?up|show|view|describe|count)(?:[_A-Z\d].*)?",
)
"""Names of tools that change nothing."""
_COMMENT: Final = re.compile(r"^\s*(?:#|//|--).*$", re.MULTILINE)
_PUNCTUATION: Final = re.compile(r"[^\w\s]+")
_NUMBER: Final = re.compile(r"^\s*(?:step\s*)?\d+\s*[.):]\s+|^\s*[-*•]\s+", re.IGNORECASE)


class RemovedStep(Record):
    """A step that was taken out, and why."""

    index: int
    """Place in the plan as given."""
    reason: RemovalReason
    same_as: int | None = None
    """Place of the step that it repeats."""


class Compaction(Record):
    """A plan without the steps that do nothing."""

    steps: tuple[JsonObject, ...]
    """The kept steps, as given and in order."""
    kept: tuple[int, ...]
    """Their places in the plan as given."""
    removed: tuple[RemovedStep, ...]


def compact(steps: Sequence[Mapping[str, Any] | str]) -> Compaction:
    """Take out what does nothing; the order of the rest stays.

    Args:
        steps: each a text, or a mapping with `text` and, where known, `kind` and `arguments`; a
            text is a `message`.

    Raises:
        ParameterError: a kind is no known word.
    """
    given = [_complete(step) for step in steps]
    kept: list[int] = []
    removed: list[RemovedStep] = []
    said: dict[bytes, int] = {}
    last: bytes | None = None
    for index, step in enumerate(given):
        action = action_of(step)
        key = _key(action)
        same = said.get(key)
        if same is None and key == last and _changes_nothing_twice(action):
            same = kept[-1]
        reason = _does_nothing(action)
        if reason is not None:
            removed.append(RemovedStep(index=index, reason=reason))
        elif same is not None:
            removed.append(RemovedStep(index=index, reason="repeated", same_as=same))
        else:
            kept.append(index)
            last = key
            if action.kind is ActionKind.MESSAGE:
                said[key] = index
    return Compaction(
        steps=tuple(given[index] for index in kept), kept=tuple(kept), removed=tuple(removed)
    )


def plan_text(steps: Sequence[Mapping[str, Any] | str] | str) -> str:
    """A plan as one text, a step a line; a text is taken as it is."""
    if isinstance(steps, str):
        return steps
    return "\n".join(step if isinstance(step, str) else _line(step) for step in steps)


def _line(step: Mapping[str, Any]) -> str:
    words = (str(step.get("text") or ""), _json(step.get("arguments") or {}).decode())
    return words[0] if words[1] == "{}" else " ".join(filter(None, words))


def _complete(step: Mapping[str, Any] | str) -> JsonObject:
    if isinstance(step, str):
        return {"kind": ActionKind.MESSAGE.value, "text": step}
    return {"kind": ActionKind.MESSAGE.value, **step, "text": str(step.get("text") or "")}


def _does_nothing(action: Action) -> RemovalReason | None:
    if action.kind in INTERVENTIONS or without_guidance(action.arguments):
        return None
    text = _COMMENT.sub("", action.text) if action.kind is ActionKind.CODE else action.text
    if not action.text.strip():
        return "empty"
    said = _PUNCTUATION.sub(" ", _NUMBER.sub("", text)).lower().split()
    return "no_op" if " ".join(said) in _NOTHING else None


def _changes_nothing_twice(action: Action) -> bool:
    if action.kind is not ActionKind.TOOL_CALL:
        return True
    return all(_READS.fullmatch(call.name) for call in calls_of(action))


def _key(action: Action) -> bytes:
    """What makes two steps the same: their words, without number and spacing."""
    text = action.text
    if action.kind is ActionKind.MESSAGE:
        text = " ".join(_NUMBER.sub("", text).lower().split())
    # Indentation is meaning in a program; only the blank around it is not.
    return _json([action.kind.value, text.strip(), without_guidance(action.arguments)])


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
