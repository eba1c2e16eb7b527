"""When the best attempt so far is handed in."""

import numpy as np
import pytest

from harness_core.controller.combination import CRITIC_ALONE, Combination
from harness_core.controller.stopping import (
    SIGNALS,
    best_so_far,
    best_threshold,
    cheapest_threshold,
    deal,
    fit_acceptance,
    fit_logistic,
    learn_acceptance,
    stops,
)
from harness_core.features.batch import DecisionGroup, Floats
from tests.controller.groups import make_group

N_FOLDS = 2


class PriorCritic:
    """Knows nothing of an attempt but its place among those it is asked about."""

    def terminal(self, x: Floats) -> Floats:
        return np.zeros(len(x), dtype=np.float32)

    def q(self, state: Floats, action: Floats) -> Floats:
        raise AssertionError

    def running(self, state: Floats) -> Floats:
        total: Floats = self.value(state).sum(axis=1)
        return total

    def value(self, state: Floats) -> Floats:
        raise AssertionError


BY_PRIOR = Combination(weights={"prior_z": 1.0}, slope=1.0, intercept=0.0)


def _groups(n: int = 40, k: int = 4) -> list[DecisionGroup]:
    """Attempts whose prior tells how likely they succeed; half of them are poor."""
    rng = np.random.default_rng(0)
    groups = []
    for number in range(n):
        prior = rng.choice([0.1, 0.9], size=k).tolist()
        group = make_group(
            (rng.random(k) < prior).astype(float).tolist(), name=str(number), prior=prior
        )
        object.__setattr__(group, "fold", number % N_FOLDS)
        groups.append(group)
    return groups


def _walks(groups: list[DecisionGroup], k: int = 4):
    return deal(
        groups,
        [PriorCritic()] * N_FOLDS,
        [BY_PRIOR] * N_FOLDS,
        n_attempts=k,
        n_orders=3,
        seed=0,
    )


def test_it_stops_at_the_first_that_reaches_the_threshold_else_at_the_last() -> None:
    probability = np.array([[0.2, 0.8, 0.9], [0.1, 0.2, 0.3], [0.9, 0.1, 0.1]])
    assert stops(probability, 0.8).tolist() == [1, 2, 0]


def test_the_cheapest_threshold_gives_up_no_more_than_it_may() -> None:
    probability = np.array([[0.9, 0.95], [0.3, 0.95]])
    success = np.array([[1.0, 1.0], [0.0, 1.0]])
    threshold = cheapest_threshold(probability, success, tolerance=0.0)
    assert stops(probability, threshold).tolist() == [0, 1]
    # With half of the success to spare nothing is asked for twice.
    assert stops(probability, cheapest_threshold(probability, success, tolerance=0.5)).max() == 0


def test_the_best_threshold_keeps_to_its_budget() -> None:
    probability = np.array([[0.9, 0.95], [0.3, 0.95]])
    success = np.array([[1.0, 1.0], [0.0, 1.0]])
    generous = best_threshold(probability, success, budget=1.5)
    assert stops(probability, generous).tolist() == [0, 1]
    assert stops(probability, best_threshold(probability, success, budget=1.0)).max() == 0


def test_logistic_weights_are_found_again() -> None:
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(4000, 2)) * [1.0, 3.0]
    label = (rng.random(4000) < 1 / (1 + np.exp(-(signals @ [2.0, 0.0] - 1.0)))).astype(float)
    weights, intercept = fit_logistic(signals, label)
    # The pull towards 0 costs a part of the weight.
    assert 1.2 < weights[0] < 2.2
    assert abs(weights[1]) < 0.1
    assert intercept == pytest.approx(-1.0, abs=0.35)


def test_a_constant_signal_has_no_weight() -> None:
    rng = np.random.default_rng(0)
    signals = np.stack([rng.normal(size=200), np.full(200, 7.0)], axis=1)
    weights, _ = fit_logistic(signals, (signals[:, 0] > 0).astype(float))
    assert weights[1] == pytest.approx(0.0, abs=1e-6)


def test_the_best_so_far_is_the_pick_of_stage_two() -> None:
    group = make_group([0.0, 1.0, 0.0], prior=[0.2, 0.9, 0.4])
    best = best_so_far(BY_PRIOR, np.zeros(3, dtype=np.float32), group)
    assert best.position == 1
    named = dict(zip(SIGNALS, best.signals.tolist(), strict=True))
    assert named["prior"] == pytest.approx(np.log(9.0), rel=1e-5)
    assert named["visible_known"] == 0.0
    assert named["log_k"] == pytest.approx(np.log(3.0))


def test_no_signal_depends_on_an_outcome() -> None:
    logits = np.array([0.3, 0.1], dtype=np.float32)
    one, other = (
        best_so_far(CRITIC_ALONE, logits, make_group(success, prior=[0.4, 0.6])).signals
        for success in ([0.0, 1.0], [1.0, 0.0])
    )
    np.testing.assert_array_equal(one, other)


def test_a_walk_deals_the_attempts_of_its_task_in_a_random_order() -> None:
    groups = _groups()
    walks = _walks(groups)
    assert len(walks.fold) == 3 * len(groups)
    assert all(sorted(order) == [0, 1, 2, 3] for order in walks.order.tolist())
    by_name = {group.task_id: group for group in groups}
    for task, order, arrived in zip(walks.task_id, walks.order, walks.arrived, strict=True):
        np.testing.assert_array_equal(by_name[str(task)].success[order], arrived)
    # The best of all is the same in whatever order they came, but for ties.
    assert walks.success[:, 0].mean() < walks.success[:, -1].mean()


def test_what_is_fitted_accepts_attempts_of_good_agents_and_asks_again_for_others() -> None:
    walks = _walks(_groups(80))
    fitted = fit_acceptance(walks, tolerance=0.02)
    assert fitted is not None
    assert fitted.weights["prior"] > 0
    place = stops(fitted.probability(walks.signals), fitted.accept_at)
    handed_in = np.take_along_axis(walks.success, place[:, None], axis=1).mean()
    assert handed_in >= walks.success[:, -1].mean() - 0.02
    assert place.mean() + 1 < 3.5


def test_too_few_tasks_with_two_attempts_teach_nothing() -> None:
    arguments = ([PriorCritic()] * N_FOLDS, [BY_PRIOR] * N_FOLDS)
    assert learn_acceptance(_groups(9), *arguments, seed=0) is None
    assert learn_acceptance(_groups(20, k=1), *arguments, seed=0) is None
    assert learn_acceptance(_groups(20), *arguments, seed=0) is not None
