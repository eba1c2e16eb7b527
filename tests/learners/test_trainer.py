import numpy as np
import pytest
import torch

from harness_core.errors import ModelError, NoDataError, ParameterError
from harness_core.learners.checkpoint import save_critic
from harness_core.learners.crossfit import cross_fit
from harness_core.learners.data import TrainingData, group_pool, transition_pool
from harness_core.learners.trainer import fit
from harness_core.trajectories.vocabulary import GroupKind, Split


@pytest.fixture
def data(world, spec, set_relative) -> TrainingData:
    attempts, steps = (
        group_pool(world.groups, kind=kind, set_relative=set_relative, group_sizes=(2, 4), seed=0)
        for kind in (GroupKind.ATTEMPT, GroupKind.STEP)
    )
    return TrainingData(
        transitions=transition_pool(world.arrays, spec, batch_size=32),
        attempts=attempts,
        steps=steps,
    )


def _weights(network) -> dict[str, torch.Tensor]:
    return dict(network.state_dict())


def _assert_equal(one, two) -> None:
    for name, weight in _weights(one).items():
        assert torch.equal(weight, _weights(two)[name]), name


def test_equal_data_and_parameters_give_equal_bytes(data, spec, config, tmp_path) -> None:
    for name in ("a", "b"):
        torch.manual_seed(len(name))  # whatever ran before must not matter
        save_critic(tmp_path / name, fit(data, spec, config, validation=data, seed=3).network)
    for file in ("weights.safetensors", "network.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_another_seed_gives_another_network(data, spec, config) -> None:
    one, two = (fit(data, spec, config, seed=seed).network for seed in (0, 1))
    assert not torch.equal(one.terminal_mlp.weights[0], two.terminal_mlp.weights[0])


def test_stopping_half_way_and_resuming_changes_no_bit(data, spec, config, tmp_path) -> None:
    whole = fit(data, spec, config, validation=data, seed=0)
    half = config.model_copy(update={"max_updates": 20})
    file = tmp_path / "run.ckpt"
    fit(data, spec, half, validation=data, seed=0, checkpoint=file)
    resumed = fit(data, spec, config, validation=data, seed=0, checkpoint=file)
    _assert_equal(whole.network, resumed.network)
    assert resumed.checks == whole.checks
    assert resumed.kept_at == whole.kept_at


def test_a_finished_run_is_not_trained_again(data, spec, config, tmp_path) -> None:
    file = tmp_path / "run.ckpt"
    first = fit(data, spec, config, validation=data, seed=0, checkpoint=file)
    again = fit(data, spec, config, validation=data, seed=0, checkpoint=file)
    _assert_equal(first.network, again.network)


def test_a_checkpoint_leaves_no_temporary_file(data, spec, config, tmp_path) -> None:
    fit(data, spec, config, seed=0, checkpoint=tmp_path / "run.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


def test_training_leaves_random_state_threads_and_determinism_alone(data, spec, config) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state(), torch.get_num_threads()
    fit(data, spec, config, seed=0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    assert not torch.are_deterministic_algorithms_enabled()


def test_each_part_is_kept_at_its_best_check(data, spec, config) -> None:
    fitted = fit(data, spec, config, validation=data, seed=0)
    by_terminal = min(fitted.checks, key=lambda item: item.terminal_loss)
    by_critic = min(fitted.checks, key=lambda item: item.critic_loss)
    assert fitted.kept_at == {"terminal": by_terminal.update, "critic": by_critic.update}


def test_without_validation_parts_are_kept_when_asked(data, spec, config) -> None:
    keep_at = {"terminal": 40, "critic": 20}
    fitted = fit(data, spec, config, keep_at=keep_at, seed=0)
    short = fit(data, spec, config.model_copy(update={"max_updates": 20}), seed=0)
    assert fitted.kept_at == keep_at
    assert torch.equal(fitted.network.q_mlp.weights[0], short.network.q_mlp.weights[0])
    assert not torch.equal(
        fitted.network.terminal_mlp.weights[0], short.network.terminal_mlp.weights[0]
    )


def test_diverging_training_stops_with_a_sentence(data, spec, config) -> None:
    wild = config.model_copy(update={"learning_rate": 1e38})
    with pytest.raises(ModelError, match=r"diverged.*learning_rate"):
        fit(data, spec, wild, seed=0)


@pytest.mark.parametrize("missing", ["attempts", "steps"])
def test_a_kind_of_group_may_be_missing(data, spec, config, missing: str) -> None:
    parts = {"transitions": data.transitions, "attempts": data.attempts, "steps": data.steps}
    partial = TrainingData(**{**parts, missing: None})
    fitted = fit(partial, spec, config, validation=partial, seed=0)
    assert len(fitted.checks) == 3


def test_no_fold_model_depends_on_the_tasks_of_its_fold(world, spec, config, set_relative) -> None:
    """Labels of one fold are turned round: its own model must not change, the others must."""
    quick = config.model_copy(update={"max_updates": 20})
    turned = [
        _with_success(group, 1.0 - group.success) if group.fold == 1 else group
        for group in world.groups
    ]
    one = cross_fit(world.groups, world.arrays, spec, quick, set_relative=set_relative)
    two = cross_fit(turned, world.arrays, spec, quick, set_relative=set_relative)
    _assert_equal(one.folds[1].network, two.folds[1].network)
    assert not torch.equal(
        one.folds[0].network.terminal_mlp.weights[0], two.folds[0].network.terminal_mlp.weights[0]
    )


def test_no_model_depends_on_the_frozen_test_slice(world, spec, config, set_relative) -> None:
    quick = config.model_copy(update={"max_updates": 20})
    turned = [
        _with_success(group, 1.0 - group.success) if group.split is Split.TEST else group
        for group in world.groups
    ]
    one, two = (
        cross_fit(groups, world.arrays, spec, quick, set_relative=set_relative)
        for groups in (world.groups, turned)
    )
    _assert_equal(one.final.network, two.final.network)


def test_the_final_model_takes_as_many_updates_as_the_folds_in_the_median(
    world, spec, config, set_relative
) -> None:
    fits = cross_fit(world.groups, world.arrays, spec, config, set_relative=set_relative)
    for part in ("terminal", "critic"):
        counts = sorted(item.kept_at[part] for item in fits.folds)
        assert fits.final.kept_at[part] == counts[1]
    assert len(fits.folds) == 3


def test_attempts_without_a_difference_are_refused_with_a_reason(
    world, spec, config, set_relative
) -> None:
    for success, sentence in ((1.0, "same outcome"), (0.0, "same"), (np.nan, "known outcome")):
        groups = [
            _with_success(group, np.full(group.size, success, dtype=np.float32))
            for group in world.groups
        ]
        with pytest.raises(NoDataError, match=sentence):
            cross_fit(groups, world.arrays, spec, config, set_relative=set_relative)


def test_tasks_that_are_all_in_one_fold_are_refused(world, spec, config, set_relative) -> None:
    groups = [group for group in world.groups if group.fold == 0]
    with pytest.raises(NoDataError, match="fold 0"):
        cross_fit(groups, world.arrays, spec, config, set_relative=set_relative)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the GPU that is asked for")
def test_a_gpu_that_is_not_there_is_a_parameter_error(data, spec, config) -> None:
    with pytest.raises(ParameterError, match=r"train\.accelerator"):
        fit(data, spec, config.model_copy(update={"accelerator": "gpu"}), seed=0)


def _with_success(group, success):
    fields = {name: getattr(group, name) for name in type(group).__slots__}
    return type(group)(**{**fields, "success": success})
