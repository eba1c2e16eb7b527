"""Which items of a pool an update draws from: families by a schedule, old and new logs by a share.

Families enter simple and common ones first: by the mean of two ranks, of how many training tasks
they hold and of how often attempts at these succeed. Everything is measured on the tasks that the
model learns from, and a draw depends on the update and its generator alone.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from harness_core.features.batch import Flags, Floats, Integers
from harness_core.learners.config import CurriculumConfig

_ALL: Final = 1.0
_ROUNDING: Final = 1e-9


class TaskFacts(NamedTuple):
    """What the order of families is made of."""

    family: str
    success: float
    """Mean known success of attempts at the task; NaN without any."""


def entering_shares(facts: Mapping[str, TaskFacts]) -> dict[str, float]:
    """Task → share of all tasks that families up to the one before its own hold.

    A schedule that reaches a share lets in every family that begins below it, so the first family
    is always in.
    """
    by_family: dict[str, list[float]] = defaultdict(list)
    for item in facts.values():
        by_family[item.family].append(item.success)
    begins, before = {}, 0
    for family in _simple_and_common_first(by_family):
        begins[family] = before / len(facts)
        before += len(by_family[family])
    return {task: begins[item.family] for task, item in facts.items()}


def _simple_and_common_first(success: Mapping[str, Sequence[float]]) -> list[str]:
    names = sorted(success)
    known = [[value for value in success[name] if not np.isnan(value)] for name in names]
    # A family of which nothing is known is as hard as any.
    mean = [float(np.mean(values)) if values else 0.0 for values in known]
    ranks = rankdata([-len(success[name]) for name in names]) + rankdata(np.negative(mean))
    return [names[place] for place in np.argsort(ranks, kind="stable")]


def reach_at(curriculum: CurriculumConfig | None, update: int, max_updates: int) -> float:
    """Share of training tasks whose families may be drawn at an update."""
    for stage in () if curriculum is None else curriculum.stages:
        if update < stage.until * max_updates:
            return stage.task_share
    return _ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """The items of one pool, new and old ones apart, each in order of entering."""

    new: "_Ordered"
    old: "_Ordered"
    old_share: float
    reach: float = _ALL
    """Share of training tasks whose families may be drawn."""

    @classmethod
    def of(cls, enters: Floats, is_old: Flags, *, old_share: float) -> "Sampler":
        """`enters` [n]: share that must be passed before an item may be drawn."""
        return cls(
            new=_Ordered.of(enters, np.flatnonzero(~is_old)),
            old=_Ordered.of(enters, np.flatnonzero(is_old)),
            old_share=old_share,
        )

    def __call__(self, n: int, rng: np.random.Generator) -> Integers:
        """`n` items with replacement; where only new or only old ones are in, all from those."""
        new, old = self.new.reached(self.reach), self.old.reached(self.reach)
        if not len(new) and not len(old):
            # The pool has no family that is in yet: better all than none.
            new, old = self.new.items, self.old.items
        if not len(new) or not len(old):
            return _from(new if len(new) else old, n, rng)
        # The remainder is rounded by lot, so that the share is right on average.
        n_old = int(n * self.old_share + rng.random())
        return np.concatenate([_from(new, n - n_old, rng), _from(old, n_old, rng)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Samplers:
    """How the items of each pool are drawn; None where all are alike."""

    transitions: Sampler | None = None
    attempts: Sampler | None = None
    steps: Sampler | None = None

    def at(self, reach: float) -> "Samplers":
        """The same at another share of training tasks."""
        return Samplers(
            transitions=_at(self.transitions, reach),
            attempts=_at(self.attempts, reach),
            steps=_at(self.steps, reach),
        )


ALIKE: Final = Samplers()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ordered:
    items: Integers
    enters: npt.NDArray[np.float64]  # ascending

    @classmethod
    def of(cls, enters: Floats, items: Integers) -> "_Ordered":
        order = np.argsort(enters[items], kind="stable")
        return cls(items=items[order], enters=enters[items][order].astype(np.float64))

    def reached(self, reach: float) -> Integers:
        if reach >= _ALL:
            return self.items
        return self.items[: int(np.searchsorted(self.enters, reach - _ROUNDING))]


def _at(sampler: Sampler | None, reach: float) -> Sampler | None:
    return None if sampler is None else replace(sampler, reach=reach)


def _from(items: Integers, n: int, rng: np.random.Generator) -> Integers:
    chosen: Integers = items[rng.integers(len(items), size=n)]
    return chosen
