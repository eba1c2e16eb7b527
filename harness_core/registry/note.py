"""The description of a run that people read first, as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_COLUMNS: Final = (
    ("random", "random"),
    ("selected", "**controller**"),
    ("oracle", "oracle"),
    ("gap_closed", "gap closed"),
)


def run_note(
    verdict: Mapping[str, Any], evaluation: Mapping[str, Any], *, warnings: Sequence[str] = ()
) -> str:
    """Verdict in words, its reasons, success by K, and what the data gate warned of."""
    lines = [f"**{verdict.get('summary', verdict['verdict'])}**", ""]
    lines += [f"- {reason}" for reason in verdict.get("reasons", ())]
    lines += ["", *_table(evaluation.get("k", {}))]
    if warnings:
        lines += ["", "Warnings of the data gate:", "", *(f"- {text}" for text in warnings)]
    return "\n".join(lines)


def _table(by_size: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Success by selector and K, as in the report."""
    if not by_size:
        return []
    baselines = sorted({name for row in by_size.values() for name in row.get("baselines", {})})
    titles = ["success at K =", *by_size]
    lines = [_row(titles), _row(["---"] * len(titles))]
    for name, title in _COLUMNS:
        lines.append(_row([title, *(_share(row.get(name)) for row in by_size.values())]))
    for name in baselines:
        found = (row.get("baselines", {}).get(name) for row in by_size.values())
        lines.append(_row([name.replace("_", " "), *map(_share, found)]))
    return [*lines, _row(["tasks", *(str(row.get("n_tasks", "–")) for row in by_size.values())])]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
