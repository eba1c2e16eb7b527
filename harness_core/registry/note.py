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
    if not by_size:
        return []
    baselines = sorted({name for row in by_size.values() for name in row.get("baselines", {})})
    titles = ["K", *(title for _, title in _COLUMNS), *baselines, "tasks"]
    lines = [_row(titles), _row(["---"] * len(titles))]
    for size, row in by_size.items():
        own = [_share(row.get(name)) for name, _ in _COLUMNS]
        others = [_share(row.get("baselines", {}).get(name)) for name in baselines]
        lines.append(_row([size, *own, *others, str(row.get("n_tasks", "–"))]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
