"""Boosted trees on blocks of columns, and a classifier and a ranker together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import lightgbm
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.selection.blocks import with_set_relative
from benchmarks.selection.crossfitting import (
    LogOdds,
    Rows,
    Score,
    out_of_fold,
    z_scores,
)
from benchmarks.selection.linear import ROWS
from benchmarks.selection.pack import Pack
from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset
from harness_core.features.batch import Floats, Integers
from harness_core.features.table import FeatureSchema

_N_ITERATIONS: Final = 120
_N_LEAVES: Final = 15
_N_BINS: Final = 64
_LEARNING_RATE: Final = 0.1
_L2: Final = 1.0
_MIN_LEAF: Final = 20
"""As `harness_core.evaluation.boosted_trees`; nothing was tuned."""
_N_LEVELS: Final = 4
"""Steps of a graded outcome that the ranker tells apart."""

Columns = Callable[[FeatureSchema], Integers]


def boosted_trees(pack: Pack, seed: int, columns: Columns) -> Selector | None:
    """Trees that see these columns alone."""
    seen = columns(pack.schema)

    def fit(rows: Rows) -> Score:
        model = HistGradientBoostingClassifier(
            max_iter=_N_ITERATIONS,
            max_leaf_nodes=_N_LEAVES,
            min_samples_leaf=_MIN_LEAF,
            max_bins=_N_BINS,
            learning_rate=_LEARNING_RATE,
            l2_regularization=_L2,
            early_stopping=False,
            random_state=seed,
        ).fit(rows.x[:, seen], rows.solved)
        return lambda x: np.asarray(model.decision_function(x[:, seen]), dtype=np.float32)

    fitted = out_of_fold(ROWS(pack, seed), fit, seed=seed) if len(seen) else None
    return None if fitted is None else LogOdds(fitted)


@dataclass(frozen=True, slots=True)
class ZScoresAdded:
    """Several selectors, each in units of its own spread within the set, added."""

    parts: tuple[Selector, ...]

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Sums of z-scores [K] of each subset."""
        scored = [part(subsets) for part in self.parts]
        return [
            np.sum([z_scores(score) for score in scores], axis=0).astype(np.float32)
            for scores in zip(*scored, strict=True)
        ]


def classifier_and_ranker(pack: Pack, seed: int) -> Selector | None:
    """LightGBM's classifier and its LambdaRank (Burges, 2010) on everything, z-scores added."""
    seen = with_set_relative(pack.schema)
    rows = ROWS(pack, seed)
    parts = []
    for fit in (_classifier, _ranker):
        boosted = partial(fit, seen=seen, seed=seed)
        fitted = out_of_fold(rows, boosted, seed=seed)
        if fitted is None:
            return None
        parts.append(fitted)
    return ZScoresAdded(tuple(parts))


def _classifier(rows: Rows, *, seen: Integers, seed: int) -> Score:
    data = lightgbm.Dataset(rows.x[:, seen], label=rows.solved.astype(np.int32))
    return _boosted(data, "binary", seen, seed)


def _ranker(rows: Rows, *, seen: Integers, seed: int) -> Score:
    _, size = np.unique(rows.set_id, return_counts=True)
    level = np.rint(rows.outcome * _N_LEVELS).astype(np.int32)
    data = lightgbm.Dataset(rows.x[:, seen], label=level, group=size)
    return _boosted(data, "lambdarank", seen, seed)


def _boosted(data: lightgbm.Dataset, objective: str, seen: Integers, seed: int) -> Score:
    settings = {
        "objective": objective,
        "num_leaves": _N_LEAVES,
        "min_data_in_leaf": _MIN_LEAF,
        "learning_rate": _LEARNING_RATE,
        "lambda_l2": _L2,
        "max_bin": _N_BINS,
        "num_threads": 1,
        "deterministic": True,
        "force_col_wise": True,
        "seed": seed,
        "verbosity": -1,
    }
    model = lightgbm.train(settings, data, num_boost_round=_N_ITERATIONS)
    return lambda x: np.asarray(
        model.predict(x[:, seen], raw_score=True, num_threads=1), dtype=np.float32
    )
