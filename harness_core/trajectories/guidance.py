"""Guidance: a text put before an agent's prompt, and how a record says which one was in force.

An action taken where a template might have been drawn carries, among its arguments,

    "guidance": {"id": "edge-cases", "propensity": 0.1}

with `id` null where none was given, which was a draw with a propensity too. It is part of the
action: known before the outcome, chosen by the harness, the same for all candidates of a state. It
does not tell actions apart: the same program under other guidance is the same program again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError

from harness_core.records import Record
from harness_core.trajectories.schema import JsonObject

ARGUMENT: Final = "guidance"


class Guided(Record):
    """Which template was in force when an action was proposed."""

    id: str | None
    """None where no template was given."""
    propensity: float = Field(gt=0, le=1)
    """Probability with which just this was given, in this state."""


def guidance_of(arguments: Mapping[str, Any]) -> Guided | None:
    """What the arguments of an action say of guidance; None where they are silent."""
    found = arguments.get(ARGUMENT)
    if not isinstance(found, Mapping):
        return None
    try:
        return Guided.model_validate(dict(found))
    except ValidationError:
        return None  # somebody else's argument of the same name


def with_guidance(arguments: Mapping[str, Any], guided: Guided | None) -> JsonObject:
    """The arguments of an action that was proposed under guidance."""
    return {**arguments} if guided is None else {**arguments, ARGUMENT: guided.model_dump()}


def without_guidance(arguments: Mapping[str, Any]) -> JsonObject:
    """The arguments that make an action what it is."""
    if guidance_of(arguments) is None:
        return {**arguments}
    return {name: value for name, value in arguments.items() if name != ARGUMENT}


class Tried(NamedTuple):
    """What counts of an earlier step for the question which guidance fits now."""

    key: str
    """What makes two actions the same."""
    result: str
    is_error: bool | None = None


def is_repeat(tried: Sequence[Tried]) -> bool:
    """Whether the last action had been taken before."""
    return bool(tried) and tried[-1].key in {item.key for item in tried[:-1]}
