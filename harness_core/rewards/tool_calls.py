"""The tool calls of an action: name and arguments, however the caller wrote them down."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from harness_core.rewards.tool_patterns import text_of
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import Language

_RAW: Final = "raw"
"""Where importers put arguments that are no JSON object."""
_MAX_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool."""

    name: str
    """Empty where the call cannot be read."""
    arguments: Any

    def values(self, path: str) -> list[Any]:
        """Everything that stands at a dotted path.

        `*` in it is any key or any element of a list, `a|b` are two paths.
        """
        return [value for one in path.split("|") for value in _at(self.arguments, one)]

    def codes(self, path: str, language: Language) -> Iterator[str]:
        """Texts to be looked at for danger: the argument, or all of arguments nobody could read."""
        found = self.values(path)
        if not found and isinstance(self.arguments, dict) and set(self.arguments) == {_RAW}:
            raw = text_of(self.arguments[_RAW])
            # Whatever stands between the marks of JSON may be the code.
            found = [raw, re.sub(r'[{}\[\]",]|\w+"?\s*:(?=\s)', "\n", raw)]
        for value in found:
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                # A command as a list of words, or the lines of a cell.
                yield shlex.join(value) if language is Language.SHELL else "\n".join(value)
            else:
                yield text_of(value)


def calls_of(action: Action) -> list[ToolCall]:
    """The calls of a `tool_call` action, at least one.

    Importers give `arguments` as `{"name", "arguments"}`, further calls of the turn under `also`. A
    request at run time may give the text alone, which then is the same as JSON.
    """
    described: Any = action.arguments
    if not isinstance(described.get("name"), str):
        try:
            described = orjson.loads(action.text)
        except orjson.JSONDecodeError:
            described = {}
    return list(_calls(described)) or [ToolCall(name="", arguments={_RAW: action.text})]


def _calls(described: Any, *, depth: int = 0) -> Iterator[ToolCall]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(described, list):
        for item in described:
            yield from _calls(item, depth=depth + 1)
    elif isinstance(described, dict):
        # OpenAI's form nests the call under `function` and writes the arguments as a text.
        call = described.get("function", described)
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            yield ToolCall(name=call["name"], arguments=_parsed(call.get("arguments")))
        yield from _calls(described.get("also", []), depth=depth + 1)


def _parsed(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            parsed = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            parsed = None
        return parsed if isinstance(parsed, dict) else {_RAW: arguments}
    return {} if arguments is None else arguments


def _at(value: Any, path: str) -> Iterator[Any]:
    """Values at a path; a key that holds dots itself is found too."""
    if not path:
        yield value
        return
    if isinstance(value, dict) and path in value:
        yield value[path]
        return
    head, _, rest = path.partition(".")
    for item in _children(value, head):
        yield from _at(item, rest)


def _children(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        if key == "*":
            yield from value.values()
        elif key in value:
            yield value[key]
    elif isinstance(value, list):
        if key == "*":
            yield from value
        elif key.isdecimal() and int(key) < len(value):
            yield value[int(key)]
