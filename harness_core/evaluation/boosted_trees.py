"""The yardstick of every table: boosted trees on the same features, with the same cross-fitting."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no stubs

from harness_core.evaluation.subsets import Subset, draw_subsets, whole
from harness_core.features.batch import DecisionGroup, Floats

_N_ITERATIONS = 120
_N_LEAVES = 15
_N_BINS = 64
_ROWS_OF_SIZE = 8
"""Rows of one group at each K (more where K is larger), so that any K is in distribution."""
_ROWS_OF_SUBSET = 16
_MAX_ROWS = 8_000
_SOLVED = 0.5
"""Trees classify: a graded outcome from here on counts as solved."""
_N_THREADS = 1
"""On a busy machine threads that wait for each other cost ten times what they save."""


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Trees for each fold, fitted without it, and for the test slice (fold −1)."""

    models: Mapping[int, HistGradientBoostingClassifier]

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Log-odds of success of the candidates of each subset."""
        result: list[Floats] = [np.zeros(len(subset.index), dtype=np.float32) for subset in subsets]
        for fold, model in self.models.items():
            members = [i for i, subset in enumerate(subsets) if subset.group.fold == fold]
            if not members:
                continue
            with threadpool_limits(_N_THREADS, "openmp"):
                odds = model.decision_function(
                    np.concatenate([subsets[i].attempt_vectors for i in members])
                )
            bounds = np.cumsum([len(subsets[i].index) for i in members])[:-1]
            for position, part in zip(members, np.split(odds, bounds), strict=True):
                result[position] = part.astype(np.float32)
        return result


def fit_boosted_trees(
    groups: Sequence[DecisionGroup], *, group_sizes: Iterable[int], seed: int
) -> BoostedTrees | None:
    """Fit for every fold present; None when some part of the data holds one outcome only."""
    learnt_from = [group for group in groups if group.fold >= 0]
    subsets = whole(learnt_from)
    for size in sorted(size for size in group_sizes if size > 1):
        n_subsets = max(1, _ROWS_OF_SIZE // size)
        subsets += draw_subsets(learnt_from, size=size, n_subsets=n_subsets, seed=seed + 1)
    models = {}
    for fold in sorted({group.fold for group in groups}):
        model = _fit([subset for subset in subsets if subset.group.fold != fold], seed=seed)
        if model is None:
            return None
        models[fold] = model
    return BoostedTrees(models) if models else None


def _fit(subsets: Sequence[Subset], *, seed: int) -> HistGradientBoostingClassifier | None:
    if not subsets:
        return None
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(len(subset.index))[:_ROWS_OF_SUBSET] for subset in subsets]
    pairs = list(zip(subsets, rows, strict=True))
    x = np.concatenate([subset.attempt_vectors[kept] for subset, kept in pairs])
    y = np.concatenate([subset.success[kept] for subset, kept in pairs]) >= _SOLVED
    if y.all() or not y.any():
        return None
    if len(x) > _MAX_ROWS:
        kept = np.sort(rng.choice(len(x), size=_MAX_ROWS, replace=False))
        x, y = x[kept], y[kept]
    model = HistGradientBoostingClassifier(
        max_iter=_N_ITERATIONS,
        max_leaf_nodes=_N_LEAVES,
        max_bins=_N_BINS,
        learning_rate=0.1,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    with threadpool_limits(_N_THREADS, "openmp"):
        return model.fit(x, y)
