"""Rows of the report: success of every selector over tasks, with paired intervals."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import Doubles, gap_closed
from harness_core.evaluation.selection import ORACLE, RANDOM, SELECTED, Outcomes


def summary_row(outcomes: Outcomes, bootstrap: Bootstrap) -> dict[str, Any]:
    """Success rates, gap closed and paired differences of one K, every task weighing the same.

    `low` and `high` belong to `gap_closed`; `intervals` holds those of the success rates.
    """
    names = outcomes.selectors
    tasks, values = outcomes.by_task(outcomes.success)
    if not tasks:
        return _empty_row()
    rates = dict(zip(names, values.mean(axis=0), strict=True))
    samples = dict(zip(names, bootstrap.means(values).T, strict=True))
    baselines = [name for name in names if name not in {RANDOM, ORACLE, SELECTED}]
    column = dict(zip(names, values.T, strict=True))
    gap = bootstrap.interval(gap_closed(samples[SELECTED], samples[RANDOM], samples[ORACLE]))
    selected = bootstrap.interval(samples[SELECTED])
    return {
        "random": rates[RANDOM],
        "selected": rates[SELECTED],
        "oracle": rates[ORACLE],
        "gap_closed": float(gap_closed(rates[SELECTED], rates[RANDOM], rates[ORACLE])),
        "low": gap.low,
        "high": gap.high,
        "selected_low": selected.low,
        "selected_high": selected.high,
        "n_tasks": len(tasks),
        "n_groups": len(outcomes.group_id),
        "baselines": {name: rates[name] for name in baselines},
        "versus": {
            name: _versus(column[SELECTED] - column[name], bootstrap)
            for name in (RANDOM, *baselines)
        },
        "intervals": {name: list(bootstrap.interval(samples[name])) for name in names},
    }


def rows_by(
    outcomes: Outcomes, bootstrap: Bootstrap, key: Callable[[Outcomes], tuple[str, ...]]
) -> dict[str, dict[str, Any]]:
    """A row for each source or family, with its number of tasks as `n`."""
    values = key(outcomes)
    rows = {}
    for name in sorted(set(values)):
        part = outcomes.where([value == name for value in values])
        row = summary_row(part, bootstrap)
        rows[name] = {**row, "n": row["n_tasks"]}
    return rows


def dangerous_share(outcomes: Outcomes, selector: str) -> float:
    """Share of picks that are dangerous, every task weighing the same."""
    tasks, values = outcomes.by_task(outcomes.dangerous)
    return float(values[:, outcomes.selectors.index(selector)].mean()) if tasks else math.nan


def repeat_spread(outcomes: Outcomes) -> dict[str, Any]:
    """How much the controller's success rate moves when other candidates are drawn."""
    tasks, values = outcomes.by_task(outcomes.repeats)
    rates: Doubles = values.mean(axis=0) if tasks else np.full(0, np.nan)
    if not len(rates):
        return {
            "n_repeats": 0,
            "standard_deviation": math.nan,
            "lowest": math.nan,
            "highest": math.nan,
        }
    return {
        "n_repeats": len(rates),
        "standard_deviation": float(rates.std()),
        "lowest": float(rates.min()),
        "highest": float(rates.max()),
    }


def _versus(difference: Doubles, bootstrap: Bootstrap) -> dict[str, float]:
    found = bootstrap.difference(difference)
    return {"difference": found.value, "low": found.low, "high": found.high}


def _empty_row() -> dict[str, Any]:
    numbers = ("random", "selected", "oracle", "gap_closed", "low", "high")
    row: Mapping[str, Any] = dict.fromkeys((*numbers, "selected_low", "selected_high"), math.nan)
    return {**row, "n_tasks": 0, "n_groups": 0, "baselines": {}, "versus": {}, "intervals": {}}
