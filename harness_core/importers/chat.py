"""Chat messages as steps: one assistant turn is one step, what follows it is its result."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from harness_core.importers.base import LogRecord
from harness_core.importers.framing import parse_json
from harness_core.importers.rejects import UnreadableError
from harness_core.trajectories.schema import Action, JsonObject
from harness_core.trajectories.vocabulary import ActionKind

_ERROR: Final = "Error"
_MEDIA: Final = "[media]"


class Function(LogRecord):
    """The function of a tool call; `arguments` is JSON in a string, as the model wrote it."""

    name: str
    arguments: str | dict[str, Any] = ""


class ToolCall(LogRecord):
    """One call of an assistant message."""

    function: Function


class Message(LogRecord):
    """One chat message."""

    role: str
    content: str | list[Any] | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        """The text of the content; images and sounds leave a mark only."""
        if isinstance(self.content, list):
            return "\n".join(_text_of(part) for part in self.content)
        return self.content or self.refusal or ""


@dataclass(slots=True)
class Turn:
    """An assistant message and what came back before the next one."""

    message: Message
    n_before: int
    """Number of messages before this one."""
    seen: list[Message] = field(default_factory=list)
    """What the agent saw since its last turn and was no answer to it: only before the first."""
    replies: list[Message] = field(default_factory=list)

    @property
    def result(self) -> str:
        """What the environment answered."""
        return joined(message.text for message in self.replies)

    @property
    def is_error(self) -> bool | None:
        """Whether a tool said that it failed; None if no tool was asked."""
        tools = [message.text for message in self.replies if message.role == "tool"]
        return any(text.startswith(_ERROR) for text in tools) if tools else None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, taken apart."""

    system: str
    description: str
    """The first message of the user."""
    turns: list[Turn]


def take_apart(messages: Sequence[Message]) -> Conversation:
    """System text, the user's first message, and the turns of the assistant."""
    turns: list[Turn] = []
    opening: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "assistant":
            turns.append(Turn(message=message, n_before=index))
        elif turns:
            turns[-1].replies.append(message)
        else:
            opening.append(message)
    instructions = [message for message in opening if message.role in ("system", "developer")]
    others = [message for message in opening if message.role not in ("system", "developer")]
    if turns:
        turns[0].seen = others[1:]
    return Conversation(
        system=joined(message.text for message in instructions),
        description=others[0].text if others else "",
        turns=turns,
    )


def action_of(message: Message, *, max_depth: int) -> Action:
    """The action of an assistant message: its tool call, else what it says."""
    calls = [call_of(item.function, max_depth=max_depth) for item in message.tool_calls or ()]
    return tool_action(calls) if calls else Action(kind=ActionKind.MESSAGE, text=message.text)


def tool_action(calls: Sequence[JsonObject]) -> Action:
    """One action for the tool calls of a turn; a turn rarely has more than one."""
    first, *others = calls
    arguments = {**first, "also": list(others)} if others else first
    text = canonical_json(list(calls) if others else first)
    return Action(kind=ActionKind.TOOL_CALL, text=text, arguments=arguments)


def thought_of(message: Message) -> str:
    """What the assistant thought: its reasoning, or what it said beside a tool call."""
    beside = message.text if message.tool_calls else ""
    return joined(filter(None, (message.reasoning_content or "", beside)))


def call_of(function: Function, *, max_depth: int) -> JsonObject:
    """A call as `{"name", "arguments"}`. Arguments that are no JSON object stand under `raw`."""
    arguments: Any = function.arguments
    if isinstance(arguments, str):
        try:
            parsed = parse_json(arguments.encode(), max_depth=max_depth) if arguments else {}
        except UnreadableError:
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else {"raw": arguments}
    return {"name": function.name, "arguments": arguments}


def canonical_json(value: Any) -> str:
    """JSON with sorted keys: equal values have equal texts."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def joined(texts: Iterable[str]) -> str:
    """Several messages as one text."""
    return "\n".join(texts)


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return _MEDIA
