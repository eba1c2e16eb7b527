"""Whether the best attempt so far is good enough to hand in, or another one is worth asking for.

Attempts at one task arrive one after another. After each the best so far is known (stage two picks
it), and its probability of success is a logistic function of a few signals: the critic's logit, the
agent prior, visible checks, how far the attempts agree, how many there are. Weights and threshold
are fitted on attempts that the critic never learnt from, dealt in random orders.

Letters: W walks (one order of the attempts at one task), K attempts of each, D signals.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import expit, logit

from harness_core.controller.combination import Combination, combine
from harness_core.controller.scoring import Critic
from harness_core.features.batch import DecisionGroup, Floats, Integers
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.records import Record

Doubles = npt.NDArray[np.float64]

SIGNALS: Final = (
    "critic",
    "prior",
    "visible",
    "visible_known",
    "output_agreement",
    "same_text",
    "same_answer",
    "shared_by",
    "log_k",
)
"""What the probability of the best so far is made of. `shared_by` is agreement times how many
attempts there are: two that agree say less than eight."""

_COLUMNS: Final = [
    SET_RELATIVE.index(name) for name in ("output_agreement", "same_text", "same_answer")
]
_PULL: Final = 0.01
"""Strength of the pull of standardised weights towards 0, per mean loss."""
_MAX_LOGIT: Final = 8.0
_PRIOR_MARGIN: Final = 0.01
_MIN_SPREAD: Final = 0.01
_N_THRESHOLDS: Final = 101
_MAX_ATTEMPTS: Final = 8
_MIN_TASKS: Final = 10
_N_ORDERS: Final = 4
TOLERANCE: Final = 0.005
"""Success that an accepted attempt may cost, against asking for all and handing in the best."""


class Acceptance(Record):
    """P(best so far succeeds) = σ(Σ weight · signal + intercept), and where it is enough."""

    weights: dict[str, float]
    intercept: float = Field(allow_inf_nan=False)
    accept_at: float = Field(ge=0, le=1)
    """Hand in from this probability on."""

    def probability(self, signals: Doubles) -> Doubles:
        """P of rows of signals [..., D]."""
        weights = np.array([self.weights[name] for name in SIGNALS])
        return np.asarray(expit(signals @ weights + self.intercept), dtype=np.float64)


class Steering(Record):
    """What a model folder says about interventions."""

    actor: str
    """How interventions were learnt (`train.actor`)."""
    acceptance: Acceptance | None
    """When the best attempt so far is handed in; None where no task had attempts to fit it on."""


class BestSoFar(NamedTuple):
    """The best of a set of attempts, and what is known of it."""

    position: int
    signals: Doubles  # [D]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walks:
    """Attempts dealt in random orders; place k of a walk is after k + 1 attempts."""

    task_id: npt.NDArray[np.str_]  # [W]
    fold: Integers  # [W]
    order: Integers  # [W, K] positions in the group
    signals: Doubles  # [W, K, D] of the best so far
    success: Doubles  # [W, K] whether the best so far succeeds
    arrived: Doubles  # [W, K] whether the attempt that arrived last succeeds
    prior: Doubles  # [W, K] agent prior of the attempt that arrived last
    visible: Doubles  # [W, K] visible checks that it passes; NaN without any

    def take(self, rows: npt.NDArray[np.bool_]) -> "Walks":
        """The chosen walks."""
        return Walks(**{name: getattr(self, name)[rows] for name in Walks.__slots__})


def best_so_far(combination: Combination, logits: Floats, group: DecisionGroup) -> BestSoFar:
    """The pick of stage two among K attempts of one task, with its signals."""
    signals = group.signals
    index = int(np.argmax(combine(combination, logits, signals)))
    agreement = set_relative(signals)[index, _COLUMNS].astype(np.float64)
    visible = float(signals.visible_rate[index])
    known = not np.isnan(visible)
    prior = np.clip(float(signals.agent_prior[index]), _PRIOR_MARGIN, 1.0 - _PRIOR_MARGIN)
    row = (
        np.clip(float(logits[index]), -_MAX_LOGIT, _MAX_LOGIT),
        logit(prior),
        visible if known else 0.0,
        float(known),
        *agreement,
        agreement.max() * group.size,
        np.log(group.size),
    )
    return BestSoFar(index, np.array(row, dtype=np.float64))


def deal(
    groups: Sequence[DecisionGroup],
    critics: Sequence[Critic],
    combinations: Sequence[Combination],
    *,
    n_attempts: int,
    n_orders: int,
    seed: int,
) -> Walks:
    """Walks of `n_attempts` through every group that has as many attempts with known outcome.

    Critic and stage two of fold f judge the groups of fold f, which they never saw.
    """
    rows = [
        row
        for fold, critic in enumerate(critics)
        for row in _walks_of_fold(
            [group for group in _labelled(groups, n_attempts) if group.fold == fold],
            critic,
            combinations[fold],
            shape=(n_orders, n_attempts),
            seed=seed,
        )
    ]
    k, d = n_attempts, len(SIGNALS)
    return Walks(
        task_id=np.array([row.group.task_id for row in rows], dtype=np.str_),
        fold=np.array([row.group.fold for row in rows], dtype=np.int64),
        order=_stacked([row.order for row in rows], k).astype(np.int64),
        signals=np.array([row.signals for row in rows], dtype=np.float64).reshape(-1, k, d),
        success=_stacked([row.success for row in rows], k),
        arrived=_stacked([row.group.success[row.order] for row in rows], k),
        prior=_stacked([row.group.signals.agent_prior[row.order] for row in rows], k),
        visible=_stacked([row.group.signals.visible_rate[row.order] for row in rows], k),
    )


def _stacked(rows: Sequence[npt.NDArray[Any]], width: int) -> Doubles:
    """Rows of one width, [W, K], also where there is none."""
    return np.array(rows, dtype=np.float64).reshape(-1, width)


class _Walk(NamedTuple):
    group: DecisionGroup
    order: Integers
    signals: Doubles
    success: Floats


def _labelled(groups: Sequence[DecisionGroup], n_attempts: int) -> Iterator[DecisionGroup]:
    for group in groups:
        known = np.flatnonzero(~np.isnan(group.success))
        if len(known) >= n_attempts:
            yield group.take(known)


def _walks_of_fold(
    groups: Sequence[DecisionGroup],
    critic: Critic,
    combination: Combination,
    *,
    shape: tuple[int, int],
    seed: int,
) -> Iterator[_Walk]:
    n_orders, n_attempts = shape
    for group in groups:
        rng = np.random.default_rng([seed, crc32(group.group_id.encode())])
        orders = [rng.permutation(group.size)[:n_attempts] for _ in range(n_orders)]
        prefixes = [order[:k] for order in orders for k in range(1, n_attempts + 1)]
        sets = [group.take(prefix) for prefix in prefixes]
        vectors = [np.concatenate([s.after, set_relative(s.signals)], axis=1) for s in sets]
        bounds = np.cumsum([len(prefix) for prefix in prefixes])[:-1]
        logits = np.split(critic.terminal(np.concatenate(vectors)), bounds)
        best = [best_so_far(combination, *pair) for pair in zip(logits, sets, strict=True)]
        success = np.array(
            [part.success[item.position] for part, item in zip(sets, best, strict=True)]
        ).reshape(n_orders, n_attempts)
        signals = np.array([item.signals for item in best]).reshape(n_orders, n_attempts, -1)
        yield from map(_Walk._make, zip([group] * n_orders, orders, signals, success, strict=True))


def learn_acceptance(
    groups: Sequence[DecisionGroup],
    critics: Sequence[Critic],
    combinations: Sequence[Combination],
    *,
    seed: int,
) -> Acceptance | None:
    """The acceptance that a model is served with, from up to 8 attempts at each task.

    Fewer where few tasks have as many; None where hardly any task has two.
    """
    sizes = [int(np.sum(~np.isnan(group.success))) for group in groups]
    lengths = range(_MAX_ATTEMPTS, 1, -1)
    counts = {k: sum(size >= k for size in sizes) for k in lengths}
    n_attempts = next((k for k in lengths if counts[k] >= _MIN_TASKS), None)
    if n_attempts is None:
        return None
    walks = deal(
        groups, critics, combinations, n_attempts=n_attempts, n_orders=_N_ORDERS, seed=seed
    )
    return fit_acceptance(walks, tolerance=TOLERANCE)


def fit_acceptance(walks: Walks, *, tolerance: float) -> Acceptance | None:
    """Weights by cross-entropy, and the lowest threshold that costs at most `tolerance` of success.

    Success is compared with asking for all attempts and handing in the best. None without walks.
    """
    if not len(walks.fold):
        return None
    d = len(SIGNALS)
    weights, intercept = fit_logistic(walks.signals.reshape(-1, d), walks.success.reshape(-1))
    fitted = Acceptance(
        weights=dict(zip(SIGNALS, np.round(weights, 6).tolist(), strict=True)),
        intercept=round(intercept, 6),
        accept_at=1.0,
    )
    probability = fitted.probability(walks.signals)
    threshold = cheapest_threshold(probability, walks.success, tolerance=tolerance)
    return fitted.model_copy(update={"accept_at": round(threshold, 6)})


def fit_logistic(signals: Doubles, label: Doubles) -> tuple[Doubles, float]:
    """Weights and intercept of a ridge logistic regression on standardised signals [N, D]."""
    mean, spread = signals.mean(axis=0), signals.std(axis=0)
    scale = np.where(spread > _MIN_SPREAD, spread, 1.0)
    rows = (signals - mean) / scale

    def loss(vector: Doubles) -> tuple[float, Doubles]:
        margin = rows @ vector[:-1] + vector[-1]
        value = float(np.mean(np.logaddexp(0.0, margin) - label * margin))
        residual = (expit(margin) - label) / len(label)
        pull = np.append(vector[:-1], 0.0)
        gradient = np.append(rows.T @ residual, residual.sum())
        return value + _PULL * float(pull @ pull), gradient + 2 * _PULL * pull

    found = minimize(loss, np.zeros(signals.shape[1] + 1), jac=True, method="L-BFGS-B").x
    weights = np.asarray(found[:-1] / scale)
    return weights, float(found[-1] - weights @ mean)


def stops(probability: Doubles, threshold: float) -> Integers:
    """Place [W] of the first attempt whose probability reaches the threshold, else the last."""
    hit = probability >= threshold
    last = probability.shape[1] - 1
    return np.asarray(np.where(hit.any(axis=1), hit.argmax(axis=1), last), dtype=np.int64)


def cheapest_threshold(probability: Doubles, success: Doubles, *, tolerance: float) -> float:
    """The lowest threshold whose success is within `tolerance` of always taking all attempts."""
    wanted = float(success[:, -1].mean()) - tolerance
    for threshold in thresholds(probability):
        place = stops(probability, threshold)
        if np.take_along_axis(success, place[:, None], axis=1).mean() >= wanted:
            return float(threshold)
    return 1.0


def best_threshold(probability: Doubles, success: Doubles, *, budget: float) -> float:
    """The threshold of highest success among those that take at most `budget` attempts on average.

    0, which takes the first attempt, where no threshold is that cheap.
    """
    best, found = -1.0, 0.0
    for threshold in thresholds(probability):
        place = stops(probability, threshold)
        worth = float(np.take_along_axis(success, place[:, None], axis=1).mean())
        if float(place.mean()) + 1.0 <= budget and worth >= best:
            best, found = worth, float(threshold)
    return found


def thresholds(probability: Doubles) -> Doubles:
    """Thresholds worth trying, ascending: quantiles of what was seen."""
    seen = probability[np.isfinite(probability)]
    # Values that were seen, and nothing between them: rounding must not miss what is equal.
    return np.unique(np.quantile(seen, np.linspace(0.0, 1.0, _N_THRESHOLDS), method="lower"))
