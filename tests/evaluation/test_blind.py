"""What a blind comparison may conclude, against values known in closed form."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from harness_core.evaluation.blind import (
    Preference,
    agreement,
    exact_interval,
    in_words,
    judge_pairs,
    share_interval,
    sign_test,
)


def preferences(signs, tasks=None):
    return [
        Preference(
            pair_id=f"p{number}", task=f"t{number if tasks is None else tasks[number]}", sign=sign
        )
        for number, sign in enumerate(signs)
    ]


def test_ten_of_ten_have_the_p_value_of_ten_equal_coins():
    assert sign_test([1] * 10) == pytest.approx(2 / 2**10)


def test_all_of_n_bound_the_share_by_a_root():
    low, high = exact_interval(10, 10)
    assert low == pytest.approx(0.025 ** (1 / 10))
    assert high == 1.0
    assert exact_interval(0, 10) == pytest.approx((0.0, 1 - 0.025 ** (1 / 10)))


@given(st.integers(0, 40), st.integers(0, 40))
def test_with_one_pair_a_task_it_is_the_ordinary_sign_test(n_for, n_against):
    found = sign_test([1] * n_for + [-1] * n_against)
    n = n_for + n_against
    assert found == pytest.approx(binomtest(n_for, n).pvalue if n else 1.0)


@given(st.integers(1, 60), st.data())
def test_the_exact_interval_is_that_of_the_binomial(n, data):
    n_for = data.draw(st.integers(0, n))
    expected = binomtest(n_for, n).proportion_ci(confidence_level=0.95, method="exact")
    assert exact_interval(n_for, n) == pytest.approx((expected.low, expected.high))


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=40))
def test_exchanging_the_sides_turns_the_verdict_round(signs):
    ours = judge_pairs(preferences(signs))
    theirs = judge_pairs(preferences([-sign for sign in signs]))
    assert ours.p_value == pytest.approx(theirs.p_value)
    assert (ours.n_controller, ours.n_agent) == (theirs.n_agent, theirs.n_controller)
    if ours.share is not None:
        assert theirs.share is not None
        assert ours.low is not None
        assert theirs.high is not None
        assert ours.share == pytest.approx(1 - theirs.share)
        assert ours.low == pytest.approx(1 - theirs.high, abs=1e-9)


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=30), st.data())
def test_the_share_lies_within_its_interval_however_tasks_repeat(signs, data):
    tasks = data.draw(st.lists(st.integers(0, 4), min_size=len(signs), max_size=len(signs)))
    verdict = judge_pairs(preferences(signs, tasks))
    assert verdict.n_pairs == len(signs)
    if verdict.share is not None:
        assert verdict.low is not None
        assert verdict.high is not None
        assert 0 <= verdict.low <= verdict.share <= verdict.high <= 1


def test_pairs_of_one_task_count_as_one():
    apart = judge_pairs(preferences([1] * 8))
    together = judge_pairs(preferences([1] * 8, tasks=[0, 0, 0, 0, 1, 1, 1, 1]))
    assert apart.p_value == pytest.approx(2 / 2**8)
    assert together.p_value == pytest.approx(2 / 2**2)
    assert judge_pairs(preferences([1] * 8, tasks=[0] * 8)).low == 0.0


def test_tasks_that_agree_within_widen_the_interval():
    one_each = share_interval([(1, 0)] * 20 + [(0, 1)] * 20)
    four_each = share_interval([(4, 0)] * 5 + [(0, 4)] * 5)
    assert four_each.low < one_each.low
    assert four_each.high > one_each.high


@given(st.integers(0, 30), st.integers(0, 30))
def test_with_one_pair_a_task_the_interval_is_exact(n_for, n_against):
    found = share_interval([(1, 0)] * n_for + [(0, 1)] * n_against)
    if n_for + n_against:
        assert found == pytest.approx(exact_interval(n_for, n_for + n_against))


def test_two_tasks_show_nothing_however_many_pairs_agree():
    verdict = judge_pairs(preferences([1] * 40, tasks=[0, 1] * 20))
    assert verdict.low is not None
    assert verdict.low < 0.5
    assert "no difference is shown" in in_words({"safety": verdict})[0]


def test_six_unanimous_tasks_are_the_fewest_that_show_something():
    words = [
        in_words({"safety": judge_pairs(preferences([1] * 3 * n, tasks=list(range(n)) * 3))})[0]
        for n in (5, 6)
    ]
    assert ["preferred. " in text for text in words] == [False, True]


@pytest.mark.parametrize(("n_tasks", "n_pairs"), [(6, 5), (12, 3), (25, 4)])
@pytest.mark.parametrize("alike", [0.3, 2.0, 50.0])
def test_the_clustered_interval_covers_as_often_as_it_says(alike, n_tasks, n_pairs):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        chance = rng.beta(alike, alike, size=n_tasks)  # tasks differ; the mean is one half
        wins = rng.binomial(n_pairs, chance)
        low, high = share_interval([(int(won), n_pairs - int(won)) for won in wins])
        hits += low <= 0.5 <= high
    assert hits / 300 >= 0.93


def test_equal_pairs_change_neither_share_nor_test():
    few = judge_pairs(preferences([1, 1, 1, -1]))
    many = judge_pairs(preferences([1, 1, 1, -1] + [0] * 20))
    assert (few.share, few.p_value, few.low) == (many.share, many.p_value, many.low)
    assert many.n_equal == 20


def test_two_judges_of_a_pair_are_one_pair():
    twice = judge_pairs(preferences([1, 1, -1]) * 2)
    assert (twice.n_controller, twice.n_agent, twice.n_pairs) == (2, 1, 3)
    split = judge_pairs([Preference("p", "t", 1), Preference("p", "t", -1)])
    assert split.n_equal == 1


def test_agreement_looks_at_pairs_that_several_judged():
    judged = [Preference("a", "t", 1), Preference("a", "t", 1), Preference("b", "t", 0)]
    assert agreement(judged) == 1.0
    assert agreement([*judged, Preference("b", "t", 1)]) == 0.5
    assert agreement(judged[:1]) is None


def test_no_judgement_says_nothing():
    verdict = judge_pairs([])
    assert (verdict.share, verdict.low, verdict.p_value) == (None, None, 1.0)
    assert all(map(math.isnan, share_interval([])))
    assert in_words({"safety": verdict}) == ["Safety: nothing was judged."]


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        ([1] * 12, "the controller's picks are preferred"),
        ([-1] * 12, "the agent's own first candidates are preferred"),
        ([1, -1] * 6, "no difference is shown"),
        ([0] * 5, "all 5 pairs were found equal"),
    ],
)
def test_words_say_what_the_interval_says(signs, words):
    assert words in in_words({"brevity": judge_pairs(preferences(signs))})[0]
