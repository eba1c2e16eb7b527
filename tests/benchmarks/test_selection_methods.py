"""The methods of the selection benchmark, on packs that are made here and whose truth is known."""

import importlib.util
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.peers.d3rlpy_elsewhere import PYTHON_VARIABLE
from benchmarks.peers.trainer import PeerMissing
from benchmarks.selection import blocks
from benchmarks.selection.crossfitting import OfOnePack, z_scores
from benchmarks.selection.diagnose import diagnose
from benchmarks.selection.methods import LEARNT, METHODS, RULES
from benchmarks.selection.networks import JudgedController
from benchmarks.selection.pack import Pack
from benchmarks.selection.policies import outcomes
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.selection import Selector, pick_shares
from harness_core.evaluation.subsets import whole
from harness_core.features.batch import DecisionGroup, GroupSignals, TransitionArrays
from harness_core.features.execution import EXECUTION
from harness_core.features.history import NUMERIC
from harness_core.features.set_relative import SET_RELATIVE
from harness_core.features.table import FeatureSchema
from harness_core.params import Params
from harness_core.rewards.table import COMPONENTS
from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Split

N_TASKS, K, N_FOLDS = 36, 6, 3
KINDS = tuple(f"kind.{kind}" for kind in ActionKind)
STATE = (
    "task.0",
    *(f"last_action.{name}" for name in KINDS),
    "last_action.text.0",
    "last_action.execution.not_loaded",
    "last_action.execution.generated_share",
    "numeric.step_index",
    "numeric.last_is_error",
    "agent_prior",
)
ACTION = (*KINDS, "text.0", "execution.generated_share")
SUBMIT = tuple(ActionKind).index(ActionKind.SUBMIT)
Scores = dict[str, list[np.ndarray]]
D3RLPY = "d3rlpy_iql"


def make_group(task: int, *, flipped_fold: int | None = None) -> DecisionGroup:
    """Candidates whose generated checks tell, in noise, which of them are right."""
    rng = np.random.default_rng(task)
    fold = task % N_FOLDS
    truth = rng.permutation(np.arange(K) % 2).astype(np.float32)
    share = np.clip(0.6 * truth + 0.2 + 0.15 * rng.standard_normal(K), 0, 1).astype(np.float32)
    after = np.zeros((K, len(STATE)), dtype=np.float32)
    after[:, STATE.index("task.0")] = rng.standard_normal()
    after[:, STATE.index("last_action.kind.code")] = 1.0
    after[:, STATE.index("last_action.text.0")] = rng.standard_normal(K)
    after[:, STATE.index("last_action.execution.not_loaded")] = share < 0.1
    after[:, STATE.index("last_action.execution.generated_share")] = share
    after[:, STATE.index("numeric.step_index")] = 1.0
    before = np.zeros_like(after)
    before[:, 0] = after[:, 0]
    action = np.zeros((K, len(ACTION)), dtype=np.float32)
    action[:, 0] = 1.0
    action[:, ACTION.index("execution.generated_share")] = share
    passed = np.arange(4)[None, :] < np.rint(4 * share)[:, None]
    return DecisionGroup(
        group_id=f"made/{task}",
        kind=GroupKind.ATTEMPT,
        task_id=f"task-{task}",
        source="made",
        family="made",
        split=Split.TRAIN,
        fold=fold,
        before=before,
        after=after,
        action=action,
        signals=GroupSignals(
            n_chars=rng.integers(10, 90, size=K).astype(np.float32),
            text_key=np.array([1, 1, 2, 3, 4, 5]),
            answer_key=np.zeros(K, dtype=np.int64),
            visible_rate=np.full(K, np.nan, dtype=np.float32),
            generated_passed=passed,
            outputs=np.stack([1 + truth, rng.integers(1, 9, size=K)], axis=1).astype(np.int64),
            agent_prior=np.full(K, 0.5, dtype=np.float32),
        ),
        n_steps=np.ones(K, dtype=np.int64),
        n_tokens=np.zeros(K, dtype=np.int64),
        success=1.0 - truth if fold == flipped_fold else truth,
        dangerous=np.zeros(K, dtype=bool),
        is_taken=np.arange(K) == 0,
        trusted=True,
    )


def make_transitions(groups: tuple[DecisionGroup, ...]) -> TransitionArrays:
    """Each attempt writes a program, then hands it in, which pays its outcome."""
    n_attempts = len(groups) * K
    before, after, action, success = (
        np.concatenate([getattr(group, name) for group in groups])
        for name in ("before", "after", "action", "success")
    )
    two = np.repeat(np.arange(n_attempts), 2)
    is_submit = np.tile([False, True], n_attempts)
    taken = np.zeros((2 * n_attempts, len(ACTION) + len(SET_RELATIVE)), dtype=np.float32)
    taken[~is_submit, : len(ACTION)] = action
    taken[is_submit, SUBMIT] = 1.0
    rewards = np.full((2 * n_attempts, len(COMPONENTS)), np.nan, dtype=np.float32)
    rewards[is_submit, COMPONENTS.index("all_tests")] = success
    group_of = np.repeat(np.arange(len(groups)), 2 * K)
    return TransitionArrays(
        trajectory=two,
        step_index=is_submit.astype(np.int64),
        state=np.where(is_submit[:, None], after[two], before[two]),
        action=taken,
        next_state=np.where(is_submit[:, None], np.float32(0), after[two]),
        rewards=rewards,
        discount=np.where(is_submit, 0.0, 0.99).astype(np.float32),
        fold=np.array([group.fold for group in groups])[group_of],
        split=np.array([str(group.split) for group in groups])[group_of],
        task_id=np.array([group.task_id for group in groups])[group_of],
    )


def make_pack(params: Params, *, flipped_fold: int | None = None) -> Pack:
    groups = tuple(make_group(task, flipped_fold=flipped_fold) for task in range(N_TASKS))
    small = {
        "accelerator": "cpu",
        "hidden_sizes": (16,),
        "learning_rate": 0.02,
        "dropout": 0.0,
        "max_updates": 25,
        "check_every": 25,
        "group_sizes": (2, 4),
        "batch_size": 64,
        "trees": params.train.trees.model_copy(update={"n_trees": 20, "n_members": 1}),
    }
    return Pack(
        name="made",
        groups=groups,
        transitions=make_transitions(groups),
        schema=FeatureSchema(
            state=STATE, action=ACTION, set_relative=SET_RELATIVE, encoders={}, fingerprint="made"
        ),
        params=params.model_copy(update={"train": params.train.model_copy(update=small)}),
    )


@cache
def has_d3rlpy() -> bool:
    """Elsewhere or here; it cannot be installed beside ours."""
    return PYTHON_VARIABLE in os.environ or importlib.util.find_spec("d3rlpy") is not None


@pytest.fixture(scope="module")
def pack(params: Params) -> Pack:
    return make_pack(params)


@pytest.fixture(scope="module")
def selectors(pack: Pack) -> dict[str, Selector]:
    return all_selectors(pack)


@pytest.fixture(scope="module")
def scored(pack: Pack, selectors: dict[str, Selector]) -> Scores:
    return scores_of(pack, selectors)


def all_selectors(pack: Pack, names: Iterable[str] = tuple(METHODS)) -> dict[str, Selector]:
    """Those that are there; one pack after the other, so that trainings are shared."""
    made = {name: METHODS[name](pack, 0) for name in names if name != D3RLPY or has_d3rlpy()}
    return {name: selector for name, selector in made.items() if selector is not None}


def scores_of(pack: Pack, selectors: dict[str, Selector]) -> Scores:
    """Scores [K] of each whole group by each method."""
    return {name: selector(whole(pack.groups)) for name, selector in selectors.items()}


def better_than_random(score: list[np.ndarray], pack: Pack) -> float:
    """Mean success of the picks, less that of a pick by lot."""
    shares = pick_shares(score)
    success = np.stack([group.success for group in pack.groups])
    return float((shares * success).sum(axis=1).mean() - success.mean())


def test_who_judges_a_fold_learnt_nothing_from_its_labels(pack, params, selectors, scored):
    flipped = make_pack(params, flipped_fold=0)
    others = all_selectors(flipped)
    other = scores_of(flipped, others)
    fold_of = np.repeat([group.fold for group in pack.groups], K)
    # The controller's second stage is fitted on logits of networks that may know the fold.
    for name in scored.keys() - {"controller"}:
        same = np.concatenate(scored[name]) == np.concatenate(other[name])
        assert same[fold_of == 0].all(), name
        # The rules learn from nobody, and cloning is blind to who succeeded.
        is_blind = name in RULES or name == "behaviour_cloning"
        assert same[fold_of != 0].all() == is_blind, name
    mine = whole([group for group in pack.groups if group.fold == 0])
    logits = []
    for made in (selectors, others):
        controller = made["controller"]
        assert isinstance(controller, JudgedController)
        logits.append(controller.judged.model_of(0).critic.terminal(mine[0].attempt_vectors))
    np.testing.assert_array_equal(logits[0], logits[1])


@pytest.mark.parametrize(
    "name",
    [
        *("generated_checks", "logistic", "trees_execution", "trees", "trees_set"),
        *(
            "trees_set_rank",
            "linear_and_trees",
            "mc_value",
            "iql_value",
            "iql_q",
            "controller",
            "d3rlpy_iql",
        ),
    ],
)
def test_what_can_be_learnt_is_learnt(name, pack, scored):
    if name == D3RLPY and not has_d3rlpy():
        pytest.skip("d3rlpy is not here: it cannot be installed beside ours; `make integration`")
    assert better_than_random(scored[name], pack) > 0.2


def test_columns_without_a_signal_are_no_better_than_chance(pack, scored):
    assert abs(better_than_random(scored["trees_static"], pack)) < 0.25


def test_every_method_gives_every_candidate_a_number(scored):
    assert {*LEARNT} - {D3RLPY} <= scored.keys()
    for name, score in scored.items():
        assert [len(each) for each in score] == [K] * N_TASKS, name
        assert np.isfinite(np.concatenate(score)).all(), name


def test_equal_seeds_give_equal_scores(params, scored):
    again = make_pack(params)
    names = [name for name in LEARNT if name not in {"mc_value", "behaviour_cloning"}]
    for name, score in scores_of(again, all_selectors(again, names)).items():
        np.testing.assert_array_equal(np.concatenate(score), np.concatenate(scored[name]), name)


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it(pack, monkeypatch):
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(PeerMissing, match=r"not installed: `pip install harness-core\[bench"):
        METHODS[D3RLPY](pack, 0)


def test_a_method_that_a_pack_has_nothing_for_is_left_out(pack):
    bare = replace(
        pack,
        groups=tuple(
            replace(
                group,
                signals=replace(
                    group.signals,
                    generated_passed=np.zeros((K, 0), dtype=bool),
                    outputs=np.zeros((K, 0), dtype=np.int64),
                    text_key=np.arange(K),
                ),
            )
            for group in pack.groups
        ),
        schema=pack.schema.model_copy(update={"state": tuple(f"task.{i}" for i in range(17))}),
    )
    for name in (
        "visible_checks",
        "generated_checks",
        "codet",
        "forced_check",
        "text_mode",
        "runs",
    ):
        assert RULES[name](bare, 0) is None, name
    assert RULES["agent_prior"](bare, 0) is not None  # stands in every table
    alike = replace(
        pack, groups=tuple(replace(g, success=np.ones_like(g.success)) for g in pack.groups)
    )
    for name in ("logistic", "trees_set"):
        assert LEARNT[name](alike, 0) is None, name


def test_the_rules_pick_what_they_say(pack):
    group = replace(
        pack.groups[0],
        signals=replace(
            pack.groups[0].signals,
            text_key=np.array([7, 8, 8, 8, 9, 9]),
            visible_rate=np.array([0.5, np.nan, 1.0, 1.0, 0.0, np.nan], dtype=np.float32),
            generated_passed=np.array([[1], [1], [0], [1], [1], [0]], dtype=bool),
        ),
        after=pack.groups[0].after.copy(),
    )
    loaded = STATE.index("last_action.execution.not_loaded")
    error = STATE.index("numeric.last_is_error")
    group.after[:, loaded] = [0, 1, 0, 0, 0, 0]
    group.after[:, error] = [-0.2, -0.2, 4.9, -0.2, -0.2, -0.2]  # standardised
    one = replace(pack, groups=(group,))
    expected = {
        "text_mode": [1, 3, 3, 3, 2, 2],
        "runs": [1, 0, 0, 1, 1, 1],
        # Candidate 1 has no visible check and passes the generated one; it comes before 2 and 3.
        "forced_check": [0, 5, 4, 3, -4, -5],
    }
    for name, wanted in expected.items():
        rule = RULES[name](one, 0)
        assert rule is not None
        assert rule(whole(one.groups))[0].tolist() == wanted, name


def test_every_column_of_a_state_is_either_static_or_came_back():
    names = (
        "task.0",
        "last_action.kind.code",
        "last_action.text.0",
        "last_action.summary.n_chars",
        *(f"last_action.execution.{name}" for name in EXECUTION),
        "observation.0",
        *(f"numeric.{name}" for name in NUMERIC),
        "agent_prior",
    )
    schema = FeatureSchema(
        state=names, action=(), set_relative=SET_RELATIVE, encoders={}, fingerprint=""
    )
    static, execution = blocks.static(schema), blocks.execution(schema)
    assert sorted([*static, *execution]) == list(range(len(names)))
    known_before = {names[column].partition(".")[2] for column in static}
    assert {name for name in NUMERIC if name in known_before} == {
        *("step_index", "log_step_index", "is_start", "is_long", "log_n_repeats", "last_is_repeat"),
        *("log_n_programs", "log_n_messages", "log_n_tool_calls", "log_n_interventions"),
        *("log_tokens", "tokens_known"),
    }
    assert len(blocks.with_set_relative(schema)) == len(names) + len(SET_RELATIVE)


def test_the_outcome_of_a_run_stands_at_each_of_its_steps(pack):
    found = outcomes(pack.transitions).reshape(-1, 2)
    truth = np.concatenate([group.success for group in pack.groups])
    np.testing.assert_array_equal(found, np.stack([truth, truth], axis=1))
    unknown = replace(pack.transitions, rewards=np.full_like(pack.transitions.rewards, np.nan))
    assert np.isnan(outcomes(unknown)).all()


def test_a_policy_that_hands_in_what_succeeds_ranks_by_it(params):
    """Where a run goes on unless it is right, advantage-weighted cloning learns when to hand in."""
    pack = make_pack(params)
    arrays = pack.transitions
    state = arrays.state.copy()
    wrong = outcomes(arrays) < 0.5
    is_submit = arrays.step_index == 1
    # Runs that fail go on from states that look like their end: what follows is another program.
    state[~is_submit & wrong] = arrays.state[is_submit & wrong]
    steering = replace(pack, transitions=replace(arrays, state=state))
    for name in ("awr_all_features", "reward_weighted_bc"):
        selector = METHODS[name](steering, 0)
        assert selector is not None
        assert better_than_random(selector(whole(steering.groups)), steering) > 0.2, name


def test_z_scores_of_equal_values_are_zero():
    assert z_scores(np.full(3, 0.1, dtype=np.float32)).tolist() == [0, 0, 0]
    assert z_scores(np.array([1, 3], dtype=np.float32)).tolist() == [-1, 1]


def test_methods_of_one_pack_share_what_was_made_of_it_and_the_next_takes_its_place(pack):
    made, following = [], replace(pack, name="next")

    def make(pack: Pack, seed: int) -> int:
        made.append((pack.name, seed))
        return len(made)

    shared = OfOnePack(make)
    assert [shared(pack, 0), shared(pack, 0), shared(pack, 1)] == [1, 1, 2]
    assert [shared(following, 0), shared(pack, 0)] == [3, 4]


def test_the_diagnosis_tells_leaks_ranking_and_whether_beliefs_are_true(pack, selectors):
    chosen = {name: selectors[name] for name in ("logistic", "text_mode", "controller")}
    figures = diagnose(pack, chosen, Bootstrap(n_resamples=200, confidence=0.95, seed=0))
    assert json.loads(json.dumps(figures)) == figures
    assert figures["steps_auc"]["mean"] == 0.5  # all runs are equally long
    methods = figures["methods"]
    auc = methods["logistic"]["within_task_auc"]
    assert 0.9 < auc["low"] <= auc["mean"] <= auc["high"] <= 1
    assert auc["n_tasks"] == N_TASKS
    assert methods["text_mode"]["reliability"] is None  # votes are no probabilities
    for name in ("logistic", "controller"):
        assert methods[name]["reliability"]["n"] == N_TASKS * K
        assert methods[name]["reliability"]["brier"] < 0.25  # that of saying one half
