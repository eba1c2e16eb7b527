"""What a replay changes, as a table for people."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table


def as_table(result: Mapping[str, Any]) -> Table:
    """One line a figure, before and after."""
    table = Table(box=box.MARKDOWN)
    for name in ("", "before", "after"):
        table.add_column(name, justify="left" if not name else "right")
    n = result["n_replayed"]
    table.add_row("decisions", str(result["n_decisions"]), str(n))
    table.add_row("picks changed", "", f"{result['n_picks_changed']} of {n}")
    for words, key in (("stood aside", "abstained"), ("filtered", "candidates_filtered")):
        table.add_row(words, *(str(result[key][side]) for side in ("before", "after")))
    for words, key in (("expected success", "expected_success"), ("mean risk", "risk")):
        table.add_row(words, *(_share(result[key][side]) for side in ("before", "after")))
    tokens = result["completion_tokens"]
    table.add_row(
        "completion tokens (estimated)", *(_number(tokens[side]) for side in ("before", "after"))
    )
    reported = result["reported_success"]
    table.add_row(
        f"reported success ({reported['n_reported']}, same answer {reported['n_same_answer']})",
        _share(reported["rate"]),
        _share(reported["rate_same_answer"]),
    )
    return table


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f}"
