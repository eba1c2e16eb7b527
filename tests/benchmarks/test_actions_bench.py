"""Replay of the harness's decisions, on logs whose answers are known."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.actions.accept import accept_or_retry
from benchmarks.actions.command import parse_folders
from benchmarks.actions.logs import ActionLog
from benchmarks.actions.models import FoldModels
from benchmarks.actions.policies import BEHAVIOUR, FORCED_CHECK, replay_policies
from benchmarks.actions.prune import prune
from benchmarks.actions.stop import stop_or_continue
from benchmarks.results_actions import actions_section
from harness_core.controller.combination import Combination
from harness_core.errors import ParameterError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.features.batch import DecisionGroup, Flags, Floats, TransitionArrays
from harness_core.learners.networks import NetworkSpec
from harness_core.rewards.table import COMPONENTS
from harness_core.trajectories.vocabulary import ActionKind
from tests.controller.groups import make_group

BOOTSTRAP = Bootstrap(n_resamples=200, confidence=0.95, seed=0)
KINDS = list(ActionKind)
N_FOLDS, N_TASKS, N_RUNS = 2, 24, 10
DRAFT, TEST, REVISE, SUBMIT = (
    KINDS.index(kind)
    for kind in (ActionKind.DRAFT, ActionKind.TEST, ActionKind.REVISE, ActionKind.SUBMIT)
)
BY_PRIOR = Combination(weights={"prior_z": 1.0}, slope=1.0, intercept=0.0)


class FirstColumn:
    """V and the terminal logit are the first number of the state."""

    def terminal(self, x: Floats) -> Floats:
        return x[:, 0]

    def q(self, state: Floats, action: Floats) -> Floats:
        raise AssertionError

    def value(self, state: Floats) -> Floats:
        values = np.zeros((len(state), len(COMPONENTS)), dtype=np.float32)
        values[:, COMPONENTS.index("all_tests")] = 10.0 * state[:, 0]
        return values

    def policy(self, state: Floats, legal: Flags) -> Floats:
        raise AssertionError


@pytest.fixture
def models() -> FoldModels:
    spec = NetworkSpec(
        n_state=1,
        n_action=1,
        n_relative=0,
        hidden_sizes=(1,),
        n_members=1,
        components=COMPONENTS,
        weights=tuple(10.0 if name == "all_tests" else 0.0 for name in COMPONENTS),
    )
    return FoldModels(
        critics=(FirstColumn(),) * N_FOLDS,  # type: ignore[arg-type]  # a fake of the networks
        combinations=(BY_PRIOR,) * N_FOLDS,
        spec=spec,
    )


@pytest.fixture(scope="module")
def log() -> ActionLog:
    """Runs of three programs; each is right or wrong, and V knows it. The last one counts."""
    rng = np.random.default_rng(0)
    n_steps = 3
    right = rng.random((N_TASKS * N_RUNS, n_steps)) < 0.4
    n = len(right)
    known = np.concatenate([np.zeros((n, 1)), right], axis=1).astype(np.float32)
    task = np.repeat(np.arange(N_TASKS), N_RUNS)
    states = known.reshape(-1, 1)
    step = np.tile(np.arange(n_steps + 1), n)
    legal = np.zeros((len(step), len(KINDS)), dtype=np.bool_)
    legal[step == 0, DRAFT] = True
    for kind in (TEST, REVISE, SUBMIT):
        legal[step > 0, kind] = True
    taken = np.array([DRAFT, REVISE, REVISE, SUBMIT])[step]
    rows = np.repeat(task, n_steps + 1)
    return ActionLog(
        name="toy",
        groups=(),
        transitions=TransitionArrays(
            trajectory=np.repeat(np.arange(n), n_steps + 1),
            step_index=step,
            state=states,
            action=np.zeros((len(step), 1), dtype=np.float32),
            next_state=states,
            rewards=np.full((len(step), len(COMPONENTS)), np.nan, dtype=np.float32),
            discount=np.ones(len(step), dtype=np.float32),
            fold=rows % N_FOLDS,
            split=np.full(len(step), "train"),
            task_id=np.array([f"t{number:02d}" for number in rows]),
            intervention=taken,
            legal=legal,
        ),
        prior=np.full(len(step), 0.5, dtype=np.float32),
        outcome=np.repeat(right[:, -1], n_steps + 1).astype(np.float32),
        stop_label=np.where(step > 0, known.reshape(-1), np.nan).astype(np.float32),
        visible=np.full(len(step), np.nan, dtype=np.float32),
        label_source="the test",
    )


def _success(rule: dict[str, dict[str, float]]) -> float:
    return rule["success"]["mean"]


def test_a_value_that_knows_stops_at_the_first_right_program(log, models) -> None:
    found = stop_or_continue(log, models, bootstrap=BOOTSTRAP)
    rules = found["rules"]
    assert found["n_runs"] == N_TASKS * N_RUNS
    assert found["n_runs_left_out"] == 0
    assert _success(rules["first_step"]) < _success(rules["oracle_stop"])
    stopped = rules["controller_most_success"]
    assert _success(stopped) == pytest.approx(_success(rules["oracle_stop"]))
    assert stopped["steps"]["mean"] < rules["logged_stop"]["steps"]["mean"]
    assert stopped["minus_logged_stop"]["low"] > 0
    assert rules["at_most_2_steps"]["steps"]["mean"] == 2.0
    thrifty = rules["controller_fewest_steps"]
    assert thrifty["steps"]["mean"] <= stopped["steps"]["mean"]


def test_giving_up_costs_no_more_than_it_may(log, models) -> None:
    """Runs whose value says at once that nothing will come of them."""
    fields = {name: getattr(log, name) for name in ActionLog.__slots__}
    arrays = log.transitions
    label = np.where(arrays.step_index == 3, log.outcome, 0.0)
    label[arrays.step_index == 0] = np.nan
    knows = TransitionArrays(
        **{
            **{name: getattr(arrays, name) for name in TransitionArrays.__slots__},
            "state": log.outcome[:, None],
        }
    )
    doomed = ActionLog(**{**fields, "transitions": knows, "stop_label": label.astype(np.float32)})
    rules = stop_or_continue(doomed, models, bootstrap=BOOTSTRAP)["rules"]
    assert _success(rules["controller_gives_up"]) == _success(rules["logged_stop"])
    assert rules["controller_gives_up"]["steps"]["mean"] < 2.5


def test_runs_without_a_label_at_every_step_are_counted_and_left_out(log, models) -> None:
    label = log.stop_label.copy()
    label[np.flatnonzero(log.transitions.step_index == 2)[:100]] = np.nan
    fields = {name: getattr(log, name) for name in ActionLog.__slots__}
    partly = ActionLog(**{**fields, "stop_label": label, "has_hidden_stop": True})
    found = stop_or_continue(partly, models, bootstrap=BOOTSTRAP)
    assert found["n_runs_left_out"] == 100
    assert found["inflated"] is True
    same = ActionLog(**{**fields, "stop_label": label * 0.0})
    assert "the same label" in stop_or_continue(same, models, bootstrap=BOOTSTRAP)["not_measured"]
    nothing = ActionLog(**{**fields, "stop_label": np.full_like(label, np.nan)})
    refused = stop_or_continue(nothing, models, bootstrap=BOOTSTRAP)
    assert refused == {"not_measured": "0 runs of two or more steps are labelled at every step"}


def test_pruning_keeps_what_the_value_prefers_and_says_how_many_were_compared(models, log) -> None:
    outcome = log.outcome
    arrays = log.transitions
    knows = TransitionArrays(
        **{
            **{name: getattr(arrays, name) for name in TransitionArrays.__slots__},
            "state": outcome[:, None],
        }
    )
    fields = {name: getattr(log, name) for name in ActionLog.__slots__}
    found = prune(
        ActionLog(**{**fields, "transitions": knows}),
        models,
        size=8,
        bootstrap=BOOTSTRAP,
        seed=0,
    )
    for step in ("1", "2"):
        assert found[step]["k"] == 8
        kept = found[step]["kept"]
        assert kept["value"]["gap_closed"]["value"] == pytest.approx(1.0)
        assert kept["random"]["gap_closed"]["value"] == pytest.approx(0.0)
        assert found[step]["within_task_auc"]["value"] == pytest.approx(1.0)
        # A prior that is the same for all keeps one by lot.
        assert _success(kept["agent_prior"]) == pytest.approx(_success(kept["random"]))


def _log_policy(log: ActionLog, chosen: np.ndarray) -> Floats:
    policy = np.where(log.transitions.legal, 0.05, 1e-9)
    policy[np.arange(len(chosen)), chosen] = 1.0
    return np.log(policy / policy.sum(axis=1, keepdims=True)).astype(np.float32)


def test_a_policy_that_does_what_the_log_did_is_worth_what_the_log_was_worth(log) -> None:
    taken = log.transitions.intervention
    policy = _log_policy(log, taken)
    found = replay_policies(log, {"awr": policy, BEHAVIOUR: policy}, bootstrap=BOOTSTRAP)
    same = found["policies"]["awr"]
    assert same["agreement"]["mean"] == 1.0
    assert same["runs_it_would_have_made"]["n_runs"] == N_TASKS * N_RUNS
    estimate = same["off_policy"]
    assert estimate["effective_share"] == pytest.approx(1.0)
    assert estimate["success"] == pytest.approx(estimate["logged_success"])


def test_a_policy_that_the_log_hardly_ever_followed_gets_no_estimate(log) -> None:
    taken = log.transitions.intervention
    other = np.where(np.random.default_rng(1).random(len(taken)) < 0.8, TEST, taken)
    other[taken == DRAFT] = DRAFT
    found = replay_policies(
        log,
        {"awr": 8.0 * _log_policy(log, other), BEHAVIOUR: _log_policy(log, taken)},
        bootstrap=BOOTSTRAP,
    )
    assert "not_estimated" in found["policies"]["awr"]["off_policy"]


def test_forced_check_differs_from_cloning_only_where_something_untested_is_handed_in(log) -> None:
    policy = _log_policy(log, log.transitions.intervention)
    found = replay_policies(log, {BEHAVIOUR: policy}, bootstrap=BOOTSTRAP)
    by_word = found["policies"][FORCED_CHECK]["agreement_by_intervention"]
    assert by_word == {"revise": 1.0, "submit": 0.0}
    # No agent of this log ever tested, so nothing can be said of what testing would have done.
    assert found["tested_before_submit"]["n_with"] == 0


def _groups() -> list[DecisionGroup]:
    rng = np.random.default_rng(0)
    groups = []
    for number in range(20):
        prior = rng.choice([0.1, 0.9], size=6).tolist()
        group = make_group(
            (rng.random(6) < prior).astype(float).tolist(), name=str(number), prior=prior
        )
        object.__setattr__(group, "fold", number % N_FOLDS)
        groups.append(group)
    return groups


def test_accepting_by_probability_needs_fewer_attempts_than_taking_all(models) -> None:
    found = accept_or_retry(_groups(), models, n_attempts=4, bootstrap=BOOTSTRAP, seed=0)
    assert found["n_tasks"] == 20
    all_of_them = found["fixed_k"]["4"]["mean"]
    assert found["oracle_stop"]["success"]["mean"] >= all_of_them
    thrifty = found["within_tolerance"]
    assert thrifty["attempts"]["mean"] < 3.5
    assert _success(thrifty) > all_of_them - 0.05
    random = found["budget_2.00"]["random"]
    assert _success(found["budget_2.00"]["controller"]) > _success(random)
    assert "visible_passes_stop" not in found


def test_too_few_tasks_are_not_measured(models) -> None:
    found = accept_or_retry(_groups()[:5], models, n_attempts=6, bootstrap=BOOTSTRAP, seed=0)
    assert found == {"not_measured": "5 tasks have 6 attempts"}


def test_the_tables_show_every_rule_and_say_what_was_not_measured(log, models) -> None:
    accepted = accept_or_retry(_groups(), models, n_attempts=4, bootstrap=BOOTSTRAP, seed=0)
    stopped = stop_or_continue(log, models, bootstrap=BOOTSTRAP)
    few = {"not_measured": "5 tasks have 6 attempts"}
    shape = {"n_runs": 1, "n_tasks": 1, "auc_of_minus_steps": 0.5}
    lines = actions_section(
        {
            "logs": {
                "whole": {**shape, "accept_or_retry": accepted, "stop_or_continue": stopped},
                "small": {**shape, "inflated": True, "accept_or_retry": few},
            }
        }
    )
    rules = (*accepted["budget_2.00"], *stopped["rules"])
    assert {f"| {rule.replace('_', ' ')} " for rule in rules} <= {
        line[: line.index("|", 1)] for line in lines if line.startswith("| ")
    }
    assert "**Accept or retry**: 5 tasks have 6 attempts." in lines
    assert sum("read with care" in line for line in lines) == 1


def test_folders_are_named(tmp_path: Path) -> None:
    assert parse_folders([f"ldb={tmp_path}"]) == {"ldb": tmp_path}
    for wrong in ("ldb", f"={tmp_path}", "ldb=/nowhere"):
        with pytest.raises(ParameterError, match="NAME=PATH"):
            parse_folders([wrong])
    with pytest.raises(ParameterError, match="NAME=PATH"):
        parse_folders([f"a={tmp_path}", f"a={tmp_path}"])
