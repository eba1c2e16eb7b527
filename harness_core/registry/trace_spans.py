"""A finished span as whoever writes traces takes it; costs nothing to import."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class TraceSpan(NamedTuple):
    """One span of a trace, in nanoseconds since the epoch."""

    name: str
    kind: str
    """`DECISION`, `GUARDRAIL`, …"""
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    """Texts, numbers, truth values and lists of one of them."""
    inputs: Any = None
    """Content, only where it was asked for."""
    outputs: Any = None
    children: "tuple[TraceSpan, ...]" = ()


class TraceWriter(Protocol):
    """What sends finished traces somewhere."""

    def write(self, span: TraceSpan, *, session_id: str | None, tags: Mapping[str, str]) -> None:
        """Send one span with its children; may raise, which its caller counts."""

    def close(self) -> None:
        """Send what is still on its way."""
