import numpy as np
import pytest

from harness_core.errors import DataError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.comparison import (
    compare_with_behaviour,
    compare_with_champion,
    frozen_slice,
)
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.evaluate import evaluate_groups
from harness_core.evaluation.forgetting import OTHER, family_verdicts, pair_tasks
from harness_core.evaluation.gate import decide, leaking_tasks
from harness_core.evaluation.selection import RANDOM, SELECTED, judge
from harness_core.evaluation.subsets import whole
from harness_core.trajectories.vocabulary import Split

_BOOTSTRAP = Bootstrap(n_resamples=500, confidence=0.95, seed=0)


@pytest.fixture(scope="session")
def family(group):
    """Tasks of one family on the test slice; the hint is right or wrong everywhere."""

    def make(name, *, right, n_tasks=8, **changes):
        return [
            group(
                [0, 1, 0, 1],
                task_id=f"{name}-{n}",
                family=name,
                split=Split.TEST,
                hint=[0, 1, 0, 1] if right else [1, 0, 1, 0],
                **changes,
            )
            for n in range(n_tasks)
        ]

    return make


@pytest.fixture
def cross(critic):
    return CrossFit(final=Model(critic=critic()))


@pytest.fixture
def compare(cross, evaluation, gate):
    """Both models read the hint, each from its own version of the groups."""

    def run(candidate, champion):
        return compare_with_champion(
            cross, candidate, cross, champion, evaluation=evaluation, gate=gate
        )

    return run


@pytest.fixture
def decided(cross, evaluation, gate):
    def run(comparison, groups, **changes):
        report = evaluate_groups(cross, groups, evaluation, with_trees=False)
        options = {"trusted": True, "leaking_tasks": []}
        return decide(comparison, report, gate, **{**options, **changes})

    return run


def test_a_family_that_got_worse_is_refused_and_named(family, compare, decided):
    champion = family("graphs", right=True) + family("strings", right=True)
    candidate = family("graphs", right=False) + family("strings", right=True)
    verdict = decided(compare(candidate, champion), candidate)
    assert verdict.verdict == "keep"
    assert [item.family for item in verdict.families if item.forgotten] == ["graphs"]
    assert any("graphs (0 % instead of 100 %" in reason for reason in verdict.reasons)
    assert "graphs" in verdict.summary


def test_an_equal_model_is_promoted(family, compare, decided):
    groups = family("graphs", right=True) + family("strings", right=True)
    verdict = decided(compare(groups, groups), groups)
    assert verdict.verdict == "promote"
    assert verdict.promoted_reference == "champion"
    assert all(rule.passed for rule in verdict.rules)
    assert verdict.summary.startswith("Promote: at K up to 8 the controller solves 100 %")


def test_a_model_not_worse_in_the_mean_passes_however_wide_its_interval(family, compare, decided):
    champion = family("a", right=True, n_tasks=2) + family("b", right=False, n_tasks=2)
    candidate = family("a", right=False, n_tasks=2) + family("b", right=True, n_tasks=2)
    comparison = compare(candidate, champion)
    assert comparison.difference.value == 0
    assert comparison.difference.low < -0.05
    (success,) = [rule for rule in decided(comparison, candidate).rules if rule.name == "success"]
    assert success.passed
    assert "not below it in the mean" in success.sentence


def test_a_gain_elsewhere_does_not_hide_a_forgotten_family(family, compare):
    champion = family("graphs", right=True) + family("strings", right=False, n_tasks=40)
    candidate = family("graphs", right=False) + family("strings", right=True, n_tasks=40)
    comparison = compare(candidate, champion)
    assert comparison.difference.value > 0
    assert [item.family for item in comparison.families if item.forgotten] == ["graphs"]


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("lost", [True, False])
def test_a_family_never_seen_cannot_improve_the_verdict_on_another(family, compare, lost, right):
    champion, candidate = family("graphs", right=True), family("graphs", right=not lost)
    unseen = family("aliens", right=right)
    before = compare(candidate, champion).families
    after = compare(candidate + unseen, champion + family("aliens", right=True)).families
    assert [item for item in after if item.family == "graphs"] == list(before)


def test_small_families_are_pooled(family, compare):
    champion = family("a", right=True, n_tasks=2) + family("b", right=True, n_tasks=2)
    candidate = family("a", right=False, n_tasks=2) + family("b", right=False, n_tasks=2)
    (pool,) = compare(candidate, champion).families
    assert (pool.family, pool.n_tasks, pool.forgotten) == (OTHER, 4, True)


def test_a_loss_within_the_limit_is_not_forgetting(group, gate):
    groups = [group([0, 1], task_id=str(n), family="x") for n in range(30)]
    worse = {SELECTED: lambda subsets: [np.array([0.0, 1.0 - 1e-9]) for _ in subsets]}
    outcomes = judge(whole(groups), worse)
    paired = pair_tasks(outcomes, RANDOM, outcomes, SELECTED)
    (strict,) = family_verdicts(paired, gate, _BOOTSTRAP)
    (lenient,) = family_verdicts(
        paired, gate.model_copy(update={"max_forgetting": 0.5}), _BOOTSTRAP
    )
    assert strict.difference == -0.5
    assert strict.forgotten
    assert not lenient.forgotten


def test_without_a_champion_the_behaviour_policy_is_the_reference(
    family, cross, evaluation, gate, decided
):
    groups = family("graphs", right=True)
    comparison = compare_with_behaviour(cross, groups, evaluation=evaluation, gate=gate)
    assert comparison.reference_success == 0.5
    verdict = decided(comparison, groups)
    assert (verdict.verdict, verdict.promoted_reference) == ("promote", "behaviour")


def test_a_model_worse_than_chance_is_never_promoted(family, cross, evaluation, gate, decided):
    groups = family("graphs", right=False)
    comparison = compare_with_behaviour(cross, groups, evaluation=evaluation, gate=gate)
    verdict = decided(comparison, groups)
    assert verdict.verdict == "keep"
    failed = {rule.name for rule in verdict.rules if not rule.passed}
    assert failed == {"forgetting", "success", "better_than_random"}
    assert verdict.summary.startswith("Keep the agent as it is: Forgotten: graphs")


def test_untrusted_labels_block(family, compare, decided):
    groups = family("graphs", right=True)
    verdict = decided(compare(groups, groups), groups, trusted=False)
    assert verdict.verdict == "keep"
    assert "without isolation" in verdict.reasons[0]


def test_a_task_in_two_splits_blocks(group, family, compare, decided):
    groups = [group([0, 1], task_id="x"), group([0, 1], task_id="x", fold=3, source="y")]
    assert leaking_tasks(groups) == ["x"]
    other = family("graphs", right=True)
    verdict = decided(compare(other, other), other, leaking_tasks=["x"])
    assert verdict.verdict == "keep"
    assert "the first is x" in verdict.reasons[0]


def test_more_danger_blocks(family, compare, decided):
    # The champion's own features flag nothing here, so that only the picks differ.
    safe = family("graphs", right=True)
    comparison = compare(safe, safe)
    worse = type(comparison)(
        **{
            **{name: getattr(comparison, name) for name in comparison.__dataclass_fields__},
            "candidate_dangerous": 0.1,
        }
    )
    verdict = decided(worse, safe)
    assert [rule.name for rule in verdict.rules if not rule.passed] == ["danger"]


def test_an_empty_test_slice_cannot_replace_a_champion(compare, decided, group):
    judged = [group([0, 1], task_id=str(n)) for n in range(5)]
    verdict = decided(compare([], []), judged)
    assert verdict.verdict == "keep"
    assert "evidence" in {rule.name for rule in verdict.rules if not rule.passed}


def test_both_models_are_judged_on_the_same_groups(family, compare):
    with pytest.raises(DataError, match="must be the same"):
        compare(family("a", right=True), family("b", right=True))


def test_tasks_that_the_champion_learnt_from_are_not_its_exam(family, group):
    groups = [*family("a", right=True, n_tasks=2), group([0, 1])]
    kept = frozen_slice(groups, seen_in_training=["a-0"])
    assert [item.task_id for item in kept] == ["a-1"]
