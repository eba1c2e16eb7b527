"""Figures of the report: as SVG inside the page, as PNG and CSV beside it.

Equal numbers give equal bytes: no date is stored, and identifiers come from a fixed salt.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness_core.evaluation.labels import is_known, points, selector_label
from harness_core.tables import publish_bytes

CURVES: Final = ("selected", "oracle", "random", "codet", "agent_prior", "boosted_trees")
"""Selectors drawn in the K-curve; the table has them all."""

_COLOURS: Final[Mapping[str, str]] = {
    "selected": "#1d4ed8",
    "oracle": "#64748b",
    "random": "#94a3b8",
    "codet": "#d97706",
    "agent_prior": "#059669",
    "boosted_trees": "#9333ea",
}
_INK: Final = "#334155"
_GRID: Final = "#e2e8f0"
_STYLE: Final[Mapping[str, Any]] = {
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": "#cbd5e1",
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "savefig.dpi": 120,
}


def write_plots(evaluation: Mapping[str, Any], folder: Path) -> None:
    """CSV and PNG files of the figures below `folder`."""
    publish_bytes(folder / "k_curve.csv", k_curve_csv(evaluation))
    publish_bytes(folder / "differences.csv", differences_csv(evaluation))
    publish_bytes(folder / "calibration.csv", calibration_csv(evaluation))
    publish_bytes(folder / "over_optimisation.csv", over_optimisation_csv(evaluation))
    for name, draw in FIGURES.items():
        publish_bytes(folder / f"{name}.png", render(draw, evaluation, form="png"))


def render(
    draw: "Draw", evaluation: Mapping[str, Any], *, form: Literal["png", "svg"], salt: str = "plot"
) -> bytes:
    """One figure as bytes. `salt` keeps the identifiers of several SVGs of one page apart."""
    sink = io.BytesIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure = draw(evaluation)
        metadata = {"Software": None} if form == "png" else {"Date": None, "Creator": None}
        figure.savefig(sink, format=form, bbox_inches="tight", metadata=metadata)
    return sink.getvalue()


def k_curve_csv(evaluation: Mapping[str, Any]) -> bytes:
    """Success of every selector at every K, with its interval."""
    rows = [
        (size, name, _rate(row, name), *row["intervals"][name], row["n_tasks"])
        for size, row in evaluation["k"].items()
        if row["n_tasks"]
        for name in row["intervals"]
    ]
    return _csv(("k", "selector", "success", "low", "high", "n_tasks"), rows)


def differences_csv(evaluation: Mapping[str, Any]) -> bytes:
    """Controller − selector at the headline K, paired by task."""
    versus = evaluation["headline"]["versus"]
    rows = [(name, row["difference"], row["low"], row["high"]) for name, row in versus.items()]
    return _csv(("selector", "difference", "low", "high"), rows)


def calibration_csv(evaluation: Mapping[str, Any]) -> bytes:
    """Predicted and observed success by bins of equal count."""
    bins = evaluation["calibration"]["bins"]
    return _csv(
        ("predicted", "observed", "n"), [(b["predicted"], b["observed"], b["n"]) for b in bins]
    )


def over_optimisation_csv(evaluation: Mapping[str, Any]) -> bytes:
    """Belief in the pick and its success at every K."""
    columns = ("belief", "success", "low", "high", "gap", "gap_low", "gap_high", "n_tasks")
    rows = evaluation["over_optimisation"]["k"]
    return _csv(("k", *columns), [(k, *(row[name] for name in columns)) for k, row in rows.items()])


def draw_k_curve(evaluation: Mapping[str, Any]) -> Figure:
    """Success against K; the band is the interval of the controller."""
    rows = {size: row for size, row in evaluation["k"].items() if row["n_tasks"]}
    figure, axes = _axes(6.4, 3.9)
    position = list(range(len(rows)))
    for name in CURVES:
        values = [_rate(row, name) for row in rows.values()]
        if not any(is_known(value) for value in values):
            continue
        _line(axes, position, [_percent(value) for value in values], name)
    bands = [row["intervals"]["selected"] for row in rows.values()]
    axes.fill_between(
        position,
        [_percent(low) for low, _ in bands],
        [_percent(high) for _, high in bands],
        color=_COLOURS["selected"],
        alpha=0.12,
        linewidth=0,
    )
    axes.set_xticks(position, list(rows))
    axes.set_xlabel("K: candidates to choose from")
    axes.set_ylabel("tasks solved, %")
    axes.grid(axis="y", color=_GRID)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def draw_differences(evaluation: Mapping[str, Any]) -> Figure:
    """Controller − each baseline at the headline K, with intervals, best baseline on top."""
    headline = evaluation["headline"]
    found = [
        (name, row)
        for name, row in headline["versus"].items()
        if is_known(row["low"]) and is_known(row["high"])
    ]
    found.sort(key=lambda item: (item[1]["difference"], item[0]), reverse=True)
    figure, axes = _axes(6.4, 0.6 + 0.32 * max(len(found), 1))
    for y, (_, row) in enumerate(found):
        low, high = _percent(row["low"]), _percent(row["high"])
        colour = "#15803d" if low > 0 else "#b91c1c" if high < 0 else "#64748b"
        axes.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="round")
        axes.plot([_percent(row["difference"])], [y], "o", color=colour, markersize=6)
        text = points(row["difference"], row["low"], row["high"]).replace(" points", "")
        axes.annotate(
            text,
            (1.02, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
    axes.axvline(0, color=_INK, linewidth=1)
    axes.set_yticks(range(len(found)), [selector_label(name) for name, _ in found])
    axes.set_ylim(-0.6, max(len(found), 1) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=_GRID)
    axes.set_xlabel(f"controller minus baseline at K = {headline['size']}, percentage points")
    return figure


def draw_calibration(evaluation: Mapping[str, Any]) -> Figure:
    """Observed against predicted success of held-out attempts."""
    found = evaluation["calibration"]
    figure, axes = _axes(4.2, 3.8)
    axes.plot([0, 100], [0, 100], color="#94a3b8", linestyle="--", linewidth=1, label="perfect")
    if found["bins"]:
        axes.plot(
            [_percent(item["predicted"]) for item in found["isotonic"]],
            [_percent(item["observed"]) for item in found["isotonic"]],
            color="#1d4ed8",
            alpha=0.35,
            linewidth=1.5,
            label="isotonic fit",
        )
        axes.plot(
            [_percent(item["predicted"]) for item in found["bins"]],
            [_percent(item["observed"]) for item in found["bins"]],
            "o",
            color="#1d4ed8",
            markersize=6,
            label="tenths of the attempts",
        )
    axes.set_xlim(-2, 102)
    axes.set_ylim(-2, 102)
    axes.set_aspect("equal")
    axes.grid(color=_GRID)
    axes.set_xlabel("predicted success, %")
    axes.set_ylabel("observed success, %")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def draw_over_optimisation(evaluation: Mapping[str, Any]) -> Figure:
    """What the model believes of its pick and what the pick is worth, against K."""
    found = evaluation["over_optimisation"]
    rows = found["k"]
    figure, axes = _axes(6.4, 3.6)
    position = list(range(len(rows)))
    belief, success = (
        [_percent(row[name]) for row in rows.values()] for name in ("belief", "success")
    )
    axes.fill_between(
        position,
        [_percent(row["low"]) for row in rows.values()],
        [_percent(row["high"]) for row in rows.values()],
        color=_COLOURS["selected"],
        alpha=0.12,
        linewidth=0,
    )
    axes.plot(position, belief, "s--", color="#c2410c", markersize=5, label="believed by the model")
    axes.plot(
        *(position, success, "o-"),
        color=_COLOURS["selected"],
        linewidth=2.6,
        markersize=5,
        label="hidden outcome",
    )
    if len(rows) > 1:
        end = list(rows).index(str(found["k_max"]))
        axes.axvline(end, color=_INK, linewidth=1, linestyle=":", label="k_max")
    n_tasks = [row["n_tasks"] for row in rows.values()]
    names = [
        size if len(set(n_tasks)) == 1 else f"{size}\n({n} tasks)"
        for size, n in zip(rows, n_tasks, strict=True)
    ]
    axes.set_xticks(position, names)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("K: candidates to choose from")
    axes.set_ylabel("success of the pick, %")
    axes.grid(axis="y", color=_GRID)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


Draw = Callable[[Mapping[str, Any]], Figure]

FIGURES: Final[Mapping[str, Draw]] = {
    "k_curve": draw_k_curve,
    "differences": draw_differences,
    "calibration": draw_calibration,
    "over_optimisation": draw_over_optimisation,
}


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    return figure, axes


def _line(axes: Axes, x: Sequence[int], y: Sequence[float], name: str) -> None:
    is_ours = name == "selected"
    axes.plot(
        x,
        y,
        color=_COLOURS[name],
        linewidth=2.6 if is_ours else 1.5,
        linestyle="--" if name in {"oracle", "random"} else "-",
        marker="o" if is_ours else None,
        markersize=5,
        zorder=3 if is_ours else 2,
        label=selector_label(name),
    )


def _rate(row: Mapping[str, Any], name: str) -> float | None:
    value: float | None = row[name] if name in row else row["baselines"].get(name)
    return value


def _percent(value: float | None) -> float:
    return float("nan") if value is None else 100 * value


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return sink.getvalue().encode()
