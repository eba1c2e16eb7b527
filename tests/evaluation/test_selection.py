import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.evaluation.baselines import BASELINES, available_baselines
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.selection import ORACLE, RANDOM, SELECTED, judge, merge
from harness_core.evaluation.subsets import draw_subsets, labelled, whole


def by_hint(subsets):
    return [subset.group.after[subset.index, 0] for subset in subsets]


def test_ties_are_worth_the_mean_of_the_tied(group):
    groups = [group([1, 0, 0], hint=[1, 1, 0])]
    outcomes = judge(whole(groups), {SELECTED: by_hint})
    assert outcomes.column(SELECTED) == pytest.approx([0.5])
    assert outcomes.column(RANDOM) == pytest.approx([1 / 3])
    assert outcomes.column(ORACLE) == pytest.approx([1.0])


def test_rounding_does_not_break_a_tie(group):
    groups = [group([1, 0], hint=[1.0, 1.0 + 2e-7])]
    assert judge(whole(groups), {SELECTED: by_hint}).column(SELECTED) == pytest.approx([0.5])


def test_who_refuses_all_candidates_neither_succeeds_nor_does_harm(group):
    groups = [group([1, 0], dangerous=np.array([True, True]))]
    refuse = {SELECTED: lambda subsets: [np.full(2, -np.inf, dtype=np.float32) for _ in subsets]}
    outcomes = judge(whole(groups), refuse)
    assert outcomes.column(SELECTED) == pytest.approx([0.0])
    assert outcomes.dangerous[0, outcomes.selectors.index(SELECTED)] == 0
    assert outcomes.dangerous[0, outcomes.selectors.index(RANDOM)] == 1


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_nobody_beats_the_oracle(many_groups, size):
    groups = many_groups(quality=0.3)
    subsets = draw_subsets(groups, size=size, n_subsets=8, seed=0)
    outcomes = judge(subsets, {SELECTED: by_hint, **available_baselines(groups)})
    assert (outcomes.success <= outcomes.column(ORACLE)[:, None] + 1e-9).all()


def test_best_of_one_is_the_same_for_everybody(many_groups):
    groups = many_groups()
    outcomes = judge(draw_subsets(groups, size=1, n_subsets=8, seed=0), {SELECTED: by_hint})
    assert outcomes.column(SELECTED) == pytest.approx(outcomes.column(ORACLE))


@given(order=st.permutations(range(6)))
def test_permuting_candidates_changes_no_result(group, order):
    fields = {
        "n_chars": np.array([3, 1, 4, 1, 5, 9], dtype=np.float32),
        "outputs": np.array([[1, 2], [1, 2], [3, 0], [1, 3], [0, 0], [3, 2]]),
        "generated_passed": np.array([[1, 1], [1, 1], [0, 1], [1, 0], [0, 0], [0, 1]], dtype=bool),
        "agent_prior": np.linspace(0, 1, 6).astype(np.float32),
        "dangerous": np.array([0, 0, 1, 0, 0, 0], dtype=bool),
    }
    original = group([1, 0, 1, 0, 0, 1], hint=[0.3, 0.9, 0.8, 0.1, 0.2, 0.5], **fields)
    permuted = original.take(np.array(order))
    judged = CrossFit(final=Model(critic=_Hint()))
    selectors = {SELECTED: judged.controller, **available_baselines([original])}
    del selectors["first"]  # the one selector that is about order
    before, after = (judge(whole([item]), selectors) for item in (original, permuted))
    assert after.success == pytest.approx(before.success)
    assert after.dangerous == pytest.approx(before.dangerous)


class _Hint:
    def terminal(self, x):
        return x[:, 0]

    def q(self, state, action):
        return state[:, :1]

    def running(self, state):
        return self.value(state).sum(axis=1)

    def value(self, state):
        return state[:, :1]


def test_results_do_not_depend_on_the_order_of_groups(many_groups):
    groups = many_groups(n_tasks=12, quality=0.2)
    forwards, backwards = (
        judge(
            draw_subsets(labelled(order), size=3, n_subsets=5, seed=0), {SELECTED: by_hint}
        ).success
        for order in (groups, groups[::-1])
    )
    assert np.array_equal(forwards, backwards)


def test_few_subsets_are_all_taken_and_many_are_drawn_without_repetition(group):
    small = draw_subsets([group([1, 0, 0, 0])], size=2, n_subsets=6, seed=0)
    assert [tuple(s.index) for s in small] == list(itertools.combinations(range(4), 2))
    large = draw_subsets([group([0] * 30)], size=4, n_subsets=20, seed=0)
    assert len({tuple(s.index) for s in large}) == 20


def test_groups_with_fewer_candidates_than_k_are_left_out(group):
    groups = [group([1, 0], task_id="a"), group([1, 0, 0], task_id="b")]
    assert {s.group.task_id for s in draw_subsets(groups, size=3, n_subsets=5, seed=0)} == {"b"}


def test_candidates_without_an_outcome_are_left_out(group):
    groups = labelled([group([1, np.nan, 0], task_id="a"), group([np.nan], task_id="b")])
    assert [item.task_id for item in groups] == ["a"]
    assert groups[0].size == 2


def test_a_group_counts_for_its_task_not_for_itself(group):
    groups = [
        group([1.0], task_id="a", source="x"),
        group([0.0], task_id="a", source="y"),
        group([1.0], task_id="b"),
    ]
    tasks, values = judge(whole(groups), {}).by_task(judge(whole(groups), {}).success)
    assert tasks == ("a", "b")
    assert values[:, 0] == pytest.approx([0.5, 1.0])


def test_merging_prefers_the_first_table(group):
    a, b = group([1, 0], task_id="a"), group([1], task_id="b")
    first = judge(whole([a.take(np.array([0]))]), {})
    merged = merge(first, judge(whole([a, b]), {}))
    assert merged.task_id == ("a", "b")
    assert merged.column(RANDOM) == pytest.approx([1.0, 1.0])


def test_a_baseline_without_a_signal_is_left_out_but_for_the_agent_prior(group):
    assert set(available_baselines([group([1, 0])])) == {"first", "agent_prior"}


@pytest.mark.parametrize(
    ("baseline", "signals", "best"),
    [
        ("first", {}, {0}),
        ("shortest", {"n_chars": [3, 1, 2, 9]}, {1}),
        ("longest", {"n_chars": [3, 1, 2, 9]}, {3}),
        ("majority", {"outputs": [[1, 2], [0, 0], [0, 0], [1, 2]]}, {0, 3}),
        ("majority", {"answer_key": [5, 0, 0, 0]}, {0}),
        ("majority", {"text_key": [5, 7, 7, 9]}, {1, 2}),
        ("visible_checks", {"visible_rate": [0.5, np.nan, 1.0, 0.0]}, {2}),
        ("generated_checks", {"generated_passed": [[1, 0], [0, 0], [1, 1], [0, 1]]}, {2}),
        ("codet", {"generated_passed": [[1, 0], [1, 0], [1, 0], [1, 1]]}, {0, 1, 2}),
        ("codet", {"visible_rate": [0.5, 0.5, 0.5, 1.0]}, {0, 1, 2}),
        ("agreement", {"outputs": [[1, 2], [1, 3], [1, 2], [4, 4]]}, {0, 2}),
        ("agreement", {"answer_key": [3, 4, 3, 0]}, {0, 2}),
        ("agent_prior", {"agent_prior": [0.1, 0.4, 0.2, 0.3]}, {1}),
    ],
)
def test_what_each_baseline_picks(group, baseline, signals, best):
    kinds = {"text_key": np.int64, "answer_key": np.int64, "outputs": np.int64}
    arrays = {
        name: np.array(
            value, dtype=kinds.get(name, bool if name == "generated_passed" else np.float32)
        )
        for name, value in signals.items()
    }
    (subset,) = whole([group([0, 0, 0, 0], **arrays)])
    scores = BASELINES[baseline](subset)
    assert set(np.flatnonzero(scores == scores.max())) == best
