"""Logistic regression on everything that the controller sees, its penalty chosen inside."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.selection.crossfitting import (
    LogOdds,
    OfOnePack,
    OutOfFold,
    Rows,
    Score,
    folds_of,
    has_both,
    one_thread,
    rows_of,
)
from benchmarks.selection.pack import Pack
from harness_core.evaluation.metrics import auc
from harness_core.evaluation.selection import Selector
from harness_core.features.batch import Floats

PENALTIES: Final = (0.001, 0.01, 0.1, 1.0)
"""Values of C that are tried: the smaller, the stronger the pull to zero."""
_MAX_ITERATIONS: Final = 100

ROWS: Final = OfOnePack(lambda pack, seed: rows_of(pack, seed=seed))
"""The rows of the pack at hand, drawn once for all learners that take rows."""


def logistic(pack: Pack, seed: int) -> Selector | None:
    """Standardised columns of state and set; C has the best AUC within sets of the inner folds."""
    rows = ROWS(pack, seed)
    with one_thread():
        chosen = _chosen(rows, seed=seed)
        scores = {
            fold: _fit(rows.without([fold], seed=seed), penalty) for fold, penalty in chosen.items()
        }
    return LogOdds(OutOfFold(scores)) if scores else None


def _chosen(rows: Rows, *, seed: int) -> dict[int, float]:
    """C of each fold; empty where some part has nothing to tell good from bad by."""
    folds = folds_of(rows)
    if not all(has_both(rows.without([fold], seed=seed)) for fold in folds):
        return {}
    merit: dict[int, list[list[float]]] = {fold: [] for fold in folds}
    for outer, inner in combinations(folds, 2):
        # What learnt without two folds serves both: each is inner while the other is outer.
        learnt_from = rows.without([outer, inner], seed=seed)
        if not has_both(learnt_from):
            continue
        models = [_fit(learnt_from, penalty) for penalty in PENALTIES]
        for judged, watched in ((outer, inner), (inner, outer)):
            held_out = rows.where(rows.fold == watched)
            merit[judged].append([_auc_within(held_out, model(held_out.x)) for model in models])
    return {fold: _best(merit[fold]) for fold in folds}


def _best(merit: Sequence[Sequence[float]]) -> float:
    """The C with the best mean merit; the strongest penalty where nothing can be said."""
    if not merit:
        return PENALTIES[0]
    return PENALTIES[int(np.argmax(np.nan_to_num(np.mean(merit, axis=0), nan=-1.0)))]


def _auc_within(rows: Rows, scores: Floats) -> float:
    """Mean AUC over the sets that have both outcomes."""
    starts = np.flatnonzero(np.diff(rows.set_id)) + 1
    parts = zip(np.split(scores, starts), np.split(rows.outcome, starts), strict=True)
    found = [value for value in (auc(s, o) for s, o in parts) if not np.isnan(value)]
    return float(np.mean(found)) if found else float("nan")


def _fit(rows: Rows, penalty: float) -> Score:
    scaler = StandardScaler().fit(rows.x)
    model = LogisticRegression(C=penalty, solver="newton-cholesky", max_iter=_MAX_ITERATIONS)
    model.fit(scaler.transform(rows.x), rows.solved)

    def score(x: Floats) -> Floats:
        return np.asarray(model.decision_function(scaler.transform(x)), dtype=np.float32)

    return score
