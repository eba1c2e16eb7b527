"""What the three ways of asking a model have in common, so that all are ranked alike."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from harness_core.importers.chat import Message
from harness_core.serving.streams import StreamContent
from harness_core.trajectories.schema import JsonObject

TOKENS: Final = ("prompt_tokens", "completion_tokens")


class Dialect(Protocol):
    """One endpoint: how it says state, candidates and answers.

    A *reply* is the JSON of an answer, a *choice* is one candidate in it.
    """

    @property
    def path(self) -> str:
        """Path below our address."""

    @property
    def takes_n(self) -> bool:
        """Whether one call may ask for several candidates."""

    def messages(self, body: JsonObject) -> list[Message]:
        """The conversation so far.

        Raises:
            ValueError: there is none that can be read.
        """

    def guided(self, body: JsonObject, text: str) -> JsonObject | None:
        """The request with a text before its prompt; None where there is no place for one."""

    def choices(self, reply: JsonObject) -> list[JsonObject]:
        """The candidates of a reply, in their order."""

    def said(self, choice: JsonObject) -> Message:
        """What a candidate says, as a message of the assistant.

        Raises:
            ValueError: it cannot be read.
        """

    def usage(self, reply: JsonObject) -> dict[str, int]:
        """`prompt_tokens` and `completion_tokens`, where the reply says so."""

    def assemble(self, stream: StreamContent) -> JsonObject:
        """The reply that a stream amounts to; notes what was odd about it."""

    def answer(self, picked: Sequence["Picked"], *, decision_id: str) -> JsonObject:
        """A reply that holds the picked candidates only, counted from 0."""

    def withheld(self, reply: JsonObject, *, reason: str, decision_id: str) -> JsonObject:
        """A valid reply that says that nothing may be answered."""

    def stream(self, answer: JsonObject, body: JsonObject) -> Iterator[bytes]:
        """An answer as the stream that a client asked for."""


class Picked(Protocol):
    """One candidate with the reply that it came in."""

    @property
    def reply(self) -> JsonObject:
        """The whole reply."""

    @property
    def choice(self) -> JsonObject:
        """The candidate in it."""


def tokens(usage: Any, names: Sequence[str] = TOKENS) -> dict[str, int]:
    """Numbers of tokens under our names; what is missing is left out."""
    if not isinstance(usage, dict):
        return {}
    found = zip(TOKENS, (usage.get(name) for name in names), strict=True)
    return {name: value for name, value in found if isinstance(value, int) and value >= 0}


def with_decision(reply: JsonObject, decision_id: str) -> JsonObject:
    """A reply whose metadata name the decision."""
    metadata = reply.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {**reply, "metadata": {**own, "controller_decision_id": decision_id}}


def objects(value: Any) -> list[JsonObject]:
    """The objects of a list; anything else counts as empty."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def readable_calls(message: JsonObject) -> JsonObject:
    """A chat message whose custom tool calls look like calls of functions."""
    calls = [_as_function(call) for call in objects(message.get("tool_calls"))]
    return {**message, "tool_calls": calls or None}


def _as_function(call: JsonObject) -> JsonObject:
    custom = call.get("custom")
    if "function" in call or not isinstance(custom, dict):
        return call
    return {"function": {"name": custom.get("name"), "arguments": custom.get("input", "")}}
