"""Cross-fitting for anything that learns from rows: who judges a fold has learnt without it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no stubs

from benchmarks.selection.pack import Pack
from harness_core.evaluation.subsets import Subset, draw_subsets, whole
from harness_core.features.batch import Flags, Floats, Integers

SOLVED: Final = 0.5
"""A graded outcome from here on counts as solved, where a learner knows yes and no only."""
MAX_ROWS: Final = 8_000
"""Rows that one model learns from: bounds the price of the table."""

_ROWS_OF_SIZE: Final = 16
"""Rows of one group at each K (more where K is larger), so that any K is in distribution."""
_ROWS_OF_SUBSET: Final = 16
_N_THREADS: Final = 1
"""On a busy machine threads that wait for each other cost ten times what they save."""
_MIN_SPREAD: Final = 1e-6

Score = Callable[[Floats], Floats]
"""From the vectors [N, Ds + Dr] of complete attempts to scores [N]."""


@runtime_checkable
class Believer(Protocol):
    """A selector that also says how likely success is."""

    def probabilities(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Believed probability of success [K] of each subset."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Complete attempts within random sets of candidates, rows of one set together."""

    x: Floats  # [N, Ds + Dr]
    outcome: Floats  # [N]
    set_id: Integers  # [N] running number of the set
    fold: Integers  # [N]

    @property
    def solved(self) -> Flags:
        """Whether each row counts as solved, [N]."""
        return np.asarray(self.outcome >= SOLVED)

    def where(self, mask: Flags) -> "Rows":
        """The rows for which `mask` holds."""
        return Rows(
            x=self.x[mask],
            outcome=self.outcome[mask],
            set_id=self.set_id[mask],
            fold=self.fold[mask],
        )

    def without(self, folds: Sequence[int], *, seed: int) -> "Rows":
        """Whole sets outside these folds, at random, up to `MAX_ROWS` rows."""
        outside = self.where(~np.isin(self.fold, folds))
        sets, size = np.unique(outside.set_id, return_counts=True)
        order = np.random.default_rng(seed).permutation(len(sets))
        kept = order[np.cumsum(size[order]) <= MAX_ROWS]
        return outside.where(np.isin(outside.set_id, sets[kept]))


def rows_of(pack: Pack, *, seed: int) -> Rows:
    """Rows of every group, in its whole set and in random subsets of it."""
    groups = [group for group in pack.groups if group.size > 1]
    subsets = whole(groups)
    for k in sorted(k for k in pack.params.train.group_sizes if k > 1):
        n_subsets = max(1, _ROWS_OF_SIZE // k)
        subsets += draw_subsets(groups, size=k, n_subsets=n_subsets, seed=seed + 1)
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(len(subset.index))[:_ROWS_OF_SUBSET] for subset in subsets]
    size = np.array([len(rows) for rows in chosen], dtype=np.int64)
    pairs = list(zip(subsets, chosen, strict=True))
    width = len(pack.schema.state) + len(pack.schema.set_relative)
    return Rows(
        x=np.concatenate(
            [
                np.zeros((0, width), dtype=np.float32),
                *(subset.attempt_vectors[rows] for subset, rows in pairs),
            ]
        ),
        outcome=np.concatenate(
            [np.zeros(0, dtype=np.float32), *(subset.success[rows] for subset, rows in pairs)]
        ),
        set_id=np.repeat(np.arange(len(subsets)), size),
        fold=np.repeat(np.array([s.group.fold for s in subsets], dtype=np.int64), size),
    )


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """One score function a fold, which learnt without the tasks of that fold."""

    scores: Mapping[int, Score]

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of the candidates of each subset."""
        return by_fold(subsets, self._of_fold)

    def _of_fold(self, fold: int, members: Sequence[Subset]) -> Floats:
        vectors = np.concatenate([subset.attempt_vectors for subset in members])
        with one_thread():
            return self.scores[fold](vectors)


@dataclass(frozen=True, slots=True)
class LogOdds:
    """A selector whose scores are log-odds of success."""

    selector: OutOfFold

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Log-odds [K] of each subset."""
        return self.selector(subsets)

    def probabilities(self, subsets: Sequence[Subset]) -> list[Floats]:
        """What the log-odds say."""
        return [np.asarray(expit(odds), dtype=np.float32) for odds in self.selector(subsets)]


def out_of_fold(rows: Rows, fit: Callable[[Rows], Score | None], *, seed: int) -> OutOfFold | None:
    """Fit for every fold without it; None where some part has nothing to tell good from bad by."""
    scores: dict[int, Score] = {}
    with one_thread():
        for fold in folds_of(rows):
            learnt_from = rows.without([fold], seed=seed)
            score = fit(learnt_from) if has_both(learnt_from) else None
            if score is None:
                return None
            scores[fold] = score
    return OutOfFold(scores) if scores else None


def folds_of(rows: Rows) -> list[int]:
    """The folds that there are, in order."""
    return sorted(set(rows.fold.tolist()))


def has_both(rows: Rows) -> bool:
    """Whether some rows are solved and some are not."""
    return bool(rows.solved.any() and not rows.solved.all())


def by_fold(
    subsets: Sequence[Subset], score: Callable[[int, Sequence[Subset]], Floats]
) -> list[Floats]:
    """Scores of each subset; one call of `score` a fold."""
    result: list[Floats] = [np.zeros(0, dtype=np.float32)] * len(subsets)
    for fold in sorted({subset.group.fold for subset in subsets}):
        members = [i for i, subset in enumerate(subsets) if subset.group.fold == fold]
        together = score(fold, [subsets[i] for i in members]).astype(np.float32)
        bounds = np.cumsum([len(subsets[i].index) for i in members])[:-1]
        for position, part in zip(members, np.split(together, bounds), strict=True):
            result[position] = part
    return result


def z_scores(values: Floats) -> Floats:
    """Distance from the mean of the set in standard deviations; 0 where all are alike."""
    spread = float(values.std())
    if spread <= _MIN_SPREAD:
        return np.zeros_like(values)
    return np.asarray((values - values.mean()) / spread, dtype=np.float32)


def one_thread() -> Any:
    """Numerical libraries on one thread while this is entered."""
    return threadpool_limits(_N_THREADS)


T = TypeVar("T")


@dataclass(slots=True)
class OfOnePack(Generic[T]):
    """What was made of the pack at hand, since its methods come one after the other and share it.

    Only the last pack is remembered: the next one takes its place.
    """

    make: Callable[..., T]
    _pack: Pack | None = None
    _made: dict[tuple[Any, ...], T] = field(default_factory=dict)

    def __call__(self, pack: Pack, *arguments: Any) -> T:
        """What `make` says of this pack and these arguments."""
        if self._pack is not pack:
            self._pack, self._made = pack, {}
        if arguments not in self._made:
            self._made[arguments] = self.make(pack, *arguments)
        return self._made[arguments]
