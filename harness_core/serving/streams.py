"""Server-sent events: what a stream of an upstream said, and how we write one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from harness_core.trajectories.schema import JsonObject

DONE: Final = b"data: [DONE]\n\n"
_END: Final = "[DONE]"


@dataclass(slots=True)
class StreamContent:
    """What a whole stream said."""

    payloads: list[JsonObject] = field(default_factory=list)
    is_done: bool = False
    """Whether it said that it is complete."""
    oddities: set[str] = field(default_factory=set)
    """What did not keep to the protocol, each as one word."""


def read_stream(raw: bytes) -> StreamContent:
    """Take a stream apart; what cannot be read is noted and left out."""
    content = StreamContent()
    for text in _data(raw):
        if text.strip() == _END:
            content.is_done = True
            continue
        try:
            payload = orjson.loads(text)
        except orjson.JSONDecodeError:
            content.oddities.add("no_json")
            continue
        if isinstance(payload, dict):
            content.payloads.append(payload)
        else:
            content.oddities.add("no_object")
    return content


def sse(payload: Any, *, event: str | None = None) -> bytes:
    """One event."""
    head = b"" if event is None else f"event: {event}\n".encode()
    return head + b"data: " + orjson.dumps(payload) + b"\n\n"


def _data(raw: bytes) -> Iterator[str]:
    """The data of each event; the last one may lack its blank line."""
    lines: list[str] = []
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    for line in (*text.split("\n"), ""):
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []
