"""The report for people: one HTML page that loads nothing, verdict in words first.

Everything that comes from logs is hostile text: it is escaped by the template engine, control
characters are replaced, and the page forbids scripts and remote content to itself.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness_core.evaluation.labels import (
    is_known,
    percent,
    percent_interval,
    points,
    selector_label,
)
from harness_core.evaluation.plots import FIGURES, render

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_XML_PROLOGUE: Final = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_MAX_TEXT: Final = 400
_MAX_LEAVES: Final = 60
"""Figures shown of one stage; its own report holds them all."""
_FIRST_ROWS: Final = ("selected", "oracle", "random")


def render_report(
    *,
    verdict: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    stages: Mapping[str, Mapping[str, Any]],
    confidence: float,
) -> str:
    """The page, from the contents of `verdict.json`, `evaluation.json` and the stage reports."""
    template = _environment().get_template("report.html.jinja")
    return template.render(
        verdict=verdict,
        evaluation=evaluation,
        headline=evaluation["headline"],
        selectors=_selectors(evaluation),
        sizes=[size for size, row in evaluation["k"].items() if row["n_tasks"]],
        figures={name: _svg(name, evaluation) for name in FIGURES},
        stages={name: list(_leaves(figures)) for name, figures in stages.items()},
        confidence=confidence,
    )


def plain(value: Any) -> Any:
    """Text without control and direction characters, cut to a length that a page can show."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    clean = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return clean if len(clean) <= _MAX_TEXT else clean[: _MAX_TEXT - 1] + "…"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness_core.evaluation", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=plain,
    )
    environment.filters.update(
        percent=percent, label=selector_label, points=points, number=_number, sign=_sign
    )
    environment.globals.update(interval=percent_interval, rate=_rate)
    return environment


def _svg(name: str, evaluation: Mapping[str, Any]) -> Markup:
    text = render(FIGURES[name], evaluation, form="svg", salt=name).decode()
    # The picture holds numbers and our own labels only, never text from a log.
    return Markup(_XML_PROLOGUE.sub("", text))  # noqa: S704  # made here, see above


def _selectors(evaluation: Mapping[str, Any]) -> list[str]:
    """Controller, oracle, random, then the baselines by their success at the headline K."""
    baselines = evaluation["headline"]["baselines"]
    return [*_FIRST_ROWS, *sorted(baselines, key=lambda name: (-(baselines[name] or 0), name))]


def _rate(row: Mapping[str, Any], selector: str) -> float | None:
    value: float | None = (
        row[selector] if selector in _FIRST_ROWS else row["baselines"].get(selector)
    )
    return value


def _sign(low: float | None, high: float | None) -> str:
    """What an interval of a difference says."""
    if low is None or high is None or low <= 0 <= high:
        return "open"
    return "better" if low > 0 else "worse"


def _number(value: Any, digits: int = 2) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "unknown" if value is None else str(value)
    if not is_known(value):
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def _leaves(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of the figures of a stage, flat."""
    found = list(_flat(figures, ""))
    shown = found[:_MAX_LEAVES]
    if len(found) > len(shown):
        shown.append(("…", f"{len(found) - len(shown)} more in the report of the stage"))
    return shown


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name} · {key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        yield from _flat({str(index): item for index, item in enumerate(value)}, name)
    elif isinstance(value, list):
        yield name, ", ".join(_figure(item) for item in value) or "none"
    else:
        yield name, _figure(value)


def _figure(value: Any) -> str:
    is_share = isinstance(value, float) and is_known(value)
    return f"{value:.4g}" if is_share else _number(value)
