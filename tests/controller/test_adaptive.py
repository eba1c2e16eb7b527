"""Whether one more candidate is worth asking for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.controller.adaptive import expected_gain
from tests.controller.scripted import BAD, GOOD, STATE, ScriptedCritic, controller

SHARES = st.floats(0, 1)


def test_without_any_candidate_the_gain_is_the_mean_of_the_prior():
    assert expected_gain([], best=0.0) == pytest.approx(0.5)
    assert expected_gain([], best=0.0, prior=[0.2, 0.4]) == pytest.approx(0.3)


def test_of_an_even_prior_half_the_squared_room_above_is_left():
    # ∫ max(p − 0.6, 0) dp = 0.4² / 2, one draw of prior beside three candidates.
    assert expected_gain([0.6, 0.1, 0.2], best=0.6) == pytest.approx(0.08 / 4)


def test_candidates_better_than_the_pick_count_in_full():
    # A goal or the group may pick another one than the likeliest.
    assert expected_gain([0.2, 0.8], best=0.2) == pytest.approx((0.6 + 0.32) / 3)


def test_nothing_can_be_gained_over_certain_success():
    assert expected_gain([1.0, 0.3], best=1.0) == 0.0


@given(st.lists(SHARES, min_size=1, max_size=8), st.lists(SHARES, max_size=8))
def test_a_further_candidate_that_is_no_better_never_raises_the_gain(so_far, prior):
    best = max(so_far)
    before = expected_gain(so_far, best=best, prior=prior)
    after = expected_gain([*so_far, 0.0], best=best, prior=prior)
    assert 0 <= after <= before <= 1


def test_no_more_are_asked_for_beyond_what_the_model_chooses_well_from(pipeline):
    asked = controller(pipeline, ScriptedCritic())
    assert asked.wants_more(asked.select(STATE, [GOOD] * 7))
    assert not asked.wants_more(asked.select(STATE, [GOOD] * 8))
    assert not asked.wants_more(asked.select(STATE, [BAD] * 8))


def test_the_price_decides_and_a_dearer_one_stops_sooner(pipeline):
    asked = controller(pipeline, ScriptedCritic(slope=0.0), candidate_price=0.05)
    decision = asked.select(STATE, [GOOD])
    # One candidate at 0.5: 0.5² / 2 / 2.
    assert asked.expected_gain(decision) == pytest.approx(0.0625)
    assert asked.wants_more(decision)
    assert not asked.wants_more(decision, price=0.07)


def test_where_all_are_dangerous_the_gain_is_that_of_having_none(pipeline):
    asked = controller(pipeline, ScriptedCritic())
    assert asked.expected_gain(asked.select(STATE, [BAD])) == pytest.approx(0.5)
