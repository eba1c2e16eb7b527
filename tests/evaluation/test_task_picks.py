"""What abstention is calibrated on: one decision a task, by a model that never saw it."""

from dataclasses import replace

import numpy as np

from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.task_picks import task_picks
from harness_core.features.batch import Floats
from tests.controller.groups import make_group


class LaterIsBetter:
    """Prefers later candidates; its values are its `worth`."""

    def __init__(self, worth: float = 0.0) -> None:
        self.worth = worth

    def terminal(self, x: Floats) -> Floats:
        return np.arange(len(x), dtype=np.float32)

    def q(self, state: Floats, action: Floats) -> Floats:
        return np.full((len(state), 2), self.worth, dtype=np.float32)

    def value(self, state: Floats) -> Floats:
        return np.zeros((len(state), 2), dtype=np.float32)

    def running(self, state: Floats) -> Floats:
        return np.zeros(len(state), dtype=np.float32)


FOLDS = {fold: Model(critic=LaterIsBetter(float(fold))) for fold in (0, 1)}
JUDGED = CrossFit(final=Model(critic=LaterIsBetter(99.0)), folds=FOLDS)


def picks(*groups, group_size: int = 8):
    return task_picks(JUDGED, groups, group_size=group_size, seed=0)


def test_a_task_with_many_groups_gives_one_pick():
    groups = [replace(make_group([0, 1], name=f"g{i}"), task_id=f"t{i % 3}") for i in range(9)]
    assert len(picks(*groups).probability) == 3


def test_the_pick_is_the_best_of_at_most_group_size_candidates():
    found = picks(make_group([0.0] * 11 + [1.0]), group_size=4)
    assert len(found.candidates[0]) == 4
    assert found.probability[0] == max(found.candidates[0])


def test_each_task_is_judged_by_the_model_of_its_fold():
    found = picks(*(replace(make_group([0, 1], name=f"g{fold}"), fold=fold) for fold in (0, 1)))
    # Two components of worth 0 and of worth 1; the final model's 99 would show.
    assert found.value.tolist() == [0.0, 2.0]


def test_what_is_dangerous_is_never_the_pick_and_nothing_but_danger_gives_none():
    mixed = make_group([0.0, 1.0], name="a", dangerous=[False, True])
    found = picks(mixed, make_group([1.0], name="b", dangerous=[True]))
    assert found.success.tolist() == [0.0]
    assert not found.dangerous.any()


def test_attempts_of_unknown_outcome_say_nothing():
    assert len(picks(make_group([np.nan, np.nan])).probability) == 0
