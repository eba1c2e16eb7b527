import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.evaluation.metrics import (
    auc,
    gap_closed,
    json_ready,
    mean_by_task,
    steps_auc,
    within_task_auc,
)


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([1, 2, 3, 4], [0, 0, 1, 1], 1.0),
        ([4, 3, 2, 1], [0, 0, 1, 1], 0.0),
        ([1, 1, 1, 1], [0, 0, 1, 1], 0.5),
        ([1, 3, 2, 4], [0, 0, 1, 1], 0.75),
        ([1, 2, 2, 3], [0, 0, 1, 1], 0.875),
        ([0.1, 0.2, 0.3], [0.0, 0.5, 1.0], 1.0),
    ],
)
def test_auc_is_the_share_of_pairs_in_the_right_order(scores, labels, expected):
    assert auc(scores, labels) == pytest.approx(expected)


def test_what_the_filter_took_out_is_a_tie_and_below_all_else():
    removed = -math.inf
    assert auc([removed, removed], [1, 0]) == 0.5
    assert auc([removed, 0.0, removed], [0, 1, 0]) == 1.0


def test_auc_of_one_outcome_is_unknown():
    assert math.isnan(auc([1, 2, 3], [1, 1, 1]))


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=12))
def test_reversing_all_scores_mirrors_the_auc(pairs):
    scores, labels = zip(*pairs, strict=True)
    forwards, backwards = auc(scores, labels), auc([-s for s in scores], labels)
    assert math.isnan(forwards) or forwards + backwards == pytest.approx(1.0)


def test_within_task_auc_leaves_out_tasks_with_one_outcome(group):
    groups = [group([0, 1], task_id="a"), group([1, 1], task_id="b")]
    assert within_task_auc(groups, [[0.2, 0.9], [0.1, 0.2]]) == {"a": 1.0}


def test_a_task_with_two_groups_counts_once():
    assert mean_by_task([("b", 1.0), ("a", 0.0), ("a", 1.0), ("a", math.nan)]) == {
        "a": 0.5,
        "b": 1.0,
    }


def test_steps_auc_is_one_when_short_attempts_win(group):
    assert steps_auc([group([1, 0, 0], n_steps=np.array([1, 4, 9]))]) == {"task-0": 1.0}


def test_gap_closed_is_the_share_of_the_headroom():
    assert gap_closed(0.6, 0.4, 0.8) == pytest.approx(0.5)
    assert gap_closed(0.3, 0.4, 0.8) == pytest.approx(-0.25)
    assert np.isnan(gap_closed(0.4, 0.4, 0.4))


def test_numbers_in_json_are_rounded_and_unknown_ones_are_null():
    value = {"a": np.float32(1 / 3), "b": [math.nan, math.inf, -0.0], "c": np.int64(2), "d": True}
    assert json_ready(value) == {"a": 0.333333, "b": [None, None, 0.0], "c": 2, "d": True}
    assert str(json_ready(-0.0)) == "0.0"
