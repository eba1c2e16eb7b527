"""Stage two of selection: the critic's score combined with what the group itself says.

Within a decision group each signal is turned into a z-score, and the combined score is their
weighted sum. The weights are few and non-negative; they are fitted by pairwise logistic regression
on out-of-fold scores, so that an overconfident critic cannot drown the others.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import expit

from harness_core.features.batch import DecisionGroup, Floats, GroupSignals, Integers
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.records import Record

_Doubles = npt.NDArray[np.float64]

_PULL: Final = 0.01
"""Strength of the pull towards the critic alone, per mean pair loss."""
_N_DRAWS: Final = 2
"""Random subsets of each size drawn from each group to fit on."""
_MIN_SPREAD: Final = 1e-6


_GROUP_SIGNALS: Final = ("prior_z", "output_agreement", "same_answer", "visible_z")
"""Set-relative columns that stand beside the critic, each in units of its own spread."""

_NAMES: Final = ("critic", *_GROUP_SIGNALS)
_COLUMNS: Final = [SET_RELATIVE.index(name) for name in _GROUP_SIGNALS]


class Combination(Record):
    """Weights of stage two and the calibration of the critic's logit."""

    weights: dict[str, float]
    """Signal → non-negative weight of its z-score; `critic` is the critic itself."""
    slope: float = Field(allow_inf_nan=False)
    intercept: float = Field(allow_inf_nan=False)
    """P(success) = σ(slope · logit + intercept), Platt's calibration on out-of-fold logits."""


CRITIC_ALONE: Final = Combination(weights={"critic": 1.0}, slope=1.0, intercept=0.0)
"""What is used where there is nothing to fit on."""


def combine(
    combination: Combination,
    logits: Floats,
    signals: GroupSignals,
    relative: Floats | None = None,
) -> Floats:
    """Scores [K] of one group from the critic's logits [K]; higher is better."""
    columns = _columns(logits, set_relative(signals) if relative is None else relative)
    weights = np.array([combination.weights.get(name, 0.0) for name in _NAMES])
    return np.asarray(columns @ weights, dtype=np.float32)


def success_probability(combination: Combination, logits: Floats) -> Floats:
    """Calibrated probability of success of each logit."""
    margin = combination.slope * logits + combination.intercept
    return np.asarray(expit(margin), dtype=np.float32)


def fit_combination(
    groups: Sequence[DecisionGroup],
    logits: Sequence[Floats],
    *,
    group_sizes: Sequence[int],
    seed: int,
    relative: Sequence[Floats] | None = None,
) -> Combination:
    """Fit weights and calibration on groups whose logits come from models that never saw them.

    Args:
        groups: decision groups.
        logits: of each group [K].
        group_sizes: random subsets of these sizes are learnt from too, besides the whole group.
        seed: of these subsets.
        relative: set-relative features of each group [K, Dr], where they are made already.
    """
    rng = np.random.default_rng(seed)
    made: Sequence[Floats | None] = [None] * len(groups) if relative is None else relative
    whole = [_known(*each) for each in zip(groups, logits, made, strict=True)]
    differences, pair_weights = _pairs(groups, logits, whole, group_sizes=group_sizes, rng=rng)
    start = np.array([1.0] + [0.0] * len(_GROUP_SIGNALS))
    weights = _fit_weights(differences, pair_weights, start=start)
    # Fitted on a smooth loss, kept for what counts: on some logs the group misleads.
    if _picked(whole, weights) <= _picked(whole, start):
        weights = start
    slope, intercept = _fit_calibration(groups, logits)
    return Combination(
        weights={
            name: round(float(weight), 6) for name, weight in zip(_NAMES, weights, strict=True)
        },
        slope=slope,
        intercept=intercept,
    )


def _columns(logits: Floats, relative: Floats) -> _Doubles:
    """The z-score of every signal, [K, signals]."""
    rows = np.stack([logits, *relative[:, _COLUMNS].T]).astype(np.float64)
    spread = rows.std(axis=1, keepdims=True)
    # A signal that is the same for all says nothing; dividing by its rounding error would.
    tells = spread > _MIN_SPREAD
    scores = (rows - rows.mean(axis=1, keepdims=True)) / np.where(tells, spread, 1.0)
    return np.asarray(np.where(tells, scores, 0.0).T)


class _Known(NamedTuple):
    """The candidates of a group, or of a subset of it, whose outcome is known."""

    success: Floats  # [K]
    columns: _Doubles  # [K, signals]


def _known(group: DecisionGroup, logits: Floats, relative: Floats | None) -> _Known:
    known = np.flatnonzero(~np.isnan(group.success))
    if relative is not None and len(known) == group.size:
        return _Known(group.success, _columns(logits, relative))
    return _subset(group, logits, known)


def _subset(group: DecisionGroup, logits: Floats, index: Integers) -> _Known:
    relative = set_relative(group.signals.take(index))
    return _Known(group.success[index], _columns(logits[index], relative))


def _pairs(
    groups: Sequence[DecisionGroup],
    logits: Sequence[Floats],
    whole: Sequence[_Known],
    *,
    group_sizes: Sequence[int],
    rng: np.random.Generator,
) -> tuple[_Doubles, _Doubles]:
    """Differences of signals of all (better, worse) pairs, and the weight of each pair."""
    differences = [np.zeros((0, len(_NAMES)))]
    weights = [np.zeros(0)]
    for group, of_group, known in zip(groups, logits, whole, strict=True):
        drawn = [_subset(group, of_group, index) for index in _drawn(group, group_sizes, rng)]
        for part in (*drawn, known):
            better, worse = np.nonzero(part.success[:, None] > part.success[None, :])
            if len(better):
                differences.append(part.columns[better] - part.columns[worse])
                weights.append(np.full(len(better), 1.0 / len(better)))
    return np.concatenate(differences), np.concatenate(weights)


def _drawn(
    group: DecisionGroup, sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[Integers]:
    known = np.flatnonzero(~np.isnan(group.success))
    for size in sizes:
        if size < len(known):
            for _ in range(_N_DRAWS):
                yield np.sort(rng.choice(known, size=size, replace=False)).astype(np.int64)


def _picked(groups: Sequence[_Known], weights: _Doubles) -> float:
    """Mean success of the candidate with the highest score, over groups that have a choice."""
    success = [
        known.success[np.argmax(known.columns @ weights)]
        for known in groups
        if len(known.success) > 1
    ]
    return float(np.mean(success)) if success else 0.0


def _fit_weights(differences: _Doubles, weights: _Doubles, *, start: _Doubles) -> _Doubles:
    if not len(differences):
        return start
    weights = weights / weights.sum()

    def loss(vector: _Doubles) -> tuple[float, _Doubles]:
        margins = differences @ vector
        pull = vector - start
        value = float(weights @ np.logaddexp(0.0, -margins)) + _PULL * float(pull @ pull)
        gradient = -(weights * expit(-margins)) @ differences + 2 * _PULL * pull
        return value, gradient

    bounds = [(0.0, None)] * len(start)
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(result.x)


def _fit_calibration(
    groups: Sequence[DecisionGroup], logits: Sequence[Floats]
) -> tuple[float, float]:
    if not groups:
        return 1.0, 0.0
    label = np.concatenate([group.success for group in groups]).astype(np.float64)
    logit = np.concatenate(list(logits)).astype(np.float64)
    known = ~np.isnan(label)
    label, logit = label[known], logit[known]
    if not len(label):
        return 1.0, 0.0

    def loss(vector: _Doubles) -> tuple[float, _Doubles]:
        margin = vector[0] * logit + vector[1]
        value = float(np.mean(np.logaddexp(0.0, margin) - label * margin))
        residual = expit(margin) - label
        pull = vector - np.array([1.0, 0.0])
        gradient = np.array([np.mean(residual * logit), np.mean(residual)])
        return value + 1e-4 * float(pull @ pull), gradient + 2e-4 * pull

    # The slope is kept positive: a calibration may not turn the order round.
    bounds = [(1e-3, None), (None, None)]
    result = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return round(float(result.x[0]), 6), round(float(result.x[1]), 6)
