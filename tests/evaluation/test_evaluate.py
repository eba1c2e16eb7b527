import json

import numpy as np
import pytest

from harness_core.errors import NoDataError
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.evaluate import evaluate_groups
from harness_core.features.batch import TransitionArrays
from harness_core.rewards.table import COMPONENTS
from harness_core.trajectories.vocabulary import GroupKind, Split


@pytest.fixture
def judge_with(critic, evaluation):
    def evaluate(groups, **options):
        judged = CrossFit(final=Model(critic=critic()))
        return evaluate_groups(judged, groups, evaluation, with_trees=False, **options)

    return evaluate


def test_a_perfect_scorer_closes_the_gap(judge_with, many_groups):
    result = judge_with(many_groups(quality=1.0))
    for size in ("2", "4", "8", "all"):
        row = result["k"][size]
        assert row["gap_closed"] == pytest.approx(1.0)
        assert row["selected"] == row["oracle"]
    assert result["within_task_auc"] == 1.0


def test_a_random_scorer_closes_nothing(judge_with, many_groups):
    row = judge_with(many_groups(n_tasks=150, quality=0.0))["k"]["8"]
    assert abs(row["gap_closed"]) < 0.15
    assert row["low"] < 0 < row["high"]


def test_evaluation_json_keeps_its_contract(critic, evaluation, many_groups):
    judged = CrossFit(final=Model(critic=critic()))
    groups = many_groups(quality=0.5)
    result = evaluate_groups(judged, groups, evaluation)
    assert set(result["k"]) == {"1", "2", "4", "8", "16", "all"}
    assert {"random", "selected", "oracle", "gap_closed", "low", "high", "n_tasks"} <= set(
        result["k"]["8"]
    )
    assert {"first", "agent_prior", "boosted_trees"} <= set(result["k"]["8"]["baselines"])
    assert set(result["k"]["8"]["versus"]["agent_prior"]) == {"difference", "low", "high"}
    assert result["k"]["16"]["n_tasks"] == 0
    assert result["k"]["16"]["selected"] is None
    assert result["k"]["1"]["gap_closed"] is None
    assert result["test_slice"]["8"]["n_tasks"] == 10
    assert result["by_family"]["strings"]["n"] == result["n_tasks"] == 40
    assert result["n_attempts"] == 400
    for name in (
        "within_task_auc", "steps_auc", "steps_auc_warning", "dangerous_before",
        "dangerous_after", "tokens", "variance", "by_source", "step_groups",
        "running_attempts", "calibration", "over_optimisation", "warnings",
    ):  # fmt: skip
        assert name in result
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_the_same_input_gives_the_same_bytes(judge_with, many_groups):
    groups = many_groups(quality=0.5)
    assert json.dumps(judge_with(groups)) == json.dumps(judge_with(groups[::-1]))


def test_differences_are_paired(judge_with, group):
    groups = [
        group([0, 1], task_id=str(n), hint=[0, 1], agent_prior=np.array([0.1, 0.9])) for n in
        range(20)
    ] + [group([0, 0], task_id=f"hard-{n}") for n in range(20)]  # fmt: skip
    versus = judge_with(groups)["k"]["2"]["versus"]
    assert versus["agent_prior"] == {"difference": 0.0, "low": 0.0, "high": 0.0}
    assert versus["first"]["difference"] == 0.5


def test_the_hard_filter_counts_for_the_controller_only(judge_with, group):
    dangerous = np.array([True, False])
    groups = [group([0, 1], task_id=str(n), hint=[1, 0], dangerous=dangerous) for n in range(5)]
    result = judge_with(groups)
    assert result["dangerous_before"] == 0.5
    assert result["dangerous_after"] == 0.0
    assert result["k"]["2"]["selected"] == 1.0


def test_a_stop_leak_is_a_warning(judge_with, group):
    groups = [group([1, 0], task_id=str(n), n_steps=np.array([1, 5])) for n in range(5)]
    result = judge_with(groups)
    assert result["steps_auc"] == 1.0
    assert result["steps_auc_warning"] is True
    assert any("Stop leak" in text for text in result["warnings"])


def test_tokens_per_success_count_what_k_attempts_cost(judge_with, group):
    groups = [group([n % 2, 1], task_id=str(n), n_tokens=np.array([100, 300])) for n in range(10)]
    assert judge_with(groups)["tokens"] == {
        "mean_per_attempt": 200.0,
        "per_success_first": 200.0,  # half of the first attempts solve, at 100 tokens
        "per_success_selected": 400.0,
    }


def test_unknown_tokens_are_null(judge_with, group):
    assert set(judge_with([group([0, 1])])["tokens"].values()) == {None}


def test_step_groups_are_compared_with_what_the_agent_took(judge_with, group):
    groups = [
        group([0, 1, 0], task_id=str(n), kind=GroupKind.STEP, hint=[0, 1, 0]) for n in range(6)
    ]
    result = judge_with(groups)
    assert result["step_groups"]["baselines"]["taken"] == 0.0
    assert result["step_groups"]["selected"] == 1.0
    assert result["step_groups"]["mean_size"] == 3.0
    assert result["k"]["all"]["n_tasks"] == 0


def test_small_groups_count_whole_in_the_headline(judge_with, group):
    groups = [group([0, 1] * 5, task_id="large"), group([0, 1], task_id="small")]
    result = judge_with(groups)
    assert result["k"]["8"]["n_tasks"] == 1
    assert result["headline"]["n_tasks"] == 2
    assert result["headline"]["size"] == 8


def test_attempts_of_unknown_outcome_are_counted_not_judged(judge_with, group):
    result = judge_with([group([0, 1, np.nan])])
    assert result["n_attempts"] == 2
    assert any(text.startswith("1 attempts have no known outcome") for text in result["warnings"])


def test_nothing_known_is_nothing_to_judge_by(judge_with, group):
    with pytest.raises(NoDataError, match="no candidate has a known outcome"):
        judge_with([group([np.nan])])


def test_results_of_a_source_and_a_family_stand_apart(judge_with, group):
    groups = [
        group([0, 1], task_id="a", source="x", family="strings"),
        group([0, 0], task_id="b", source="y", family="maths"),
    ]
    result = judge_with(groups)
    assert {name: row["selected"] for name, row in result["by_source"].items()} == {
        "x": 1.0,
        "y": 0.0,
    }
    assert set(result["by_family"]) == {"strings", "maths"}


def test_running_attempts_are_judged_at_equal_steps(judge_with, group):
    # Two runs of three actions and a virtual submit; only states 1 and 2 are still running.
    n, c = 8, len(COMPONENTS)
    rewards = np.full((n, c), np.nan, dtype=np.float32)
    rewards[3, COMPONENTS.index("all_tests")] = 1.0
    rewards[7, COMPONENTS.index("all_tests")] = 0.0
    state = np.zeros((n, 4), dtype=np.float32)
    state[1, 0], state[5, 0] = 0.9, 0.1
    state[2, 0], state[6, 0] = 0.3, 0.4
    transitions = TransitionArrays(
        trajectory=np.repeat([0, 1], 4),
        step_index=np.tile(np.arange(4), 2),
        state=state,
        action=np.zeros((n, 2), dtype=np.float32),
        next_state=np.zeros((n, 4), dtype=np.float32),
        rewards=rewards,
        discount=np.ones(n, dtype=np.float32),
        fold=np.zeros(n, dtype=np.int64),
        split=np.full(n, str(Split.TRAIN)),
        task_id=np.full(n, "task-0"),
    )
    assert judge_with([group([1, 0])], transitions=transitions)["running_attempts"] == {
        "1": {"auc": 1.0, "n_tasks": 1, "n_attempts": 2},
        "2": {"auc": 0.0, "n_tasks": 1, "n_attempts": 2},
    }
