"""What is picked under given weights, on critics whose outputs are written down."""

from dataclasses import dataclass

import numpy as np
import pytest

from harness_core.controller.combination import Combination
from harness_core.controller.scoring import with_success
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.sweep_report import as_markdown, draw_sweep, readings
from harness_core.evaluation.weight_sweep import (
    Objective,
    Picks,
    beside,
    choices,
    describe,
    differing,
    too_clever,
)
from harness_core.rewards.table import COMPONENTS
from harness_core.trajectories.vocabulary import GroupKind

STYLE, ALL_TESTS = COMPONENTS.index("style"), COMPONENTS.index("all_tests")
BOOTSTRAP = Bootstrap(n_resamples=200, confidence=0.95, seed=0)
FAIR = Combination(weights={"critic": 1.0}, slope=1.0, intercept=0.0)


@dataclass(frozen=True)
class StyleCritic:
    """Expects `style` of the second column of a state, in units of its weight, and nothing else."""

    style: float

    def terminal(self, x):
        return 4.0 * (x[:, 0] - 0.5)

    def q(self, state, action):
        values = np.zeros((len(state), len(COMPONENTS)), dtype=np.float32)
        values[:, STYLE] = self.style * state[:, 1]
        values[:, ALL_TESTS] = 99.0  # Q's own word on success must not count
        return values

    def running(self, state):
        return self.value(state).sum(axis=1)

    def value(self, state):
        return self.q(state, state)


def objective(groups, *, style, success=10.0):
    weights = dict.fromkeys(COMPONENTS, 0.0) | {"style": style, "all_tests": success}
    return Objective(
        judged=CrossFit(final=Model(critic=StyleCritic(style), combination=FAIR)),
        weights=weights,
        success_of={group.group_id: "all_tests" for group in groups},
    )


@pytest.fixture
def groups(group):
    """Two attempts a task: one solves it in poor style, the other fails prettily."""
    made = [group([1, 0], task_id=f"t{n}") for n in range(8)]
    for item in made:
        item.before[:, 1] = item.after[:, 1] = [0.0, 1.0]
    return made


def picks(groups, aim, *, kind=GroupKind.ATTEMPT, facts=None, filtered=True):
    subsets = choices(groups, kind=kind, size=2, n_subsets=4, seed=0)
    known = facts or {group.group_id: {} for group in groups}
    return Picks.of(subsets, aim.scores(subsets, filtered=filtered), known)


@pytest.mark.parametrize(("style", "success"), [(0.2, 1.0), (7.0, 1.0), (8.0, 0.0)])
def test_style_is_picked_once_it_pays_more_than_the_difference_in_success(groups, style, success):
    """Success is worth 10 · (σ(2) − σ(−2)) = 7.62 more with the honest attempt."""
    found = picks(groups, objective(groups, style=style))
    assert set(found.by_task("success").values()) == {success}


def test_success_without_a_weight_is_worth_nothing_whatever_q_says(groups):
    found = picks(groups, objective(groups, style=0.1, success=0.0))
    assert set(found.by_task("success").values()) == {0.0}


def test_single_steps_are_ranked_by_the_sum_of_q(group):
    step = group([1, 0], kind=GroupKind.STEP)
    step.before[:, 1] = [0.0, 1.0]
    found = picks([step], objective([step], style=0.1), kind=GroupKind.STEP)
    assert found.by_task("success") == {"task-0": 0.0}


def test_dangerous_candidates_are_picked_only_without_the_filter(groups):
    for item in groups:
        item.dangerous[1] = True
    aim = objective(groups, style=8.0)
    assert set(picks(groups, aim).by_task("dangerous").values()) == {0.0}
    assert set(picks(groups, aim, filtered=False).by_task("dangerous").values()) == {1.0}


def test_a_group_that_is_dangerous_throughout_solves_nothing_and_does_no_harm(group):
    both = group([1, 1], dangerous=np.array([True, True]))
    found = picks([both], objective([both], style=1.0))
    assert found.by_task("success") == {"task-0": 0.0}
    assert found.by_task("dangerous") == {"task-0": 0.0}


def test_facts_are_means_over_picks_and_unknown_ones_are_left_out(groups):
    lines = {"lines": np.array([8.0, np.nan])}
    facts = {group.group_id: lines if place < 4 else {} for place, group in enumerate(groups)}
    found = picks(groups, objective(groups, style=0.0), facts=facts)
    row = describe(found, ("lines",), BOOTSTRAP)
    assert (row["lines"]["value"], row["lines"]["n"]) == (8.0, 4)
    clever = picks(groups, objective(groups, style=9.0), facts=facts)
    assert describe(clever, ("lines",), BOOTSTRAP)["lines"]["n"] == 0


def test_a_policy_that_earns_more_and_solves_less_is_too_clever(groups):
    earned = {group.group_id: {"earned": np.array([10.0, 11.0])} for group in groups}
    honest = picks(groups, objective(groups, style=0.2), facts=earned)
    clever = picks(groups, objective(groups, style=9.0), facts=earned)
    row = {
        "success_gain": beside(clever, honest, "success", BOOTSTRAP),
        "earned_gain": beside(clever, honest, "earned", BOOTSTRAP),
    }
    assert row["success_gain"]["value"] == -1.0
    assert row["earned_gain"]["value"] == 1.0
    assert too_clever(row)
    assert set(differing(clever, honest).values()) == {1.0}
    poor = row | {"earned_gain": beside(honest, clever, "earned", BOOTSTRAP)}
    assert not too_clever(poor)


def test_success_takes_the_place_of_both_components_of_the_end():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = with_success(
        values,
        np.array([0.25, 1.0], dtype=np.float32),
        components=("all_tests", "outcome", "style"),
        weights={"all_tests": 10.0, "outcome": 4.0, "style": 1.0},
        success="outcome",
    )
    assert found.tolist() == [[0.0, 1.0, 2.0], [0.0, 4.0, 5.0]]


def metric(value, low, high):
    return {"value": value, "low": low, "high": high, "n": 9}


def test_sentences_table_and_figure_say_which_setting_is_too_clever():
    plain = {"success": metric(0.6, 0.5, 0.7), "lines": metric(7.0, 6.0, 8.0)}
    row = plain | {
        "differs": metric(0.0, 0.0, 0.0),
        "success_gain": metric(0.0, -0.1, 0.1),
        "earned_gain": metric(0.0, -1.0, 1.0),
        "too_clever": False,
    }
    clever = row | {
        "differs": metric(0.4, 0.3, 0.5),
        "success_gain": metric(-0.2, -0.3, -0.1),
        "earned_gain": metric(0.5, 0.2, 0.9),
        "too_clever": True,
    }
    rows = {"random": plain, "no_goal": plain, "present": row, "same": row, "greedy": clever}
    part = {"n_tasks": 9, "n_groups": 9, "reference": "no_goal", "rows": rows}
    result = {
        "n_tasks": 9, "n_development_tasks": 20, "group_size": 8,
        "never_paid": ["outcome"], "attempt": part, "step": None,
    }  # fmt: skip
    found = readings(result)
    assert found[0].startswith("greedy: too clever.")
    assert "solve less: −20.0 points [−30.0, −10.0]" in found[0]
    assert found[1:] == [
        "Picks as the present weights do among complete attempts: same.",
        "Never paid in these logs, so that their weights can do nothing: outcome.",
    ]
    table = as_markdown(result | {"readings": found})
    assert "| **greedy**" in table
    assert "60 [50, 70]" in table
    assert draw_sweep(result).get_axes()[0].get_title() == "success, %"
