import math

import numpy as np
import pytest

from harness_core.evaluation.bootstrap import Bootstrap

_BOOTSTRAP = Bootstrap(n_resamples=1000, confidence=0.95, seed=0)


def test_the_interval_covers_a_known_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    bootstrap = Bootstrap(n_resamples=400, confidence=0.9, seed=0)
    hits = 0
    for _ in range(200):
        sample = rng.normal(0.3, 1.0, size=40)
        low, high = bootstrap.interval(bootstrap.means(sample))
        hits += low <= 0.3 <= high
    assert 0.83 <= hits / 200 <= 0.96


def test_constant_values_have_no_uncertainty():
    assert _BOOTSTRAP.interval(_BOOTSTRAP.means([0.5] * 10)) == pytest.approx((0.5, 0.5))


def test_columns_are_resampled_together():
    values = np.random.default_rng(0).random((20, 1))
    samples = _BOOTSTRAP.means(np.hstack([values, 2 * values]))
    assert samples[:, 1] == pytest.approx(2 * samples[:, 0])


def test_equal_settings_give_equal_intervals():
    values = np.random.default_rng(0).random(15)
    assert np.array_equal(_BOOTSTRAP.means(values), _BOOTSTRAP.means(values))


@pytest.mark.parametrize("n_tasks", [3, 5])
def test_few_losses_by_chance_are_not_certain(n_tasks):
    losses = -np.linspace(0.05, 0.5, n_tasks)
    percentile = _BOOTSTRAP.interval(_BOOTSTRAP.means(losses))
    assert percentile.high < 0
    assert _BOOTSTRAP.difference(losses).high > percentile.high


def test_false_alarms_on_three_tasks_stay_below_the_stated_rate():
    rng = np.random.default_rng(0)
    alarms = sum(_BOOTSTRAP.difference(rng.normal(size=3)).high < 0 for _ in range(300))
    assert alarms / 300 < 0.05


def test_one_task_says_nothing_about_others():
    assert _BOOTSTRAP.difference([0.4]) == (0.4, -math.inf, math.inf)


def test_no_task_says_nothing():
    assert all(math.isnan(value) for value in _BOOTSTRAP.difference([]))
    metric = _BOOTSTRAP.mean({}, name="success")
    assert metric.n == 0
    assert math.isnan(metric.value)


def test_a_metric_carries_its_interval_and_count():
    metric = _BOOTSTRAP.mean({"b": 1.0, "a": 0.0}, name="success")
    assert (metric.value, metric.low, metric.high, metric.n) == (0.5, 0.0, 1.0, 2)
    assert metric.unit == "fraction"
