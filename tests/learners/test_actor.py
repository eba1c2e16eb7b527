"""Three ways to learn interventions, under the legal mask."""

import numpy as np
import pytest
import torch

from harness_core.features.batch import TransitionArrays
from harness_core.learners.actor import cloning_loss, return_weights
from harness_core.learners.checkpoint import Critic
from harness_core.learners.data import TrainingData, transition_pool
from harness_core.learners.losses import awr_weights
from harness_core.learners.networks import N_KINDS, CriticNetwork, NetworkSpec
from harness_core.learners.returns import return_advantage, total_returns
from harness_core.learners.trainer import fit
from harness_core.trajectories.vocabulary import ActionKind

KINDS = list(ActionKind)
TEST, RETRY, SUBMIT = (
    KINDS.index(k) for k in (ActionKind.TEST, ActionKind.RETRY, ActionKind.SUBMIT)
)


def test_weights_of_returns_are_clipped_at_a_tenth_and_at_ten() -> None:
    weights = return_weights(torch.tensor([-1.0, 0.0, 0.2, 1.0]))
    assert weights.tolist() == pytest.approx([0.1, 1.0, np.e, 10.0], rel=1e-5)


def test_with_equal_weights_the_loss_is_the_negative_log_likelihood_of_known_steps() -> None:
    log_probability = torch.tensor([-0.5, -1.5, -9.0])
    known = torch.tensor([True, True, False])
    loss = cloning_loss(log_probability, torch.ones(3), known)
    assert float(loss) == pytest.approx(1.0)


def test_without_inverse_temperature_awr_is_behaviour_cloning() -> None:
    log_probability = torch.tensor([-0.1, -2.0, -0.7])
    weight = awr_weights(torch.tensor([5.0, -3.0, 0.0]), 0.0)
    loss = cloning_loss(log_probability, weight, torch.ones(3, dtype=torch.bool))
    assert float(loss) == pytest.approx(float(-log_probability.mean()))


def test_the_advantage_of_a_run_is_its_return_minus_the_mean_of_its_tasks_runs() -> None:
    trajectory = np.array([0, 0, 1, 2])
    total = np.array([1.0, 0.7, 0.0, 0.4], dtype=np.float32)
    task = np.array(["a", "a", "a", "b"])
    found = return_advantage(total, trajectory, task)
    assert found.tolist() == pytest.approx([0.5, 0.5, -0.5, 0.0])


def test_a_run_that_earns_its_dearest_component_has_a_return_of_one(spec) -> None:
    returns = np.array([[10.0, 0.0, 3.0], [0.0, -0.5, 0.0]], dtype=np.float32)
    # The third component has weight 0: it does not count.
    assert total_returns(returns, spec).tolist() == pytest.approx([1.0, -0.05])


def test_an_illegal_intervention_has_no_probability(spec) -> None:
    network = CriticNetwork(spec)
    for weight in network.actor_mlp.parameters():
        torch.nn.init.normal_(weight, std=5.0, generator=torch.Generator().manual_seed(0))
    state = np.random.default_rng(0).normal(size=(50, spec.n_state)).astype(np.float32)
    legal = np.random.default_rng(1).random((50, N_KINDS)) < 0.4
    legal[:, SUBMIT] = True
    policy = np.exp(Critic(network).policy(state, legal))
    assert (policy[~legal] == 0.0).all()
    assert policy.sum(axis=1) == pytest.approx(1.0, abs=1e-5)


def _runs(reward: list[float], intervention: list[int]) -> TransitionArrays:
    """Runs of one step each at one task, in one state."""
    n = len(reward)
    return TransitionArrays(
        trajectory=np.arange(n),
        step_index=np.zeros(n, dtype=np.int64),
        state=np.ones((n, 1), dtype=np.float32),
        action=np.eye(N_KINDS, dtype=np.float32)[np.maximum(intervention, 0)],
        next_state=np.zeros((n, 1), dtype=np.float32),
        rewards=np.asarray(reward, dtype=np.float32)[:, None],
        discount=np.zeros(n, dtype=np.float32),
        fold=np.zeros(n, dtype=np.int64),
        split=np.full(n, "train"),
        task_id=np.full(n, "toy"),
        intervention=np.asarray(intervention),
        legal=np.isin(np.arange(N_KINDS), [TEST, RETRY, SUBMIT])[None, :].repeat(n, axis=0),
    )


def _policy(config, arrays: TransitionArrays, **settings) -> np.ndarray:
    spec = NetworkSpec(
        n_state=1,
        n_action=N_KINDS,
        n_relative=0,
        hidden_sizes=(8,),
        n_members=1,
        components=("pay",),
        weights=(1.0,),
    )
    train = config.model_copy(
        update={
            "dropout": 0.0,
            "batch_size": 64,
            "max_updates": 200,
            "check_every": 200,
            **settings,
        }
    )
    data = TrainingData(
        transitions=transition_pool(arrays, spec, batch_size=64), attempts=None, steps=None
    )
    critic = Critic(fit(data, spec, train, seed=0).network)
    return np.exp(critic.policy(arrays.state[:1], arrays.legal[:1]))[0]


@pytest.mark.parametrize(
    ("actor", "low", "high"),
    [
        pytest.param("bc", 0.45, 0.55, id="as often as in the log"),
        pytest.param("awr", 0.75, 1.0, id="advantage of the critic"),
        # A = ±0.5: exp(±2.5), the ceiling 10 and the floor 0.1: 10 / 10.1.
        pytest.param("awr_returns", 0.9, 1.0, id="advantage of returns"),
    ],
)
def test_the_paid_intervention_is_preferred_as_far_as_the_actor_weighs_it(
    config, actor: str, low: float, high: float
) -> None:
    arrays = _runs([0.0, 1.0] * 32, [RETRY, SUBMIT] * 32)
    policy = _policy(config, arrays, actor=actor)
    assert low <= policy[SUBMIT] / (policy[SUBMIT] + policy[RETRY]) <= high
    assert policy[SUBMIT] + policy[RETRY] + policy[TEST] == pytest.approx(1.0, abs=1e-5)


def test_a_step_whose_intervention_is_unknown_moves_nothing(config) -> None:
    known = _runs([0.0, 1.0] * 32, [RETRY, SUBMIT] * 32)
    mixed = _runs([0.0, 1.0] * 32, [RETRY, -1] * 32)
    assert _policy(config, known, actor="bc")[RETRY] < 0.6
    assert _policy(config, mixed, actor="bc")[RETRY] > 0.8
