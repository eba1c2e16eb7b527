import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.batch import GroupSignals
from harness_core.features.set_relative import (
    SET_RELATIVE,
    codet_score,
    set_relative,
    within_contract,
)


def signals(
    *,
    n_chars: list[float] | None = None,
    text_key: list[int] | None = None,
    answer_key: list[int] | None = None,
    visible_rate: list[float] | None = None,
    generated_passed: list[list[bool]] | None = None,
    outputs: list[list[int]] | None = None,
    agent_prior: list[float] | None = None,
    k: int = 3,
) -> GroupSignals:
    return GroupSignals(
        n_chars=np.array(n_chars or [10.0] * k, dtype=np.float32),
        text_key=np.array(text_key or range(1, k + 1), dtype=np.int64),
        answer_key=np.array(answer_key or [0] * k, dtype=np.int64),
        visible_rate=np.array(visible_rate or [np.nan] * k, dtype=np.float32),
        generated_passed=np.array(generated_passed or [[]] * k, dtype=np.bool_).reshape(k, -1),
        outputs=np.array(outputs or [[]] * k, dtype=np.int64).reshape(k, -1),
        agent_prior=np.array(agent_prior or [0.5] * k, dtype=np.float32),
    )


def column(group: GroupSignals, name: str) -> npt.NDArray[np.float32]:
    return set_relative(group)[:, SET_RELATIVE.index(name)]


@st.composite
def groups(draw: st.DrawFn, min_size: int = 1) -> GroupSignals:
    k = draw(st.integers(min_size, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    visible = rng.integers(0, 4, k).astype(np.float32)
    return GroupSignals(
        n_chars=rng.integers(0, 50, k).astype(np.float32),
        text_key=rng.integers(0, 4, k),
        answer_key=rng.integers(0, 3, k),
        visible_rate=np.where(visible == 3, np.float32(np.nan), visible / 2).astype(np.float32),
        generated_passed=rng.random((k, draw(st.integers(0, 5)))) < 0.5,
        outputs=rng.integers(0, 3, (k, draw(st.integers(0, 6)))),
        agent_prior=rng.random(k).astype(np.float32),
    )


@given(groups(), st.randoms(use_true_random=False))
def test_permuting_candidates_permutes_their_features(group, random):
    order = list(range(len(group.n_chars)))
    random.shuffle(order)
    index = np.array(order, dtype=np.int64)
    expected = set_relative(group)[index]
    np.testing.assert_allclose(set_relative(group.take(index)), expected, atol=1e-5)


@given(groups())
def test_features_are_finite_and_small(group):
    values = set_relative(group)
    assert values.shape == (len(group.n_chars), len(SET_RELATIVE))
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    # The weight of a vote is 1 on average, so one candidate may have the weight of all.
    of_vote = SET_RELATIVE.index("vote_weight")
    assert np.abs(np.delete(values, of_vote, axis=1)).max(initial=0) <= 4.0
    assert values[:, of_vote].max(initial=0) <= len(values) + 1e-4


@given(groups())
def test_a_candidate_alone_is_neutral(group):
    assert not set_relative(group.take(np.array([0]))).any()


@given(groups(min_size=2))
def test_equal_candidates_differ_in_nothing_but_the_size_of_their_group(group):
    twins = group.take(np.zeros(4, dtype=np.int64))
    values = set_relative(twins)
    assert (values == values[0]).all()
    for name in ("visible_z", "generated_rank", "n_chars_z", "prior_rank", "codet_rank"):
        assert not values[:, SET_RELATIVE.index(name)].any()


def test_ranks_run_from_minus_a_half_to_a_half():
    group = signals(visible_rate=[0.0, 0.5, 1.0])
    assert column(group, "visible_rank").tolist() == [-0.5, 0.0, 0.5]


def test_a_candidate_without_visible_checks_is_neither_better_nor_worse():
    group = signals(visible_rate=[0.0, np.nan, 1.0])
    assert column(group, "visible_rank").tolist() == [-0.5, 0.0, 0.5]
    assert column(group, "visible_z").tolist() == [-1.0, 0.0, 1.0]
    assert column(group, "visible_known").tolist() == [1.0, 0.0, 1.0]


def test_agreement_is_the_share_of_the_others_that_return_the_same():
    group = signals(outputs=[[5, 7], [5, 7], [5, 8]])
    assert column(group, "same_outputs").tolist() == [0.5, 0.5, 0.0]
    assert column(group, "output_agreement").tolist() == [0.75, 0.75, 0.5]
    # All return 5 on the first input, so only the second one tells them apart.
    assert column(group, "contested_agreement").tolist() == [0.5, 0.5, 0.0]


def test_two_crashes_do_not_agree():
    group = signals(outputs=[[0, 0], [0, 0], [5, 7]])
    for name in ("same_outputs", "output_agreement", "contested_agreement"):
        assert not column(group, name).any()


def test_codet_counts_candidates_times_checks_of_the_same_pattern():
    passed = [[True, True, False], [True, True, False], [True, True, True], [False] * 3]
    assert codet_score(signals(generated_passed=passed, k=4)).tolist() == [4.0, 4.0, 3.0, 0.0]


def test_no_answer_agrees_with_no_answer():
    group = signals(answer_key=[0, 0, 9])
    assert not column(group, "same_answer").any()
    assert column(signals(answer_key=[4, 4, 9]), "same_answer").tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("k", [100])
def test_a_hundred_candidates_take_milliseconds(k):
    rng = np.random.default_rng(0)
    group = signals(
        outputs=rng.integers(0, 4, (k, 40)).tolist(),
        generated_passed=(rng.random((k, 60)) < 0.5).tolist(),
        k=k,
    )
    set_relative(group)
    best = min(_seconds(group) for _ in range(20))
    assert best < 0.005


def _seconds(group: GroupSignals) -> float:
    start = time.perf_counter()
    set_relative(group)
    return time.perf_counter() - start


def made(rows: list[list[int]], *, outputs: list[list[int]] | None = None) -> GroupSignals:
    k = len(rows)
    return replace(
        signals(k=k, outputs=outputs), made_outputs=np.array(rows, dtype=np.int64).reshape(k, -1)
    )


def test_made_inputs_count_where_most_programs_answer_them():
    # Only one of three programs answers the second input: it lies outside the contract.
    group = made([[7, 0], [7, 5], [8, 0]])
    np.testing.assert_allclose(column(group, "made_agreement"), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(column(group, "n_made_log"), np.log1p(1))
    np.testing.assert_allclose(column(group, "made_contested_share"), 1.0)


def test_a_program_that_never_answers_has_no_say_in_what_the_contract_is():
    group = made([[0, 0], [4, 6], [4, 6], [4, 0]])
    np.testing.assert_allclose(within_contract(group.made_outputs), group.made_outputs)


def test_a_vote_follows_those_who_agree_with_the_reliable():
    # Two pairs of twins; the second pair also passes the generated checks, so it counts more.
    group = replace(
        made([[1, 1], [1, 1], [2, 2], [2, 2]]),
        generated_passed=np.array([[False], [False], [True], [True]]),
    )
    vote = column(group, "vote")
    assert vote[2] == vote[3] > vote[0] == vote[1]
    assert column(group, "vote_weight").sum() == pytest.approx(4.0)


def test_without_inputs_there_is_no_vote():
    group = signals(k=3)
    assert not column(group, "vote").any()
    np.testing.assert_array_equal(column(group, "vote_weight"), 1.0)
