"""The contract of every learner, and the mathematics of each."""

import numpy as np
import pytest
import torch

from harness_core.features.batch import TransitionArrays
from harness_core.learners.catalogue import LEARNERS
from harness_core.learners.checkpoint import Critic
from harness_core.learners.data import (
    TrainingData,
    TransitionPool,
    group_pool,
    transition_pool,
)
from harness_core.learners.iql import Iql
from harness_core.learners.module import ControllerModule
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.learners.trainer import fit
from harness_core.trajectories.vocabulary import ActionKind, GroupKind

N_KINDS = len(ActionKind)


@pytest.fixture
def data(world, spec, config, set_relative) -> TrainingData:
    attempts, steps = (
        group_pool(world.groups, kind=kind, set_relative=set_relative, group_sizes=(2, 4), seed=0)
        for kind in (GroupKind.ATTEMPT, GroupKind.STEP)
    )
    transitions = transition_pool(world.arrays, spec, batch_size=config.batch_size)
    return TrainingData(transitions=transitions, attempts=attempts, steps=steps)


@pytest.fixture
def batch(data, config):
    return data.draw(config, np.random.default_rng(0))


@pytest.fixture
def trained(data, spec, config):
    def train(name: str) -> Critic:
        return Critic(fit(data, spec, config.model_copy(update={"learner": name}), seed=0).network)

    return train


@pytest.mark.parametrize("name", LEARNERS)
def test_the_value_receives_a_gradient(name: str, batch, spec, config) -> None:
    network = CriticNetwork(spec)
    target_q = network.q(batch.transitions.state, batch.transitions.action).amin(dim=0).detach()
    LEARNERS[name].value_loss(network, target_q + 1.0, batch.transitions, config).backward()
    gradients = [parameter.grad for parameter in network.value_mlp.parameters()]
    assert all(gradient is not None for gradient in gradients)
    assert any((gradient != 0).any() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_critic_loss_moves_both_twins_and_not_the_value(name: str, batch, spec, config) -> None:
    network = CriticNetwork(spec)
    LEARNERS[name].critic_loss(network, batch, config).backward()
    last = network.q_mlp.weights[-1].grad
    assert last is not None
    assert (last.flatten(1).abs().sum(dim=1) > 0).all()
    assert all(parameter.grad is None for parameter in network.value_mlp.parameters())


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_finds_the_good_attempts(
    name: str, trained, world, spec, set_relative
) -> None:
    critic = trained(name)
    group = world.groups[0]
    logits = critic.terminal(np.hstack([group.after, set_relative(group.signals)]))
    assert np.corrcoef(logits, group.success)[0, 1] > 0.5
    assert critic.value(group.after).shape == (group.size, len(spec.components))
    assert np.exp(critic.policy(group.after)).sum(axis=1) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", ["iql", "mc"])
def test_values_of_end_states_tell_solved_from_unsolved_in_weighted_units(
    name: str, data, world, spec, config
) -> None:
    # V of IQL follows the target network, which has to arrive within these few updates.
    iql = config.iql.model_copy(update={"polyak": 0.05})
    update = {"learner": name, "max_updates": 150, "check_every": 150, "dropout": 0.0, "iql": iql}
    fitted = fit(data, spec, config.model_copy(update=update), seed=0)
    last = world.arrays.discount == 0
    values = Critic(fitted.network).value(world.arrays.state[last])[:, 0]
    solved = world.arrays.rewards[last, 0] == 1.0
    # A solved attempt is worth its weight, 10; an unsolved one nothing.
    assert values[solved].mean() - values[~solved].mean() > 4.0


def test_behaviour_cloning_prefers_what_the_agent_does(config) -> None:
    """In state i the agent always takes kind i, and is never paid for it."""
    n, kinds = 64, 4
    spec = _tiny_spec(n_state=kinds)
    index = np.arange(n) % kinds
    arrays = _single_steps(
        state=np.eye(kinds, dtype=np.float32)[index], kind=index, reward=np.zeros(n)
    )
    settings = config.model_copy(update={"learner": "bc", "max_updates": 100, "dropout": 0.0})
    fitted = fit(_only(transition_pool(arrays, spec, batch_size=n)), spec, settings, seed=0)
    critic, states = Critic(fitted.network), np.eye(kinds, dtype=np.float32)
    scores = np.stack(
        [
            critic.q(states, np.tile(np.eye(N_KINDS, dtype=np.float32)[kind], (kinds, 1)))[:, 0]
            for kind in range(kinds)
        ],
        axis=1,
    )
    assert scores.argmax(axis=1).tolist() == list(range(kinds))


def test_a_component_that_no_run_has_moves_nothing_and_predicts_zero(data, spec, config) -> None:
    network = CriticNetwork(spec)
    batch = data.draw(config, np.random.default_rng(0))
    assert not batch.transitions.mask[:, 2].any()
    Iql().critic_loss(network, batch, config).backward()
    last = network.q_mlp.weights[-1].grad
    assert last is not None
    assert (last[..., 2] == 0).all()
    assert (last[..., 0] != 0).any()
    fitted = fit(data, spec, config, seed=0).network
    assert (fitted.value(batch.transitions.state)[:, 2] == 0).all()


def test_doubling_a_weight_doubles_what_that_component_is_worth_and_nothing_else(
    world, spec, config, data
) -> None:
    doubled = spec.model_copy(update={"weights": (20.0, *spec.weights[1:])})
    one, two = (
        Critic(
            fit(
                TrainingData(
                    transitions=transition_pool(world.arrays, s, batch_size=32),
                    attempts=data.attempts,
                    steps=None,
                ),
                s,
                config,
                seed=0,
            ).network
        ).value(world.arrays.state)
        for s in (spec, doubled)
    )
    np.testing.assert_allclose(two[:, 0], 2 * one[:, 0], rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(two[:, 1:], one[:, 1:])


def test_an_update_trains_the_value_then_the_critic_on_the_new_value(spec, config, data) -> None:
    seen: dict[str, torch.Tensor] = {}

    class Spy(Iql):
        def value_loss(self, network, target_q, batch, config):
            seen["value before"] = network.value_mlp.weights[-1].detach().clone()
            seen["critic before"] = network.q_mlp.weights[-1].detach().clone()
            return super().value_loss(network, target_q, batch, config)

        def critic_loss(self, network, batch, config):
            seen["value at critic"] = network.value_mlp.weights[-1].detach().clone()
            seen["critic at critic"] = network.q_mlp.weights[-1].detach().clone()
            return super().critic_loss(network, batch, config)

    network = CriticNetwork(spec)
    # Last layers start at zero, where Q equals V and V has nothing to learn.
    torch.nn.init.normal_(network.q_mlp.weights[-1])
    module = ControllerModule(network, Spy(), config, seed=0)
    target = module.target.weights[-1].clone()
    _update(module, data.draw(config, np.random.default_rng(0)))
    after = module.network
    assert not torch.equal(seen["value before"], seen["value at critic"])
    assert torch.equal(seen["value at critic"], after.value_mlp.weights[-1])
    assert torch.equal(seen["critic before"], seen["critic at critic"])
    # The target moves last, towards the new critic.
    expected = target.lerp(after.q_mlp.weights[-1].detach(), config.iql.polyak)
    torch.testing.assert_close(module.target.weights[-1], expected)
    assert int(module.n_updates) == 1


def _update(module: ControllerModule, batch) -> None:
    """One training step without Lightning's loop."""
    module.update(batch, *module.configure_optimizers())


def _chain(n_states: int = 5) -> TransitionArrays:
    """Random walks: stepping off the right end pays 1, off the left end 0.3; both end the run."""
    rng = np.random.default_rng(0)
    rows = []
    for trajectory in range(150):
        state = int(rng.integers(n_states))
        for _ in range(40):
            action = int(rng.integers(2))
            following = state + (1 if action else -1)
            ends = not 0 <= following < n_states
            reward = 1.0 if following == n_states else 0.3 if following < 0 else 0.0
            rows.append((trajectory, state, action, -1 if ends else following, reward, ends))
            if ends:
                break
            state = following
    table = np.asarray(rows)
    trajectory, states, actions, followings = table[:, :4].astype(np.int64).T
    rewards, ended = table[:, 4].astype(np.float32), table[:, 5].astype(np.bool_)
    one_hot = np.eye(n_states + 1, n_states, dtype=np.float32)
    return TransitionArrays(
        trajectory=trajectory,
        step_index=np.zeros_like(trajectory),
        state=one_hot[states],
        action=np.eye(2, N_KINDS, dtype=np.float32)[actions],
        next_state=np.where(ended[:, None], 0.0, one_hot[followings]).astype(np.float32),
        rewards=rewards[:, None],
        discount=np.where(ended, 0.0, 0.9).astype(np.float32),
        fold=np.zeros_like(trajectory),
        split=np.full(len(states), "train"),
        task_id=np.full(len(states), "chain"),
    )


@pytest.mark.parametrize("return_lambda", [0.0, 0.3])
def test_iql_solves_a_chain_of_five_states(config, return_lambda: float) -> None:
    spec = _tiny_spec(n_state=5).model_copy(update={"hidden_sizes": (32,)})
    iql = config.iql.model_copy(
        update={"expectile": 0.95, "return_lambda": return_lambda, "polyak": 0.05}
    )
    settings = config.model_copy(
        update={"dropout": 0.0, "max_updates": 500, "check_every": 500, "iql": iql}
    )
    pool = transition_pool(_chain(), spec, batch_size=64)
    fitted = fit(_only(pool), spec, settings, seed=0)
    states = np.eye(5, dtype=np.float32)
    left, right = (
        Critic(fitted.network).q(states, np.tile(np.eye(N_KINDS, dtype=np.float32)[a], (5, 1)))
        for a in (0, 1)
    )
    # Optimal values of 'right' are 0.9 to the power of the steps that are left: 0.656 … 1.
    assert (right > left).all()
    np.testing.assert_allclose(right[:, 0], 0.9 ** np.arange(4, -1, -1), atol=0.15)


def _only(pool: TransitionPool) -> TrainingData:
    return TrainingData(transitions=pool, attempts=None, steps=None)


def _tiny_spec(*, n_state: int) -> NetworkSpec:
    return NetworkSpec(
        n_state=n_state,
        n_action=N_KINDS,
        n_relative=0,
        hidden_sizes=(8,),
        n_members=1,
        components=("pay",),
        weights=(1.0,),
    )


def _single_steps(*, state, kind, reward) -> TransitionArrays:
    """Runs of one step each."""
    n = len(reward)
    return TransitionArrays(
        trajectory=np.arange(n),
        step_index=np.zeros(n, dtype=np.int64),
        state=state,
        action=np.eye(N_KINDS, dtype=np.float32)[kind],
        next_state=np.zeros_like(state),
        rewards=np.asarray(reward, dtype=np.float32)[:, None],
        discount=np.zeros(n, dtype=np.float32),
        fold=np.zeros(n, dtype=np.int64),
        split=np.full(n, "train"),
        task_id=np.full(n, "toy"),
        intervention=np.asarray(kind),
        legal=np.ones((n, N_KINDS), dtype=np.bool_),
    )


def _coin(config, **iql: float) -> Critic:
    """Two kinds, equally often, one of which pays 1."""
    spec, outcome = _tiny_spec(n_state=1), np.tile([0, 1], 32)
    arrays = _single_steps(state=np.ones((64, 1), dtype=np.float32), kind=outcome, reward=outcome)
    settings = config.model_copy(
        update={
            "dropout": 0.0,
            "weight_decay": 0.0,
            "batch_size": 64,
            "max_updates": 300,
            "check_every": 300,
            "iql": config.iql.model_copy(update={"polyak": 0.1, **iql}),
        }
    )
    pool = transition_pool(arrays, spec, batch_size=64)
    return Critic(fit(_only(pool), spec, settings, seed=0).network)


@pytest.mark.parametrize("expectile", [0.7, 0.9])
def test_the_value_network_lands_on_the_expectile_of_a_coin(config, expectile: float) -> None:
    value = _coin(config, expectile=expectile).value(np.ones((1, 1), dtype=np.float32))
    assert float(value[0, 0]) == pytest.approx(expectile, abs=0.05)


@pytest.mark.parametrize(
    ("inverse_temperature", "low", "high"),
    [
        pytest.param(0.0, 0.45, 0.55, id="behaviour cloning"),
        pytest.param(3.0, 0.85, 1.0, id="sharp"),
    ],
)
def test_the_actor_prefers_the_paid_kind_as_far_as_its_temperature_says(
    config, inverse_temperature: float, low: float, high: float
) -> None:
    critic = _coin(config, expectile=0.5, inverse_temperature=inverse_temperature)
    policy = np.exp(critic.policy(np.ones((1, 1), dtype=np.float32)))
    assert low <= float(policy[0, 1]) <= high
