import numpy as np
import pytest

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.scoring import score_group
from harness_core.errors import ModelError
from harness_core.evaluation.boosted_trees import fit_boosted_trees
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.subsets import draw_subsets, whole
from harness_core.trajectories.vocabulary import GroupKind, Split


@pytest.fixture
def cross_fit(critic):
    """Final model and fold models that can be told apart by their sign and size."""
    return CrossFit(
        final=Model(critic=critic(sign=-1.0)),
        folds={0: Model(critic=critic()), 1: Model(critic=critic(sign=2.0))},
    )


def test_each_fold_is_judged_by_the_model_that_never_saw_it(cross_fit, group):
    groups = [
        group([1, 0], task_id="a", fold=0),
        group([1, 0], task_id="b", fold=1, kind=GroupKind.STEP),
        group([1, 0], task_id="c", split=Split.TEST),
    ]
    first, second, third = cross_fit.scores(whole(groups))
    assert first[0] > first[1]
    assert second.tolist() == [2.0, 0.0]
    assert third[0] < third[1]


def test_without_folds_the_final_model_judges_everything(critic, group):
    judged = CrossFit(final=Model(critic=critic()))
    (score,) = judged.scores(whole([group([0, 1], fold=3)]))
    assert score[1] > score[0]


def test_a_fold_without_a_model_is_an_error(cross_fit, group):
    with pytest.raises(ModelError, match="fold 4"):
        cross_fit.scores(whole([group([0, 1], fold=4)]))


@pytest.mark.parametrize("kind", list(GroupKind))
def test_scores_are_those_of_the_run_time_controller(critic, group, kind):
    item = group([1, 0, 1], hint=[0.2, 0.7, 0.1], kind=kind)
    judged = CrossFit(final=Model(critic=critic(), combination=CRITIC_ALONE))
    (score,) = judged.scores(whole([item]))
    assert score == pytest.approx(score_group(critic(), CRITIC_ALONE, item))


def test_dangerous_candidates_are_refused_before_scoring(critic, group):
    dangerous = np.array([False, True, False])
    item = group([0, 1, 0], hint=[0.3, 0.9, 0.1], dangerous=dangerous)
    judged = CrossFit(final=Model(critic=critic()))
    (score,) = judged.controller(whole([item]))
    (rest,) = judged.scores(whole([item.take(np.flatnonzero(~dangerous))]))
    assert score[1] == -np.inf
    assert score[~dangerous] == pytest.approx(rest)


def test_a_group_of_dangerous_candidates_is_refused_whole(critic, group):
    judged = CrossFit(final=Model(critic=critic()))
    (score,) = judged.controller(whole([group([1, 0], dangerous=np.array([True, True]))]))
    assert (score == -np.inf).all()


def test_trees_of_a_fold_do_not_change_when_labels_of_the_fold_do(many_groups):
    groups = many_groups(n_tasks=20, quality=0.5)
    lied = [item if item.fold != 2 else _with_labels(item, 1 - item.success) for item in groups]
    probe = whole([item for item in groups if item.fold == 2])
    honest, fooled = (_fitted(part)(probe) for part in (groups, lied))
    assert all(np.array_equal(a, b) for a, b in zip(honest, fooled, strict=True))


def test_trees_find_what_the_features_tell(many_groups):
    groups = many_groups(n_tasks=30, quality=0.9)
    trees = _fitted(groups)
    subsets = draw_subsets(groups, size=4, n_subsets=4, seed=0)
    scores = trees(subsets)
    hits = [
        s.success[np.argmax(v)] == s.success.max() for s, v in zip(subsets, scores, strict=True)
    ]
    assert np.mean(hits) > 0.9


def test_there_are_no_trees_where_there_is_one_outcome(group):
    groups = [group([1, 1], task_id=str(n), fold=n % 5) for n in range(10)]
    assert fit_boosted_trees(groups, group_sizes=[2], seed=0) is None


def _fitted(groups):
    trees = fit_boosted_trees(groups, group_sizes=[2, 4], seed=0)
    assert trees is not None
    return trees


def _with_labels(item, labels):
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
    return type(item)(**{**fields, "success": labels})
