"""A student beside its teacher, with critics whose quality is known."""

import numpy as np
import pytest

from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.student import Side, compare_student
from harness_core.params import Params
from tests.evaluation.conftest import FakeCritic, make_group

SUCCESS = ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1])


@pytest.fixture(scope="module")
def config(params: Params):
    small = {"group_sizes": (1, 2), "headline_size": 8, "n_subsets": 6, "n_resamples": 200}
    return params.evaluation.model_copy(update=small)


def side(*, sign: float = 1.0, mistaken: tuple[int, ...] = ()) -> Side:
    """A judge that sees the labels, wrongly at some tasks or everywhere."""
    groups = [
        make_group(
            label, task_id=f"task-{task}", hint=[-x for x in label] if task in mistaken else label
        )
        for task, label in enumerate(SUCCESS)
    ]
    return Side(CrossFit(final=Model(critic=FakeCritic(sign=sign))), groups)


def test_a_student_that_chooses_like_its_teacher_loses_nothing(config):
    result = compare_student(side(), side(), config)
    headline = result["headline"]
    assert headline["gap_closed"] == {"teacher": 1.0, "student": 1.0}
    assert headline["gap_lost"] == 0.0
    assert headline["gap_lost_interval"] == [0.0, 0.0]
    assert result["likeness"] == {"same_pick": 1.0, "spearman": 1.0}
    assert result["within_task_auc"] == {"teacher": 1.0, "student": 1.0}


def test_what_is_lost_is_the_difference_of_the_gaps_closed(config):
    result = compare_student(side(), side(mistaken=(0,)), config)
    headline = result["headline"]
    # Random succeeds at 1/4; at one task of four the student picks among the three failures.
    assert headline["student"] == pytest.approx(0.75)
    assert headline["gap_closed"]["student"] == pytest.approx((0.75 - 0.25) / 0.75, abs=1e-6)
    assert headline["gap_lost"] == pytest.approx(1 / 3, abs=1e-6)
    low, high = headline["gap_lost_interval"]
    assert low <= headline["gap_lost"] <= high
    assert headline["n_tasks"] == 4
    # No task has eight attempts, so that the mean over K is that of two.
    assert result["overall"]["sizes"] == [2]
    assert result["overall"]["gap_lost"] == result["k"]["2"]["gap_lost"]


def test_a_student_that_ranks_the_other_way_round_is_as_unlike_as_can_be(config):
    result = compare_student(side(), side(sign=-1.0), config)
    assert result["likeness"]["spearman"] == pytest.approx(-1.0)
    assert result["likeness"]["same_pick"] == 0.0
    assert set(result["k"]) == {"2", "8"}
    assert result["k"]["8"] == {"n_tasks": 0}


def test_without_headroom_nothing_is_said(config):
    groups = [make_group([1, 1], task_id="easy")]
    judged = CrossFit(final=Model(critic=FakeCritic()))
    result = compare_student(Side(judged, groups), Side(judged, groups), config)
    assert result["headline"]["gap_lost"] is None
    assert np.isnan(result["likeness"]["spearman"] or np.nan)
