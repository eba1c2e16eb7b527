"""Figures as Markdown: tables, numbers, intervals."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]


def generic_tables(figures: Figures) -> list[str]:
    """One table a top-level key, for figures that have no form of their own."""
    lines: list[str] = []
    for part, rows in leaves(figures).items():
        if part != "machine":
            lines += [f"**{part.replace('_', ' ')}**", "", *markdown_table(["", "found"], rows), ""]
    return lines[:-1]


def leaves(figures: Figures) -> dict[str, list[list[str]]]:
    """Top-level key → rows of path and value; plain values come together under `run`."""
    parts: dict[str, list[list[str]]] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping) and value:
            parts[name] = [[path, shown] for path, shown in _paths(value)]
        elif value not in ({}, []):
            parts.setdefault("run", []).append([spaced(name), _shown(value)])
    return parts


def _paths(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, item in value.items():
        path = f"{prefix}{spaced(str(name))}"
        if isinstance(item, Mapping) and _is_estimate(item):
            yield path, _estimate(item)
        elif isinstance(item, Mapping):
            yield from _paths(item, f"{path} · ")
        else:
            yield path, _shown(item)


def _is_estimate(item: Mapping[str, Any]) -> bool:
    return {"low", "high"} <= item.keys() and ("value" in item or "mean" in item)


def _estimate(item: Mapping[str, Any]) -> str:
    value = item.get("value", item.get("mean"))
    return f"{_shown(value)} {as_interval([item['low'], item['high']], 3)}"


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
