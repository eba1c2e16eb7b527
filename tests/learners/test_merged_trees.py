"""Several boosted models put together into one."""

from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import pytest

from harness_core.learners.merged_trees import merge_members

Rows = npt.NDArray[np.float32]

SETTINGS = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1, "min_data_in_bin": 1}


def rows(n: int = 60, *, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)


def member(*, seed: int, label: Rows | None = None, **settings: Any) -> lightgbm.Booster:
    x = rows()
    noise = np.random.default_rng(seed).normal(size=len(x))
    wanted = (x[:, seed % 5] + noise > 0).astype(np.float32) if label is None else label
    parameters = {**SETTINGS, "objective": "cross_entropy", "seed": seed, **settings}
    data = lightgbm.Dataset(x, label=wanted, params=SETTINGS)
    return lightgbm.train(parameters, data, num_boost_round=7)


def raw(model: lightgbm.Booster, x: Rows) -> npt.NDArray[np.float64]:
    return np.asarray(model.predict(x, raw_score=True, num_threads=1), dtype=np.float64)


def test_the_score_is_the_weighted_sum_of_the_members_scores() -> None:
    members = [member(seed=seed, num_leaves=4 + seed) for seed in range(3)]
    weights = [0.25, 1.0, 0.5]
    x = rows(200, seed=1)
    wanted = sum(weight * raw(one, x) for one, weight in zip(members, weights, strict=True))
    merged = merge_members(list(zip(members, weights, strict=True)))
    np.testing.assert_allclose(raw(merged, x), wanted, atol=1e-9)
    assert merged.num_trees() == sum(one.num_trees() for one in members)


def test_members_may_have_learnt_other_things() -> None:
    x = rows(50, seed=2)
    classifier = member(seed=0)
    regressor = member(seed=1, label=rows()[:, 0].copy(), objective="regression")
    merged = merge_members([(classifier, 1.0), (regressor, 2.0)])
    np.testing.assert_allclose(raw(merged, x), raw(classifier, x) + 2 * raw(regressor, x))


@pytest.mark.parametrize("hole", [np.nan, 0.0, np.inf])
def test_what_members_make_of_odd_values_stays(hole: float) -> None:
    members = [member(seed=seed) for seed in range(2)]
    x = rows(20, seed=3)
    x[:, 0] = hole
    merged = merge_members([(one, 0.5) for one in members])
    np.testing.assert_allclose(raw(merged, x), (raw(members[0], x) + raw(members[1], x)) / 2)


def test_a_member_without_a_split_adds_the_same_to_all() -> None:
    alone = member(seed=0)
    flat = member(seed=1, min_data_in_leaf=1000)
    x = rows(20, seed=4)
    merged = merge_members([(alone, 1.0), (flat, 1.0)])
    np.testing.assert_allclose(raw(merged, x), raw(alone, x) + raw(flat, x))
