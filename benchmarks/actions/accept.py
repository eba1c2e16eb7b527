"""Accept or retry: attempts at one task arrive in random order, up to K of them.

After each, the best so far is handed in or another attempt is asked for. A threshold that judges
the tasks of a fold was set on the tasks of the other folds. A walk that never reaches it hands in
the best of all K.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.actions.models import FoldModels
from harness_core.controller.stopping import (
    SIGNALS,
    TOLERANCE,
    Doubles,
    Walks,
    best_threshold,
    cheapest_threshold,
    deal,
    fit_acceptance,
    stops,
)
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import mean_by_task
from harness_core.features.batch import DecisionGroup, Integers

BUDGETS: Final = (1.5, 2.0, 8 / 3, 4.0)
"""Mean numbers of attempts that a policy may use on the folds that its threshold is set on."""
_N_ORDERS: Final = 12
_MIN_TASKS: Final = 10
_CERTAIN: Final = 0.5

SetThreshold = Callable[[Doubles, Doubles], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A way to stop: what is compared with the threshold, and what is handed in then."""

    score: Doubles  # [W, K]
    success: Doubles  # [W, K] of what would be handed in


def accept_or_retry(
    groups: Sequence[DecisionGroup],
    models: FoldModels,
    *,
    n_attempts: int,
    bootstrap: Bootstrap,
    seed: int,
) -> dict[str, Any]:
    """Success against mean attempts used, for the controller and what it has to beat."""
    walks = deal(
        groups,
        models.critics,
        models.combinations,
        n_attempts=n_attempts,
        n_orders=_N_ORDERS,
        seed=seed,
    )
    n_tasks = len(set(walks.task_id.tolist()))
    if n_tasks < _MIN_TASKS:
        return {"not_measured": f"{n_tasks} tasks have {n_attempts} attempts"}
    figures: dict[str, Any] = {
        "n_tasks": n_tasks,
        "n_attempts": n_attempts,
        "random_single": _mean(walks, walks.arrived[:, 0], bootstrap),
        "fixed_k": {
            str(k + 1): _mean(walks, walks.success[:, k], bootstrap) for k in range(n_attempts)
        },
        "oracle_stop": _used(walks, _oracle_places(walks), _any_so_far(walks), bootstrap),
    }
    rules = {**_rules(walks), "controller": _controller(walks)}
    for budget in BUDGETS:
        figures[f"budget_{budget:.2f}"] = {
            name: _judged(walks, rule, _for_budget(budget), bootstrap)
            for name, rule in rules.items()
        }
    if not np.isnan(walks.visible).all():
        figures["visible_passes_stop"] = _visible_stop(walks, bootstrap)
    figures["within_tolerance"] = {
        "tolerance": TOLERANCE,
        **_judged(walks, rules["controller"], _for_tolerance, bootstrap),
    }
    return figures


def _controller(walks: Walks) -> _Rule:
    """The calibrated probability of the best so far; fold f by what the other folds taught."""
    probability = np.zeros_like(walks.success)
    for fold in np.unique(walks.fold):
        acceptance = fit_acceptance(walks.take(walks.fold != fold), tolerance=TOLERANCE)
        assert acceptance is not None
        inside = walks.fold == fold
        probability[inside] = acceptance.probability(walks.signals[inside])
    return _Rule(score=probability, success=walks.success)


def _rules(walks: Walks) -> dict[str, _Rule]:
    """Stops without a fitted probability. All but `agent_prior` hand in the controller's pick.

    `random` asks for a number of attempts drawn without looking; `agent_prior` stops by the prior
    of the best agent so far, and hands in what that agent made.
    """
    rng = np.random.default_rng(0)
    signal = {name: walks.signals[..., index] for index, name in enumerate(SIGNALS)}
    return {
        "agent_prior": _by_prior(walks),
        "critic_alone": _Rule(score=signal["critic"], success=walks.success),
        "agreement": _Rule(score=signal["shared_by"], success=walks.success),
        "random": _Rule(score=rng.random(walks.success.shape), success=walks.success),
    }


def _by_prior(walks: Walks) -> _Rule:
    best = np.maximum.accumulate(walks.prior, axis=1)
    # Place of the best so far: the last one that reached the running maximum.
    places = np.where(walks.prior >= best, np.arange(walks.prior.shape[1]), 0)
    holder = np.maximum.accumulate(places, axis=1)
    return _Rule(score=best, success=np.take_along_axis(walks.arrived, holder, axis=1))


def _visible_stop(walks: Walks, bootstrap: Bootstrap) -> dict[str, Any]:
    """Hand in the first attempt that passes every visible check, else the controller's pick."""
    passes = np.nan_to_num(walks.visible, nan=0.0)
    place = stops(passes, 1.0)
    has_passed = passes.max(axis=1) >= 1.0
    success = np.where(has_passed[:, None], walks.arrived, walks.success)
    return _used(walks, place, success, bootstrap)


def _judged(
    walks: Walks, rule: _Rule, set_threshold: SetThreshold, bootstrap: Bootstrap
) -> dict[str, Any]:
    place = np.zeros(len(walks.fold), dtype=np.int64)
    for fold in np.unique(walks.fold):
        outside, inside = walks.fold != fold, walks.fold == fold
        threshold = set_threshold(rule.score[outside], rule.success[outside])
        place[inside] = stops(rule.score[inside], threshold)
    return _used(walks, place, rule.success, bootstrap)


def _for_budget(budget: float) -> SetThreshold:
    return lambda score, success: best_threshold(score, success, budget=budget)


def _for_tolerance(score: Doubles, success: Doubles) -> float:
    return cheapest_threshold(score, success, tolerance=TOLERANCE)


def _used(walks: Walks, place: Integers, success: Doubles, bootstrap: Bootstrap) -> dict[str, Any]:
    """Success, attempts used, and the paired difference to the best of all K."""
    chosen = np.take_along_axis(success, place[:, None], axis=1)[:, 0]
    to_all = _by_task(walks, chosen - walks.success[:, -1])
    return {
        "success": _mean(walks, chosen, bootstrap),
        "attempts": _mean(walks, (place + 1).astype(np.float64), bootstrap),
        "minus_fixed_k": bootstrap.difference(list(to_all.values()))._asdict(),
    }


def _oracle_places(walks: Walks) -> Integers:
    return stops(_any_so_far(walks), _CERTAIN)


def _any_so_far(walks: Walks) -> Doubles:
    return np.asarray(np.maximum.accumulate(walks.arrived, axis=1))


def _mean(walks: Walks, values: Doubles, bootstrap: Bootstrap) -> dict[str, float]:
    per_task = _by_task(walks, values)
    metric = bootstrap.mean(per_task, name="")
    return {"mean": metric.value, "low": metric.low, "high": metric.high}


def _by_task(walks: Walks, values: Doubles) -> Mapping[str, float]:
    return mean_by_task(zip(walks.task_id.tolist(), values.tolist(), strict=True))
