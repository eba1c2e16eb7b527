"""Boosted trees beside the networks."""

import numpy as np
import pytest
import torch

from harness_core.errors import ModelError
from harness_core.learners.checkpoint import Critic, load_critic, save_critic
from harness_core.learners.data import TrainingData
from harness_core.learners.networks import CriticNetwork
from harness_core.learners.trees import (
    NO_TREES,
    TreeHeads,
    file_name,
    fit_trees,
    load_trees,
    save_trees,
)


@pytest.fixture
def trees(training, config) -> TreeHeads:
    small = config.trees.model_copy(update={"n_trees": 20, "min_rows": 5, "n_members": 2})
    return fit_trees(training, small, seed=0)


def rows_of(training: TrainingData) -> tuple[np.ndarray, np.ndarray]:
    pool = training.attempts
    assert pool is not None
    state = pool.state.numpy()[pool.source_row]
    return np.concatenate([state, pool.other.numpy()], axis=1), pool.label.numpy()


def test_trees_rank_attempts_that_succeed_above_others(training, trees) -> None:
    x, label = rows_of(training)
    score = trees.score_attempts(x)
    assert score[label == 1].mean() > score[label == 0].mean()


def test_equal_data_give_equal_trees(training, trees, config) -> None:
    again = fit_trees(
        training,
        config.trees.model_copy(update={"n_trees": 20, "min_rows": 5, "n_members": 2}),
        seed=0,
    )
    assert [one.model_to_string() for one in again.attempt] == [
        one.model_to_string() for one in trees.attempt
    ]


def test_a_score_is_the_mean_of_members_that_differ(training, config) -> None:
    small = config.trees.model_copy(update={"n_trees": 20, "min_rows": 5})
    x, _ = rows_of(training)
    alone = [
        fit_trees(training, small.model_copy(update={"n_members": 1}), seed=seed) for seed in (3, 4)
    ]
    one, two = (trees.score_attempts(x) for trees in alone)
    assert one is not None
    assert two is not None
    assert not np.array_equal(one, two)
    both = fit_trees(training, small.model_copy(update={"n_members": 2}), seed=3).score_attempts(x)
    assert both is not None
    np.testing.assert_allclose(both, (one + two) / 2, rtol=1e-5, atol=1e-6)


def test_no_rounds_are_no_trees(training, config) -> None:
    assert fit_trees(training, config.trees.model_copy(update={"n_trees": 0}), seed=0) == NO_TREES


def test_trees_survive_a_folder(training, trees, spec, tmp_path) -> None:
    x, _ = rows_of(training)
    save_trees(tmp_path, trees)
    found = load_trees(tmp_path, n_attempt=x.shape[1], n_state=spec.n_state)
    np.testing.assert_array_equal(found.score_attempts(x), trees.score_attempts(x))
    save_trees(tmp_path, NO_TREES)
    assert not list(tmp_path.glob("trees_*"))


def test_a_critic_adds_the_scores_of_its_trees(training, trees, spec, tmp_path) -> None:
    x, _ = rows_of(training)
    network = CriticNetwork(spec, seed=1)
    alone = Critic(network).terminal(x)
    save_critic(tmp_path, network, trees)
    both = load_critic(tmp_path).terminal(x)
    np.testing.assert_allclose(both, alone + trees.score_attempts(x), rtol=1e-5, atol=1e-5)


def test_running_attempts_are_scored_by_value_where_there_are_no_trees(spec) -> None:
    network = CriticNetwork(spec, seed=1)
    with torch.no_grad():
        network.return_shift.add_(1.0)
    critic = Critic(network)
    state = np.ones((3, spec.n_state), dtype=np.float32)
    np.testing.assert_allclose(critic.running(state), critic.value(state).sum(axis=1))


@pytest.mark.parametrize("content", ["", "no trees at all", "tree\nversion=v4\nnum_class=x"])
def test_files_that_hold_no_trees_are_refused(content: str, tmp_path) -> None:
    (tmp_path / file_name("attempt", 0)).write_text(content)
    with pytest.raises(ModelError, match=file_name("attempt", 0)):
        load_trees(tmp_path, n_attempt=7, n_state=6)


def test_trees_of_another_width_are_refused(training, trees, spec, tmp_path) -> None:
    save_trees(tmp_path, trees)
    with pytest.raises(ModelError, match="columns"):
        load_trees(tmp_path, n_attempt=3, n_state=spec.n_state)
