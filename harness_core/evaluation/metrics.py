"""Measures of ranking and selection, in closed form, and how they are written down."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness_core.features.batch import DecisionGroup
from harness_core.records import Record

Doubles = npt.NDArray[np.float64]

_NO_HEADROOM: Final = 1e-9


class Metric(Record):
    """One number for people, with its uncertainty and its count."""

    name: str
    value: float
    low: float
    high: float
    n: int
    """Number of tasks behind it."""
    unit: str


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """P(score of the better > score of the worse) over all pairs whose labels differ; ties ½.

    For labels 0 and 1 this is the area under the ROC curve; graded labels need no threshold.
    NaN when all labels are equal.
    """
    score, label = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    better, worse = np.nonzero(label[:, None] > label[None, :])
    if not len(better):
        return math.nan
    # Compared, not subtracted: two that the hard filter took out are a tie at −∞.
    above, tied = score[better] > score[worse], score[better] == score[worse]
    return float(np.mean(above + 0.5 * tied))


def within_task_auc(
    groups: Sequence[DecisionGroup], scores: Sequence[npt.ArrayLike]
) -> dict[str, float]:
    """Mean AUC of the groups of each task that has both outcomes, sorted by task."""
    return mean_by_task(
        (group.task_id, auc(score, group.success))
        for group, score in zip(groups, scores, strict=True)
    )


def steps_auc(groups: Sequence[DecisionGroup]) -> dict[str, float]:
    """The same for −steps: above ½, how attempts ended tells who won (the stop leak)."""
    return within_task_auc(groups, [-group.n_steps for group in groups])


def mean_by_task(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Mean of the values of each task, NaN left out, sorted by task."""
    collected: dict[str, list[float]] = defaultdict(list)
    for task_id, value in values:
        if not math.isnan(value):
            collected[task_id].append(value)
    return {task: float(np.mean(collected[task])) for task in sorted(collected)}


def gap_closed(selected: npt.ArrayLike, random: npt.ArrayLike, oracle: npt.ArrayLike) -> Doubles:
    """(selected − random) / (oracle − random) of success rates; NaN where there is no headroom."""
    headroom = np.asarray(oracle, dtype=np.float64) - np.asarray(random, dtype=np.float64)
    gain = np.asarray(selected, dtype=np.float64) - np.asarray(random, dtype=np.float64)
    return np.divide(
        gain, headroom, out=np.full_like(headroom, np.nan), where=headroom > _NO_HEADROOM
    )


def json_ready(value: Any) -> Any:
    """Plain JSON values: numbers rounded to 6 digits, NaN and infinities as null."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        # Adding 0.0 turns −0.0 into 0.0, so that equal results have equal bytes.
        return round(float(value), 6) + 0.0 if math.isfinite(value) else None
    return value
