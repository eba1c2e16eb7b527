"""Best-of-K: what each selector's pick is worth, on the same random subsets for all selectors.

A selector gives one score a candidate and picks the highest; ties are broken by lot, so a pick is
worth the mean of the tied best. −∞ refuses a candidate; a selector that refuses all picks nothing,
which neither succeeds nor does harm.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.subsets import Subset
from harness_core.features.batch import DecisionGroup, Flags, Floats, Integers

RANDOM: Final = "random"
ORACLE: Final = "oracle"
SELECTED: Final = "selected"
"""The controller's row."""

_TIE: Final = 1e-6
"""Relative difference of scores below which they are tied: rounding must not decide."""
_MAX_ROWS: Final = 16_384
"""Candidates scored in one call; bounds memory, not results."""


class Selector(Protocol):
    """Gives every candidate a score, higher is better; all subsets at once, for speed."""

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of each subset, −∞ for a refused candidate."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What the picks of S selectors were worth in n decision groups, mean over subsets."""

    selectors: tuple[str, ...]
    group_id: tuple[str, ...]  # [n]
    task_id: tuple[str, ...]  # [n]
    source: tuple[str, ...]  # [n]
    family: tuple[str, ...]  # [n]
    success: Doubles  # [n, S] expected success of the pick
    dangerous: Doubles  # [n, S] share of dangerous picks
    repeats: Doubles  # [n, R] success of the controller's pick, one column a repeat

    def column(self, selector: str) -> Doubles:
        """Success [n] of one selector."""
        return self.success[:, self.selectors.index(selector)]

    def where(self, mask: Flags | Sequence[bool]) -> "Outcomes":
        """The groups for which `mask` holds."""
        return self.take(np.flatnonzero(np.asarray(mask, dtype=bool)))

    def take(self, kept: Integers) -> "Outcomes":
        """The groups at these positions, in this order."""

        def pick(values: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(values[position] for position in kept)

        return Outcomes(
            selectors=self.selectors,
            group_id=pick(self.group_id),
            task_id=pick(self.task_id),
            source=pick(self.source),
            family=pick(self.family),
            success=self.success[kept],
            dangerous=self.dangerous[kept],
            repeats=self.repeats[kept],
        )

    def by_task(self, values: Doubles) -> tuple[tuple[str, ...], Doubles]:
        """Task ids, sorted, and the mean [T, …] of `values` [n, …] over the groups of each."""
        tasks = tuple(sorted(set(self.task_id)))
        position = {task: index for index, task in enumerate(tasks)}
        index = np.array([position[task] for task in self.task_id], dtype=np.int64)
        total = np.zeros((len(tasks), *values.shape[1:]))
        np.add.at(total, index, values)
        count = np.bincount(index, minlength=len(tasks)).astype(np.float64)
        return tasks, total / count.reshape(-1, *([1] * (values.ndim - 1)))


def judge(
    subsets: Sequence[Subset], selectors: Mapping[str, Selector], *, n_repeats: int = 1
) -> Outcomes:
    """Let every selector pick from every subset; random and oracle are added by themselves."""
    names = (RANDOM, ORACLE, *selectors)
    success = np.zeros((len(subsets), len(names)))
    dangerous = np.zeros_like(success)
    for start, chunk in _chunks(subsets):
        rows = slice(start, start + len(chunk))
        label = _padded([subset.success for subset in chunk], fill=0.0)
        danger = _padded([subset.dangerous for subset in chunk], fill=0.0)
        scores = [
            [np.zeros(len(subset.index), dtype=np.float32) for subset in chunk],
            [subset.success for subset in chunk],
            *(selector(chunk) for selector in selectors.values()),
        ]
        for column, score in enumerate(scores):
            share = _pick(_padded(score, fill=-np.inf))
            success[rows, column] = (share * label).sum(axis=1)
            dangerous[rows, column] = (share * danger).sum(axis=1)
    return _by_group(subsets, names, success, dangerous, n_repeats=n_repeats)


def merge(first: Outcomes, second: Outcomes) -> Outcomes:
    """All groups of `first`, then those of `second` that `first` lacks."""
    assert first.selectors == second.selectors
    known = set(first.group_id)
    rest = second.where([group not in known for group in second.group_id])
    return Outcomes(
        selectors=first.selectors,
        group_id=first.group_id + rest.group_id,
        task_id=first.task_id + rest.task_id,
        source=first.source + rest.source,
        family=first.family + rest.family,
        success=np.concatenate([first.success, rest.success]),
        dangerous=np.concatenate([first.dangerous, rest.dangerous]),
        repeats=np.concatenate([first.repeats, rest.repeats]),
    )


def pick_shares(scores: Sequence[Floats]) -> Doubles:
    """Probability [n, K] of each candidate to be the pick, rows filled up with 0."""
    return _pick(_padded(scores, fill=-np.inf))


def _chunks(subsets: Sequence[Subset]) -> Iterator[tuple[int, Sequence[Subset]]]:
    start, rows = 0, 0
    for position, subset in enumerate(subsets):
        rows += len(subset.index)
        if rows >= _MAX_ROWS or position == len(subsets) - 1:
            yield start, subsets[start : position + 1]
            start, rows = position + 1, 0


def _padded(values: Sequence[Floats | Flags], *, fill: float) -> Doubles:
    width = max(len(value) for value in values)
    result = np.full((len(values), width), fill)
    for row, value in enumerate(values):
        result[row, : len(value)] = value
    return result


def _pick(scores: Doubles) -> Doubles:
    """Probability [n, K] of each candidate to be the pick; all zero where all are refused."""
    assert not np.isnan(scores).any(), "a selector returned NaN"
    best = scores.max(axis=1, keepdims=True)
    none = ~np.isfinite(best)
    slack = _TIE * np.maximum(1.0, np.abs(np.where(none, 0.0, best)))
    tied = (scores >= best - slack) & ~none
    return np.asarray(tied / np.maximum(tied.sum(axis=1, keepdims=True), 1))


def _by_group(
    subsets: Sequence[Subset],
    names: tuple[str, ...],
    success: Doubles,
    dangerous: Doubles,
    *,
    n_repeats: int,
) -> Outcomes:
    groups: dict[str, DecisionGroup] = {}
    rows: dict[str, list[int]] = {}
    for row, subset in enumerate(subsets):
        groups.setdefault(subset.group.group_id, subset.group)
        rows.setdefault(subset.group.group_id, []).append(row)
    chosen = names.index(SELECTED) if SELECTED in names else 0
    repeats = np.zeros((len(groups), n_repeats))
    for position, members in enumerate(rows.values()):
        # A group with fewer subsets than repeats shows the same ones again.
        repeats[position] = success[np.resize(members, n_repeats), chosen]
    kept = list(groups.values())
    width = len(names)
    return Outcomes(
        selectors=names,
        group_id=tuple(groups),
        task_id=tuple(group.task_id for group in kept),
        source=tuple(group.source for group in kept),
        family=tuple(group.family for group in kept),
        success=np.array([success[m].mean(axis=0) for m in rows.values()]).reshape(-1, width),
        dangerous=np.array([dangerous[m].mean(axis=0) for m in rows.values()]).reshape(-1, width),
        repeats=repeats,
    )
