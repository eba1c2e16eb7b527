"""Fitted Q evaluation against values that are known in closed form."""

import numpy as np
import pytest

from harness_core.errors import DataError
from harness_core.evaluation.off_policy import (
    LoggedTransitions,
    fitted_q_evaluation,
    policy_values,
    table_features,
)

N_STATES, N_ACTIONS, DISCOUNT = 4, 2, 0.9


@pytest.fixture
def mdp():
    """Random transitions and rewards of two components."""
    rng = np.random.default_rng(0)
    # Probabilities in tenths, so that a log can hold them exactly as counts.
    counts = np.stack(
        [
            [rng.multinomial(10, np.ones(N_STATES) / N_STATES) for _ in range(N_ACTIONS)]
            for _ in range(N_STATES)
        ]
    )
    return {
        "counts": counts,
        "transition": counts / 10.0,  # [S, A, S']
        "reward": rng.normal(size=(N_STATES, N_ACTIONS, 2)),
        "policy": rng.dirichlet(np.ones(N_ACTIONS), size=N_STATES),  # [S, A]
    }


def _log(mdp) -> LoggedTransitions:
    rows = [
        (s, a, following)
        for s in range(N_STATES)
        for a in range(N_ACTIONS)
        for following in range(N_STATES)
        for _ in range(mdp["counts"][s, a, following])
    ]
    state, action, following = np.asarray(rows).T
    return LoggedTransitions(
        features=table_features(state, np.eye(N_ACTIONS)[action], n_states=N_STATES),
        rewards=mdp["reward"][state, action],
        discount=np.full(len(rows), DISCOUNT),
        next_features=table_features(following, mdp["policy"][following], n_states=N_STATES),
    )


def _exact_q(mdp) -> np.ndarray:
    """Q = (I − γ P π)⁻¹ r, [S · A, 2]."""
    size = N_STATES * N_ACTIONS
    to_pair = mdp["transition"].reshape(size, N_STATES)[:, :, None] * mdp["policy"]
    system = np.eye(size) - DISCOUNT * to_pair.reshape(size, size)
    return np.linalg.solve(system, mdp["reward"].reshape(size, 2))


def test_fitted_q_evaluation_equals_the_exact_value(mdp) -> None:
    fitted = fitted_q_evaluation(_log(mdp))
    np.testing.assert_allclose(fitted.weights, _exact_q(mdp), atol=1e-6)
    assert fitted.residual < 1e-9


def test_the_value_of_a_state_is_the_mean_of_q_under_the_policy(mdp) -> None:
    fitted = fitted_q_evaluation(_log(mdp))
    states = np.arange(N_STATES)
    values = policy_values(fitted, table_features(states, mdp["policy"][states], n_states=N_STATES))
    q = _exact_q(mdp).reshape(N_STATES, N_ACTIONS, 2)
    np.testing.assert_allclose(values, (mdp["policy"][:, :, None] * q).sum(axis=1), atol=1e-6)


def test_evaluating_the_behaviour_policy_on_a_finished_task_gives_its_mean_return() -> None:
    """One state, one action that always ends: worth is the mean reward."""
    rewards = np.array([[1.0], [0.0], [1.0], [1.0]])
    ones, zeros = np.ones((4, 1)), np.zeros((4, 1))
    fitted = fitted_q_evaluation(LoggedTransitions(ones, rewards, np.zeros(4), zeros))
    assert fitted.weights[0, 0] == pytest.approx(0.75)


def test_components_are_evaluated_independently(mdp) -> None:
    log = _log(mdp)
    one = fitted_q_evaluation(log._replace(rewards=log.rewards[:, :1]))
    both = fitted_q_evaluation(log)
    np.testing.assert_allclose(both.weights[:, :1], one.weights, atol=1e-8)


def test_what_was_never_logged_stays_at_zero(mdp) -> None:
    log = _log(mdp)
    seen = log.features[:, 0] == 0
    fitted = fitted_q_evaluation(LoggedTransitions(*(array[seen] for array in log)))
    assert fitted.weights[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"rewards": np.full((80, 2), np.nan)}, id="unknown reward"),
        pytest.param({"discount": np.zeros(3)}, id="other length"),
    ],
)
def test_unusable_logs_are_refused(mdp, change) -> None:
    with pytest.raises(DataError, match="off-policy"):
        fitted_q_evaluation(_log(mdp)._replace(**change))
