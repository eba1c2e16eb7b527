import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.controller.combination import (
    CRITIC_ALONE,
    combine,
    fit_combination,
    success_probability,
)
from tests.controller.groups import make_group

SIZES = (2, 4)


def _many(*, agreeing_is_right: bool, n: int = 40):
    """Groups of four where the two that return the same are right (or a coin is thrown)."""
    rng = np.random.default_rng(0)
    groups = []
    for i in range(n):
        success = np.array([1.0, 1.0, 0.0, 0.0])
        if not agreeing_is_right:
            rng.shuffle(success)
        groups.append(make_group(list(success), name=f"g{i}", outputs=[7, 7, 8, 9]))
    return groups


def test_the_critic_alone_keeps_its_order():
    group = make_group([0.0, 1.0, 0.0])
    logits = np.array([0.1, 2.0, -3.0], dtype=np.float32)
    scores = combine(CRITIC_ALONE, logits, group.signals)
    assert list(np.argsort(scores)) == [2, 0, 1]


def test_a_critic_that_knows_nothing_yields_to_agreement():
    groups = _many(agreeing_is_right=True)
    noise = np.random.default_rng(1)
    logits = [noise.normal(size=4).astype(np.float32) for _ in groups]
    fitted = fit_combination(groups, logits, group_sizes=SIZES, seed=0)
    assert fitted.weights["output_agreement"] > 5 * fitted.weights["critic"]


def test_a_critic_that_knows_keeps_the_say():
    groups = _many(agreeing_is_right=False)
    logits = [group.success * 2 - 1 for group in groups]
    fitted = fit_combination(groups, logits, group_sizes=SIZES, seed=0)
    assert fitted.weights["critic"] > 5 * fitted.weights["output_agreement"]


def test_without_mixed_groups_the_critic_stands_alone():
    groups = [make_group([1.0, 1.0]), make_group([0.0, 0.0])]
    fitted = fit_combination(groups, [np.zeros(2, np.float32)] * 2, group_sizes=SIZES, seed=0)
    assert fitted.weights == CRITIC_ALONE.weights | dict.fromkeys(
        fitted.weights.keys() - {"critic"}, 0.0
    )


def test_calibration_recovers_the_odds_of_a_coin():
    rng = np.random.default_rng(0)
    groups = [
        make_group(list((rng.random(50) < 0.25).astype(float)), name=str(i)) for i in range(40)
    ]
    logits = [np.zeros(50, dtype=np.float32) for _ in groups]
    fitted = fit_combination(groups, logits, group_sizes=SIZES, seed=0)
    probability = success_probability(fitted, np.zeros(1, dtype=np.float32))
    assert probability[0] == pytest.approx(0.25, abs=0.03)


@given(st.permutations(range(5)), st.lists(st.floats(-5, 5, width=32), min_size=5, max_size=5))
def test_permuting_candidates_permutes_scores(order, logits):
    group = make_group(
        [0.0, 1.0, 0.0, 1.0, 0.0], outputs=[1, 1, 2, 3, 3], prior=[0.1, 0.2, 0.3, 0.4, 0.5]
    )
    fitted = CRITIC_ALONE.model_copy(
        update={"weights": {"critic": 1.0, "output_agreement": 0.5, "prior_z": 0.25}}
    )
    values = np.array(logits, dtype=np.float32)
    index = np.array(order)
    direct = combine(fitted, values, group.signals)[index]
    permuted = combine(fitted, values[index], group.take(index).signals)
    assert permuted == pytest.approx(direct, abs=1e-4)


def test_fitting_is_reproducible():
    groups = _many(agreeing_is_right=True)
    logits = [np.arange(4, dtype=np.float32) for _ in groups]
    first = fit_combination(groups, logits, group_sizes=SIZES, seed=3)
    assert first == fit_combination(groups, logits, group_sizes=SIZES, seed=3)
