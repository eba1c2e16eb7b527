"""Models of folds that one benchmark leaves for another."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.kept_models import keep_models, kept_models, model_key
from benchmarks.selection import networks
from benchmarks.selection.pack import Pack
from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.evaluation.subsets import whole
from harness_core.learners.config import TrainConfig
from tests.benchmarks.test_selection_methods import N_FOLDS, make_pack


@pytest.fixture(scope="module")
def pack(params, tmp_path_factory) -> Pack:
    return replace(make_pack(params), root=tmp_path_factory.mktemp("kept"))


def _key(pack: Pack, config: TrainConfig) -> str:
    spec = network_spec(pack.groups, config, pack.params.rewards.weights.model_dump())
    return model_key(pack.groups, pack.transitions, spec, config)


def test_what_selection_trained_judges_the_same_when_it_is_read_again(pack) -> None:
    trained = networks.controller(pack, seed=0)
    config = pack.params.train.model_copy(update={"seed": 0})
    assert pack.root is not None
    found = kept_models(pack.root, _key(pack, config), n_folds=N_FOLDS)
    assert found is not None
    again = networks.JudgedController(OutOfFold(pack.groups, found, config).judged())
    for one, two in zip(trained(whole(pack.groups)), again(whole(pack.groups)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_other_data_or_settings_find_nothing(pack) -> None:
    networks.controller(pack, seed=0)
    config = pack.params.train.model_copy(update={"seed": 0})
    known = _key(pack, config)
    turned = [replace(pack.groups[0], success=1.0 - pack.groups[0].success), *pack.groups[1:]]
    shifted = replace(pack.transitions, state=pack.transitions.state + 1)
    others = {
        _key(pack, config.model_copy(update={"seed": 1})),
        _key(pack, config.model_copy(update={"actor": "bc"})),
        _key(replace(pack, groups=tuple(turned)), config),
        _key(replace(pack, transitions=shifted), config),
    }
    assert len(others) == 4
    assert known not in others
    assert pack.root is not None
    assert all(kept_models(pack.root, key, n_folds=N_FOLDS) is None for key in others)


def test_a_missing_fold_is_no_set_of_models(pack, tmp_path) -> None:
    keep_models(tmp_path, "key", networks._TRAINED(pack, 0, pack.params.train.learner)[:1])
    assert kept_models(tmp_path, "key", n_folds=1) is not None
    assert kept_models(tmp_path, "key", n_folds=2) is None
