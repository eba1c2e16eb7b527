"""Where a score is pushed too far: what the model believes of its pick, and what it is worth.

Best of K picks the candidate with the highest score. With every further candidate the belief in the
pick rises, since the largest of more numbers is larger, and the hidden outcome need not follow: the
score's own errors are picked as well (the winner's curse; Gao et al., 2023, "Scaling laws for
reward model overoptimization"). Two numbers say where belief and outcome part:

- `k_max`: going up the grid of K, the last one before success is reliably below the best success
  at a smaller K.
- `parts_at`: the K from which on belief is reliably above success. To believe too much loses
  nothing by itself; it is the warning.

Differences are paired by task, over the tasks that have as many attempts. Since every K of the grid
is asked, each is asked at a confidence that keeps the chance of one false alarm among them all.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from harness_core.evaluation.bootstrap import Bootstrap, Difference, Interval
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import Doubles, json_ready, mean_by_task
from harness_core.evaluation.selection import pick_shares
from harness_core.evaluation.subsets import Subset, draw_subsets, labelled
from harness_core.features.batch import DecisionGroup
from harness_core.records import Record
from harness_core.trajectories.vocabulary import GroupKind

_MIN_TASKS: Final = 5
"""A K that fewer tasks offer is not looked at: nothing could be said of it."""
_COVER: Final = 2
"""Subsets of one K hold each candidate about so often and no oftener: large ones overlap anyway."""
_ROUNDING: Final = 1e-9
"""Means of the same values in another order differ by less."""
_MAX_ROWS: Final = 16_384
"""Candidates scored in one call; bounds memory, not results."""


class SizeRow(Record):
    """Best of one K."""

    belief: float
    """Mean calibrated probability of success that the model gives its own pick."""
    success: float
    """Mean hidden outcome of the same pick."""
    low: float
    high: float
    """Interval of `success`, tasks resampled."""
    gap: float
    """belief − success."""
    gap_low: float
    gap_high: float
    n_tasks: int


class OverOptimisation(Record):
    """Belief and outcome against K."""

    k: dict[str, SizeRow]
    """By K, ascending."""
    k_max: int
    """Up to here choosing among more candidates loses no success; 1 where there is no choice."""
    parts_at: int | None
    """From here on the model reliably promises more than it keeps; None if it does not."""
    reading: str
    """Both in one sentence."""

    def figures(self) -> dict[str, Any]:
        """Plain JSON values."""
        ready: dict[str, Any] = json_ready(self.model_dump())
        return ready


class _PerTask(NamedTuple):
    """What the picks among K candidates were worth, by task."""

    belief: Mapping[str, float]
    success: Mapping[str, float]


def over_optimisation(
    judged: CrossFit,
    groups: Sequence[DecisionGroup],
    *,
    n_subsets: int,
    bootstrap: Bootstrap,
) -> OverOptimisation:
    """The chart of the controller's own picks among complete attempts.

    Args:
        judged: models, each asked about tasks only that it never saw.
        groups: decision groups; single steps and attempts of unknown outcome are left out.
        n_subsets: most random subsets of K candidates that are drawn from each group.
        bootstrap: how intervals are made; its seed draws the subsets, too.
    """
    attempts = labelled([group for group in groups if group.kind is GroupKind.ATTEMPT])
    sizes = grid(attempts)
    by_size = {
        size: _picks(
            judged,
            draw_subsets(
                attempts,
                size=size,
                n_subsets=min(n_subsets, math.ceil(_COVER * sizes[-1] / size)),
                seed=bootstrap.seed,
            ),
        )
        for size in sizes
    }
    rows = {str(size): _row(part, bootstrap) for size, part in by_size.items()}
    strict = _strict(bootstrap, n_looks=len(by_size))
    k_max, parts_at = _k_max(by_size, strict), _parts_at(by_size, strict)
    return OverOptimisation(
        k=rows, k_max=k_max, parts_at=parts_at, reading=_reading(rows, k_max, parts_at)
    )


def grid(groups: Sequence[DecisionGroup]) -> tuple[int, ...]:
    """Powers of two, and the largest K that enough tasks offer."""
    largest: dict[str, int] = {}
    for group in groups:
        largest[group.task_id] = max(group.size, largest.get(group.task_id, 0))
    sizes = sorted(largest.values(), reverse=True)
    if not sizes:
        return ()
    last = sizes[min(_MIN_TASKS, len(sizes)) - 1]
    powers = [1 << exponent for exponent in range(last.bit_length()) if 1 << exponent < last]
    return (*powers, last)


def _picks(judged: CrossFit, subsets: Sequence[Subset]) -> _PerTask:
    """Belief and outcome of the picks, mean over the subsets of each task's groups."""
    belief, success = np.zeros(len(subsets)), np.zeros(len(subsets))
    # All subsets have one size, so that scores, beliefs and labels are tables.
    step = max(1, _MAX_ROWS // max(len(subsets[0].index), 1)) if subsets else 1
    for start in range(0, len(subsets), step):
        chunk, rows = subsets[start : start + step], slice(start, start + step)
        scores, probabilities = judged.controller_with_belief(chunk)
        share = pick_shares(scores)
        belief[rows] = (share * np.stack(probabilities)).sum(axis=1)
        success[rows] = (share * np.stack([subset.success for subset in chunk])).sum(axis=1)
    groups = {subset.group.group_id: subset.group.task_id for subset in subsets}
    names = [subset.group.group_id for subset in subsets]
    return _PerTask(_by_task(groups, names, belief), _by_task(groups, names, success))


def _by_task(groups: Mapping[str, str], names: Sequence[str], values: Doubles) -> dict[str, float]:
    """Mean over the groups of each task of the mean over their subsets."""
    of_group = mean_by_task(zip(names, values.tolist(), strict=True))
    return mean_by_task((groups[name], value) for name, value in of_group.items())


def _row(part: _PerTask, bootstrap: Bootstrap) -> SizeRow:
    success = np.array(list(part.success.values()))
    belief = np.array(list(part.belief.values()))
    interval: Interval = bootstrap.interval(bootstrap.means(success))
    gap = bootstrap.difference(belief - success)
    return SizeRow(
        belief=float(belief.mean()),
        success=float(success.mean()),
        low=interval.low,
        high=interval.high,
        gap=gap.value,
        gap_low=gap.low,
        gap_high=gap.high,
        n_tasks=len(success),
    )


def _strict(bootstrap: Bootstrap, *, n_looks: int) -> Bootstrap:
    """The same chance of a false alarm for all looks together (Bonferroni)."""
    return replace(bootstrap, confidence=1 - (1 - bootstrap.confidence) / max(n_looks, 1))


def _k_max(by_size: Mapping[int, _PerTask], bootstrap: Bootstrap) -> int:
    sizes = list(by_size)
    for place, size in enumerate(sizes[1:], start=1):
        part = by_size[size]
        losses = [_change(part, by_size[smaller], bootstrap) for smaller in sizes[:place]]
        if min(losses).high < -_ROUNDING:
            return sizes[place - 1]
    return sizes[-1] if sizes else 1


def _change(part: _PerTask, earlier: _PerTask, bootstrap: Bootstrap) -> Difference:
    """Success at one K minus success at a smaller one, over the tasks of the larger."""
    return bootstrap.difference(
        np.array([value - earlier.success[task] for task, value in part.success.items()])
    )


def _parts_at(by_size: Mapping[int, _PerTask], bootstrap: Bootstrap) -> int | None:
    found = None
    for size, part in reversed(list(by_size.items())):
        gap = [part.belief[task] - part.success[task] for task in part.success]
        if not bootstrap.difference(gap).low > _ROUNDING:
            break
        found = size
    return found


def _reading(rows: Mapping[str, SizeRow], k_max: int, parts_at: int | None) -> str:
    largest = max((int(size) for size in rows), default=1)
    if largest == 1:
        return "There is no task with attempts to choose between, so nothing is known of larger K."
    last = rows[str(largest)]
    outcome = (
        f"Choosing among more candidates loses no success up to K = {k_max}, the largest looked at"
        if k_max == largest
        else f"Beyond K = {k_max} choosing among more candidates loses success"
    )
    belief = (
        "and the model nowhere reliably promises more than it keeps"
        if parts_at is None
        else f"and {_from(parts_at, largest)} the model promises more than it keeps"
    )
    return (
        f"{outcome}, {belief}: at K = {largest} it believes in {100 * last.belief:.0f} % "
        f"and {100 * last.success:.0f} % succeed."
    )


def _from(size: int, largest: int) -> str:
    return f"at K = {size}" if size == largest else f"from K = {size} on"
