"""Figures over tasks, rounded, with intervals clustered by task."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import Doubles

_DIGITS: Final = 4
_BOOTSTRAP: Final = Bootstrap(n_resamples=2000, confidence=0.95, seed=0)


def by_task(tasks: Sequence[str], columns: Mapping[str, Doubles]) -> dict[str, Doubles]:
    """Means [T] of each column [N] over the rows of each task, tasks sorted by id."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        places[task].append(place)
    return {
        name: np.array([values[places[task]].mean() for task in sorted(places)])
        for name, values in columns.items()
    }


def rates(per_task: Mapping[str, Doubles], mask: Any = slice(None)) -> dict[str, Any]:
    """Mean of each column over (some) tasks with its interval."""
    return {
        name: rounded(
            value=float(values[mask].mean()),
            **_BOOTSTRAP.interval(_BOOTSTRAP.means(values[mask]))._asdict(),
        )
        for name, values in per_task.items()
    }


def difference(per_task: Doubles) -> dict[str, float]:
    """Mean of paired differences [T] with its interval."""
    return rounded(**_BOOTSTRAP.difference(per_task)._asdict())


def ratio(upper: Doubles, lower: Doubles) -> dict[str, float] | None:
    """Of means over tasks; None where the lower one is nothing."""
    if lower.mean() <= 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = _BOOTSTRAP.means(upper) / _BOOTSTRAP.means(lower)
    interval = _BOOTSTRAP.interval(samples)
    return rounded(value=float(upper.mean() / lower.mean()), **interval._asdict())


def mean(values: Iterable[float] | Doubles) -> float:
    """Mean of some rows, rounded."""
    return round(float(np.mean(np.asarray(values))), _DIGITS)


def rounded(**values: float) -> dict[str, float]:
    """Figures as they are printed."""
    return {name: round(value, _DIGITS) for name, value in values.items()}
