import json
import pickle
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from harness_core.errors import FeatureSchemaMismatch, ModelError
from harness_core.learners.checkpoint import NETWORK, WEIGHTS, Critic, load_critic, save_critic
from harness_core.learners.networks import CriticNetwork


@pytest.fixture
def network(spec) -> CriticNetwork:
    network = CriticNetwork(spec, seed=1)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(2))
    return network


@pytest.fixture
def folder(network, tmp_path):
    save_critic(tmp_path, network)
    return tmp_path


@pytest.fixture
def rows(spec) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "state": rng.normal(size=(5, spec.n_state)).astype(np.float32),
        "action": rng.normal(size=(5, spec.n_action + spec.n_relative)).astype(np.float32),
        "terminal": rng.normal(size=(5, spec.n_state + spec.n_relative)).astype(np.float32),
    }


def test_a_loaded_critic_answers_as_the_saved_one(network, folder, rows) -> None:
    saved, loaded = Critic(network), load_critic(folder)
    for critic in (saved, loaded):
        assert critic.terminal(rows["terminal"]).shape == (5,)
    np.testing.assert_array_equal(
        saved.terminal(rows["terminal"]), loaded.terminal(rows["terminal"])
    )
    np.testing.assert_array_equal(
        saved.q(rows["state"], rows["action"]), loaded.q(rows["state"], rows["action"])
    )
    np.testing.assert_array_equal(saved.value(rows["state"]), loaded.value(rows["state"]))
    assert loaded.expected == network.spec


def test_q_is_the_lower_twin_and_unweighted_components_are_zero(network, rows) -> None:
    q = Critic(network).q(rows["state"], rows["action"])
    twins = network.q(torch.from_numpy(rows["state"]), torch.from_numpy(rows["action"]))
    np.testing.assert_allclose(q[:, :2], twins.min(dim=0).values[:, :2].numpy(), rtol=1e-5)
    assert (q[:, 2] == 0).all()


def test_permuting_candidates_permutes_scores(network, rows) -> None:
    critic, order = Critic(network), np.array([3, 1, 4, 0, 2])
    np.testing.assert_allclose(
        critic.terminal(rows["terminal"][order]),
        critic.terminal(rows["terminal"])[order],
        rtol=1e-5,
    )


def test_no_rows_give_no_scores(network, spec) -> None:
    critic = Critic(network)
    assert critic.terminal(np.zeros((0, spec.n_state + spec.n_relative), np.float32)).shape == (0,)
    assert critic.value(np.zeros((0, spec.n_state), np.float32)).shape == (0, 3)


def test_many_rows_are_scored_like_few(network, rows) -> None:
    critic, x = Critic(network), np.tile(rows["terminal"], (1000, 1))
    np.testing.assert_allclose(
        critic.terminal(x)[-5:], critic.terminal(rows["terminal"]), rtol=1e-4
    )


@pytest.mark.parametrize("name", ["terminal", "value", "q", "policy"])
def test_rows_of_another_width_are_refused(network, rows, name: str) -> None:
    wrong = np.zeros((2, 3), dtype=np.float32)
    arguments = (wrong, rows["action"]) if name == "q" else (wrong,)
    with pytest.raises(FeatureSchemaMismatch, match="width"):
        getattr(Critic(network), name)(*arguments)


def _rename(folder) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["other"] = weights.pop("return_shift")
    save_file(weights, folder / WEIGHTS)


def _drop(folder) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights["q_mlp.weights.0"]
    save_file(weights, folder / WEIGHTS)


def _reshape(folder) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["return_shift"] = weights["return_shift"][:1].clone()
    save_file(weights, folder / WEIGHTS)


def _retype(folder) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["return_shift"] = weights["return_shift"].double()
    save_file(weights, folder / WEIGHTS)


def _poison(folder) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["value_mlp.weights.0"][0, 0, 0] = float("nan")
    save_file(weights, folder / WEIGHTS)


def _infinite(folder) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["terminal_mlp.biases.0"][0, 0, 0] = float("inf")
    save_file(weights, folder / WEIGHTS)


def _truncate(folder) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])


def _huge_header(folder) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", 1 << 40) + content[8:])


def _huge_file(folder) -> None:
    with (folder / WEIGHTS).open("ab") as sink:
        sink.truncate(1 << 26)


def _pickle(folder) -> None:
    (folder / WEIGHTS).write_bytes(pickle.dumps({"return_shift": [0.0]}))


def _empty(folder) -> None:
    (folder / WEIGHTS).write_bytes(b"")


def _missing(folder) -> None:
    (folder / WEIGHTS).unlink()


def _no_network(folder) -> None:
    (folder / NETWORK).unlink()


def _edit(**changes):
    def edit(folder) -> None:
        content = json.loads((folder / NETWORK).read_text())
        content.update(changes)
        (folder / NETWORK).write_text(json.dumps(content))

    return edit


def _not_json(folder) -> None:
    (folder / NETWORK).write_text("{")


def _long_json(folder) -> None:
    (folder / NETWORK).write_text(" " * (2 << 20))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_rename, "unknown|missing"),
        (_drop, "q_mlp.weights.0 is missing"),
        (_reshape, r"return_shift is .* of shape \(1,\)"),
        (_retype, "float64"),
        (_poison, "not finite"),
        (_infinite, "not finite"),
        (_truncate, "not a safetensors file"),
        (_huge_header, "header claims"),
        (_huge_file, "more than"),
        (_pickle, "header claims|not a safetensors"),
        (_empty, "header claims"),
        (_missing, "cannot be read"),
        (_no_network, "cannot be read"),
        (_not_json, "network.json"),
        (_long_json, "larger than"),
        (_edit(hidden_sizes=[32]), "shape"),
        (_edit(n_state=7), "shape"),
        (_edit(n_members=3), "shape"),
        (_edit(n_state=1 << 20), "n_state"),
        (_edit(n_state=-1), "n_state"),
        (_edit(n_state="6"), "n_state"),
        (_edit(hidden_sizes=[1 << 20]), "hidden size"),
        (_edit(components=["one"]), "differ in length"),
        (_edit(weights=[1.0, 2.0, 1e999]), "finite|JSON|weights"),
        (_edit(module="os.system"), "module"),
    ],
)
def test_a_damaged_model_is_refused_with_the_reason(folder, damage, message: str) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=message):
        load_critic(folder)
