"""Uncertainty by resampling whole tasks: attempts at one task are never independent.

All statistics are functions of per-task means, so a resample is a row of counts and 2,000 of them
are one matrix product.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from harness_core.evaluation.metrics import Doubles, Metric


class Interval(NamedTuple):
    """A confidence interval; NaN, NaN when nothing can be said."""

    low: float
    high: float


class Difference(NamedTuple):
    """Mean of paired per-task differences with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """How intervals are made. Equal settings and equal tasks give equal intervals."""

    n_resamples: int
    confidence: float
    seed: int

    def means(self, per_task: npt.ArrayLike) -> Doubles:
        """Resampled means [R, …] of per-task values [T, …], T tasks drawn with replacement.

        The draw depends on seed and T only: columns of one array stay paired, and so do arrays
        over the same tasks.
        """
        values = np.asarray(per_task, dtype=np.float64)
        n_tasks = len(values)
        if not n_tasks:
            return np.full((self.n_resamples, *values.shape[1:]), np.nan)
        counts = _resamples(self.seed, n_tasks, self.n_resamples)
        return np.tensordot(counts, values, axes=1) / n_tasks

    def interval(self, samples: npt.ArrayLike) -> Interval:
        """Percentile interval of resampled statistics [R]; NaN samples are left out."""
        finite = np.asarray(samples, dtype=np.float64)
        finite = finite[np.isfinite(finite)]
        if not len(finite):
            return Interval(math.nan, math.nan)
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(finite, [tail, 1 - tail])
        return Interval(float(low), float(high))

    def mean(self, per_task: Mapping[str, float], *, name: str, unit: str = "fraction") -> Metric:
        """Mean over tasks with its interval."""
        values = np.array([per_task[task] for task in sorted(per_task)])
        interval = self.interval(self.means(values))
        value = float(values.mean()) if len(values) else math.nan
        return Metric(name=name, value=value, **interval._asdict(), n=len(values), unit=unit)

    def difference(self, per_task: Sequence[float] | Doubles) -> Difference:
        """Mean of paired differences of shares [T], with the wider of two intervals.

        Over few tasks the percentile interval is too narrow: three losses by chance would look
        certain. Student's t interval is exact there for normal differences, and much the same for
        many tasks. The ends stay within [−1, 1], as a difference of shares must.
        """
        values = np.asarray(per_task, dtype=np.float64)
        n_tasks = len(values)
        if not n_tasks:
            return Difference(math.nan, math.nan, math.nan)
        mean = float(values.mean())
        percentile = self.interval(self.means(values))
        if n_tasks == 1:
            return Difference(mean, -math.inf, math.inf)
        error = float(values.std(ddof=1)) / math.sqrt(n_tasks)
        half = float(stdtrit(n_tasks - 1, (1 + self.confidence) / 2)) * error
        low, high = min(percentile.low, mean - half), max(percentile.high, mean + half)
        return Difference(mean, max(low, -1.0), min(high, 1.0))


@lru_cache(maxsize=4)
def _resamples(seed: int, n_tasks: int, n_resamples: int) -> Doubles:
    """How often each task stands in each resample, [R, T]."""
    rng = np.random.default_rng([seed, n_tasks])
    counts = rng.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=n_resamples)
    return counts.astype(np.float64)
