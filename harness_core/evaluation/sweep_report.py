"""The sweep of reward weights for people: sentences, a table in Markdown, a figure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from matplotlib.figure import Figure

from harness_core.evaluation.config import PRESENT
from harness_core.evaluation.labels import is_known, points
from harness_core.evaluation.weight_sweep import SUCCESS

NO_GOAL: Final = "no_goal"
"""Picks without a goal: success head and second stage, which know no weights."""

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {"attempt": "complete attempts", "step": "actions proposed for one state"}
)

_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        SUCCESS: "success, %",
        "dangerous_unfiltered": "dangerous*, %",
        "visible_rate": "visible checks, %",
        "clean": "clean style, %",
        "lines": "lines",
        "excess_lines": "excess lines",
        "characters": "characters",
    }
)
_SHARES: Final = frozenset({SUCCESS, "dangerous_unfiltered", "visible_rate", "clean", "differs"})
_REFERENCES: Final = ("random", NO_GOAL, "oracle")
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"random": "random pick", "oracle": "oracle", NO_GOAL: "no goal", PRESENT: "present weights"}
)
_ALIKE: Final = 0.01
"""Share of other picks below which two settings pick alike."""
_PANELS: Final = 3
"""Panels side by side; more are too small to read where the picture is shown."""
_GREY: Final = "#64748b"
_BLUE: Final = "#1d4ed8"
_RED: Final = "#b91c1c"
_GRID: Final = "#e2e8f0"


def readings(result: Mapping[str, Any]) -> list[str]:
    """What the sweep says, in sentences."""
    found = [
        sentence
        for kind, words in KINDS.items()
        if result[kind] is not None
        for sentence in _of_kind(result[kind], words)
    ]
    if result["never_paid"]:
        names = ", ".join(result["never_paid"])
        found.append(f"Never paid in these logs, so that their weights can do nothing: {names}.")
    return found


def as_markdown(result: Mapping[str, Any]) -> str:
    """Readings and a table of each kind of candidates."""
    lines = [
        _scope(result),
        "",
        *(f"- {sentence}" for sentence in result["readings"]),
    ]
    for kind, words in KINDS.items():
        if result[kind] is not None:
            lines += ["", f"Picks among {words} ({result[kind]['n_tasks']} tasks):", ""]
            lines += _table(result[kind])
    lines += [
        "",
        "no goal: ranked by the success head and the second stage, which know no weights.",
        "\\* before the hard filter, which never lets such an action be chosen.",
    ]
    return "\n".join(lines) + "\n"


def draw_sweep(result: Mapping[str, Any]) -> Figure:
    """One panel a fact, one line a setting; complete attempts if there is a choice of them."""
    kind = "attempt" if result["attempt"] is not None else "step"
    part = result[kind]
    columns = _known_columns(part["rows"])
    names = [name for name in part["rows"] if name != "oracle"]
    n_rows = math.ceil(len(columns) / _PANELS)
    figure = Figure(figsize=(10.5, 0.5 + n_rows * (0.7 + 0.28 * len(names))))
    panels = figure.subplots(n_rows, _PANELS, sharey=True, squeeze=False)
    for axes in panels.flat[len(columns) :]:
        axes.set_visible(False)
    for axes, column in zip(panels.flat, columns, strict=False):
        scale = 100 if column in _SHARES else 1
        for place, name in enumerate(names):
            _interval(axes, place, part["rows"][name], column, scale=scale, name=name)
        beside = part["rows"][part["reference"]].get(column)
        if beside is not None:
            axes.axvline(scale * beside["value"], color=_GREY, linewidth=1, linestyle=":")
        axes.set_title(_COLUMNS[column], fontsize=9)
        axes.grid(axis="x", color=_GRID)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=4)
        if column == "dangerous_unfiltered":
            # Nothing but zeros would otherwise be drawn as hundredths around zero.
            axes.set_xlim(-0.5, max(axes.get_xlim()[1], 5.0))
    panels[0, 0].set_yticks(range(len(names)), [_name(name) for name in names])
    panels[0, 0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle(
        f"What is picked among {KINDS[kind]} under each setting of the weights "
        f"({part['n_tasks']} tasks; red: too clever; * before the hard filter)",
        fontsize=10,
        y=1.0,
    )
    figure.tight_layout()
    return figure


def _of_kind(part: Mapping[str, Any], words: str) -> Iterator[str]:
    rows = {name: row for name, row in part["rows"].items() if "success_gain" in row}
    beside = _name(part["reference"])
    for name, row in rows.items():
        gain = row["success_gain"]
        shown = points(gain["value"], gain["low"], gain["high"])
        if row["too_clever"]:
            yield (
                f"{_name(name)}: too clever. Among {words} its picks earn more of its own reward "
                f"than those of {beside} (by {_plain(row['earned_gain'])}) and solve less: {shown}."
            )
        elif is_known(gain["high"]) and gain["high"] < 0:
            yield f"{_name(name)}: solves less than {beside} among {words}, {shown}."
        elif is_known(gain["low"]) and gain["low"] > 0:
            yield f"{_name(name)}: solves more than {beside} among {words}, {shown}."
    if not any(row["success_gain"]["high"] < 0 for row in rows.values()):
        yield f"Among {words} no setting solves reliably less than {beside}."
    alike = [name for name, row in rows.items() if _is_alike(name, row)]
    if alike:
        yield f"Picks as the present weights do among {words}: {', '.join(map(_name, alike))}."


def _is_alike(name: str, row: Mapping[str, Any]) -> bool:
    return name != PRESENT and row["differs"]["value"] < _ALIKE


def _table(part: Mapping[str, Any]) -> list[str]:
    columns = _known_columns(part["rows"])
    titles = [
        "setting",
        *(_COLUMNS[column] for column in columns),
        "success beside " + _name(part["reference"]),
        "own reward earned",
        "other picks, %",
    ]
    cells = [titles, ["---", *["---:"] * (len(titles) - 1)]]
    cells += [
        [
            f"**{_name(name)}**" if row.get("too_clever") else _name(name),
            *(_cell(row.get(column), column) for column in columns),
            _gain(row.get("success_gain")),
            _plain(row.get("earned_gain")),
            _cell(row.get("differs"), "differs"),
        ]
        for name, row in part["rows"].items()
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_line(row, widths) for row in cells]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if place == 0 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def _known_columns(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Facts that are known of any pick; characters only where there are no lines to count."""
    known = [
        column
        for column in _COLUMNS
        if any(row.get(column) is not None and row[column]["n"] for row in rows.values())
    ]
    return [column for column in known if column != "characters" or "lines" not in known]


def _scope(result: Mapping[str, Any]) -> str:
    return (
        f"Weights tried on {result['n_tasks']} of {result['n_development_tasks']} development "
        f"tasks, K = {result['group_size']}. Means over tasks; intervals by resampling tasks."
    )


def _interval(
    axes: Any, place: int, row: Mapping[str, Any], column: str, *, scale: int, name: str
) -> None:
    found = row.get(column)
    if found is None or not found["n"]:
        return
    colour = _RED if row.get("too_clever") else _GREY if name in _REFERENCES else _BLUE
    ends = [scale * found["low"], scale * found["high"]]
    axes.plot(ends, [place, place], color=colour, linewidth=2, solid_capstyle="round")
    axes.plot([scale * found["value"]], [place], "o", color=colour, markersize=5)


def _name(name: str) -> str:
    return _NAMES.get(name, name)


def _cell(found: Mapping[str, Any] | None, column: str) -> str:
    """The mean, and with success its interval; the other intervals are in the figure."""
    if found is None or not found["n"]:
        return "–"
    scale, digits = (100, 0) if column in _SHARES else (1, 1)
    text = f"{scale * found['value']:.{digits}f}"
    if column != SUCCESS:
        return text
    return f"{text} [{scale * found['low']:.0f}, {scale * found['high']:.0f}]"


def _gain(found: Mapping[str, Any] | None) -> str:
    shown = "–" if found is None else points(found["value"], found["low"], found["high"])
    return shown.replace(" points", "")


def _plain(found: Mapping[str, Any] | None) -> str:
    if found is None or not found["n"]:
        return "–"
    text = f"{found['value']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"
    return text.replace("-", "−")
