"""The table of probes for people, and as the one JSON object of `harness audit rewards`."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

Audited = Mapping[str, Any]


def as_json(audited: Audited, *, literal: bool) -> dict[str, Any]:
    """What is printed: the present scheme, and the literal one beside it if it is asked for."""
    shown = ("present", "literal") if literal else ("present",)
    return {
        "passed": audited["present"]["passed"],
        **{name: audited[name] for name in shown},
        "tasks": audited["tasks"],
        "weak_tasks": audited["weak_tasks"],
    }


def as_table(audited: Audited, *, literal: bool) -> Table:
    """One line a probe: by how much honest attempts earn more, and what to blame if too little.

    `any` is the margin to the closest honest attempt of all and must not be below 0; `merit` to the
    closest of those that pass a visible test, and must be above 0.
    """
    table = Table(box=box.MARKDOWN)
    table.add_column("probe", no_wrap=True)
    schemes = ("present", "literal") if literal else ("present",)
    for name in schemes:
        prefix = f"{name}: " if literal else ""
        table.add_column(f"{prefix}any", justify="right")
        table.add_column("merit", justify="right")
        table.add_column("blame", overflow="fold")
    lines = [{item["probe"]: item for item in audited[name]["probes"]} for name in schemes]
    for probe in lines[0]:
        table.add_row(probe, *(cell for line in lines for cell in _cells(line.get(probe))))
    return table


def _cells(item: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if item is None:
        return ("", "", "")
    strict = item["strict_margin"]
    blamed = ", ".join(blame["component"] for blame in item["blamed"])
    return (
        f"{item['worst_margin']:+.2f}",
        "" if strict is None else f"{strict:+.2f}",
        "" if item["passed"] else blamed or "every weight",
    )
