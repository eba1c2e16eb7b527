"""Figures as Markdown: tables, numbers, intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return as_verdict(value)
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"  # noqa: PLR2004
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return "" if value is None else str(value)


def flattened(goal: Any) -> list[str]:
    """A goal as words: what was wanted, what was found."""
    if isinstance(goal, Mapping):
        return [f"{spaced(str(name))} {_shown(value)}" for name, value in goal.items()]
    return [_shown(goal)]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def spaced(name: str) -> str:
    """A key as words."""
    return name.replace("_", " ")


def as_share(value: float | None, digits: int = 3) -> str:
    """A share as a decimal fraction; nothing for None."""
    return "" if value is None else f"{value:.{digits}f}"


def as_percent(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.1f}"


def as_points(value: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def as_interval(ends: Sequence[float | None] | None, digits: int, *, scale: float = 1.0) -> str:
    """The ends in brackets; nothing where one is not known."""
    if ends is None or any(end is None for end in ends):
        return ""
    shown = ", ".join(f"{scale * end:.{digits}f}" for end in ends if end is not None)
    return f"[{shown}]".replace("-", "−")


def as_gain(found: Figures) -> str:
    """By how much the controller is better, in points with an interval."""
    if "controller_gains" not in found:
        return ""
    ends = as_interval(found["gain_interval"], 1, scale=100)
    return f"{as_points(found['controller_gains'])} {ends}"


def as_verdict(is_reached: bool) -> str:  # noqa: FBT001  # one word for one flag
    """Whether a goal is reached."""
    return "reached" if is_reached else "missed"
