"""The promise of abstention, kept by simulation; what a risk costs; and that ties are harmless."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.controller.abstention import (
    ACCEPTS_ALL,
    Abstention,
    RiskPoint,
    TaskPicks,
    figures_of,
    fit_abstention,
)

N_DRAWS = 400
CONFIDENCE = 0.9


def picks_of(probability, success, *, dangerous=None, value=None) -> TaskPicks:
    probability = np.asarray(probability, dtype=np.float64)
    return TaskPicks(
        probability=probability,
        success=np.asarray(success, dtype=np.float64),
        dangerous=np.zeros(len(probability), dtype=np.bool_) if dangerous is None else dangerous,
        value=np.asarray(probability if value is None else value, dtype=np.float64),
        candidates=[np.array([p]) for p in probability],
    )


def fit(probability, success, **more) -> Abstention:
    return fit_abstention(picks_of(probability, success, **more), group_size=8)


class Truth:
    """Scores and what they are worth: a grid of scores, equally likely, each with its risk."""

    def __init__(self, scores: np.ndarray, risk: Callable[[np.ndarray], np.ndarray]) -> None:
        self.scores = scores
        self.risks = risk(scores)

    def draw(self, rng: np.random.Generator, n: int) -> Abstention:
        index = rng.integers(len(self.scores), size=n)
        return fit(self.scores[index], rng.random(n) >= self.risks[index])

    def risk_above(self, threshold: float) -> float:
        accepted = self.scores > threshold
        return float(self.risks[accepted].mean()) if accepted.any() else 0.0

    def accepted_and_fails(self, threshold: float) -> float:
        return float((self.risks * (self.scores > threshold)).mean())


FINE = np.linspace(0.0, 1.0, 1001)
WORLDS = {
    "scores that tell": Truth(FINE, lambda s: 0.6 * (1 - s)),
    "scores that tell nothing": Truth(FINE, lambda s: np.full_like(s, 0.15)),
    "scores that mislead": Truth(FINE, lambda s: 0.3 * s),
    "three scores only": Truth(np.array([0.2, 0.5, 0.8]), lambda s: 0.35 * (1 - s)),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(("n_tasks", "max_risk"), [(60, 0.2), (250, 0.1)])
def test_the_risk_of_accepted_picks_is_kept_with_the_confidence_asked_for(name, n_tasks, max_risk):
    world, rng = WORLDS[name], np.random.default_rng(0)
    n_broken = 0
    for _ in range(N_DRAWS):
        point = world.draw(rng, n_tasks).with_confidence(max_risk, confidence=CONFIDENCE)
        n_broken += point is not None and world.risk_above(point.threshold) > max_risk
    error = 1 - CONFIDENCE
    assert n_broken / N_DRAWS <= error + 3 * np.sqrt(error * (1 - error) / N_DRAWS)


def test_the_risk_may_be_chosen_after_looking():
    """The most flattering of many risks is no likelier to be broken than one fixed beforehand."""
    world, rng = WORLDS["scores that tell"], np.random.default_rng(1)
    n_broken = 0
    for _ in range(N_DRAWS):
        curve = world.draw(rng, 150)
        bounds = [curve.risk_bound(point, confidence=CONFIDENCE) for point in curve.points]
        true = [world.risk_above(point.threshold) for point in curve.points]
        n_broken += any(risk > bound for risk, bound in zip(true, bounds, strict=True))
    assert n_broken / N_DRAWS <= 0.1 + 3 * np.sqrt(0.09 / N_DRAWS)


@pytest.mark.parametrize("name", WORLDS)
def test_on_average_accepted_failures_keep_their_share_of_all_decisions(name):
    world, rng = WORLDS[name], np.random.default_rng(2)
    losses = []
    for _ in range(N_DRAWS):
        point = world.draw(rng, 40).on_average(0.08)
        losses.append(0.0 if point is None else world.accepted_and_fails(point.threshold))
    assert np.mean(losses) <= 0.08 + 3 * np.std(losses) / np.sqrt(N_DRAWS)


def test_scores_that_tell_let_much_be_accepted():
    world, rng = WORLDS["scores that tell"], np.random.default_rng(3)
    points = [world.draw(rng, 400).with_confidence(0.2, confidence=0.9) for _ in range(20)]
    accepted = [0 if point is None else point.n_accepted for point in points]
    assert np.mean(accepted) >= 0.25 * 400


def test_the_bound_is_that_of_clopper_and_pearson():
    point = RiskPoint(threshold=0.5, n_accepted=20, n_failed=0)
    curve = Abstention(
        n_tasks=20, group_size=8, n_looks=1, points=(point,), mean_value=None, spread=()
    )
    # Without a failure the bound p solves (1 − p)ⁿ = δ.
    assert curve.risk_bound(point, confidence=0.9) == pytest.approx(1 - 0.1 ** (1 / 20))


def test_a_risk_that_no_threshold_reaches_is_said_to_be_out_of_reach():
    curve = fit(np.linspace(0, 1, 30), np.ones(30))
    (row,) = curve.table([0.01], confidence=0.9)
    assert not row.is_feasible
    assert row.threshold is None
    assert row.accepted_share == 0
    # (1 − 0.01)ⁿ ≤ 0.1 / 8 looks
    assert row.n_tasks_needed == int(np.ceil(np.log(0.1 / 8) / np.log(0.99)))
    reading = curve.reading(0.01, confidence=0.9)
    assert "cannot be promised" in reading
    assert f"at least {row.n_tasks_needed} accepted tasks" in reading


def test_enough_tasks_without_failure_are_enough():
    (row,) = fit(np.linspace(0, 1, 100), np.ones(100)).table([0.2], confidence=0.9)
    enough = fit(np.linspace(0, 1, row.n_tasks_needed), np.ones(row.n_tasks_needed))
    short = fit(np.linspace(0, 1, row.n_tasks_needed - 1), np.ones(row.n_tasks_needed - 1))
    assert enough.with_confidence(0.2, confidence=0.9) is not None
    assert short.with_confidence(0.2, confidence=0.9) is None


def test_more_risk_never_accepts_less():
    curve = WORLDS["scores that tell"].draw(np.random.default_rng(4), 300)
    shares = [row.accepted_share for row in curve.table(confidence=0.9)]
    assert shares == sorted(shares)


def test_a_half_success_and_a_dangerous_success_are_failures():
    curve = fit(
        [0.9, 0.8, 0.7], [1.0, 0.5, 1.0], dangerous=np.array([False, False, True], dtype=np.bool_)
    )
    assert curve.points[-1] == RiskPoint(threshold=ACCEPTS_ALL, n_accepted=3, n_failed=2)


def test_without_tasks_nothing_can_be_promised():
    curve = fit([], [])
    assert curve.points == ()
    assert curve.mean_value is None
    assert curve.with_confidence(0.5, confidence=0.5) is None
    assert curve.on_average(0.99) is None
    assert figures_of(curve, max_risk=0.1, confidence=0.9)["base_risk"] is None


def test_the_spread_weighs_every_task_alike():
    many, one = np.full(99, 0.1), np.array([0.9])
    picks = picks_of([0.1, 0.9], [1, 1])._replace(candidates=[many, one])
    spread = fit_abstention(picks, group_size=8).spread
    assert np.mean(spread) == pytest.approx(0.5, abs=0.05)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans()), max_size=60)
)
def test_points_hold_what_lies_strictly_above_them_and_end_with_all(rows):
    probability = np.array([p for p, _ in rows], dtype=np.float64)
    success = np.array([ok for _, ok in rows], dtype=np.float64)
    curve = fit(probability, success)
    counts = [point.n_accepted for point in curve.points]
    assert counts == sorted(set(counts))
    for point in curve.points:
        accepted = probability > point.threshold
        assert point.n_accepted == accepted.sum()
        assert point.n_failed == (accepted & (success < 1)).sum()
    if rows:
        assert curve.points[-1].n_accepted == len(rows)
    assert Abstention.model_validate_json(curve.model_dump_json()) == curve
