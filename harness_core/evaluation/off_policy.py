"""Worth of a policy that was never run, from logs of another: fitted Q evaluation.

Q is linear in features: Q(s, a) = φ(s, a) · w. With one feature a state and action it is a table
and the result is exact (up to sampling); else it is the best fit in the span of the features.
Letters: N transitions, M initial states, D features, C reward components.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness_core.errors import DataError

Doubles = npt.NDArray[np.float64]

_TOLERANCE = 1e-9


class LoggedTransitions(NamedTuple):
    """What the behaviour policy did, in the features of a linear Q."""

    features: Doubles  # [N, D] φ(s, a) of the action taken
    rewards: Doubles  # [N, C]
    discount: Doubles  # [N]; 0 after termination
    next_features: Doubles  # [N, D] Σ_a π(a | s') φ(s', a) under the policy that is evaluated


class FittedQ(NamedTuple):
    """The linear Q of the evaluated policy."""

    weights: Doubles  # [D, C]
    n_iterations: int
    residual: float
    """Largest change of a weight in the last iteration; above 1e-9 it has not converged."""


def fitted_q_evaluation(
    logged: LoggedTransitions, *, n_iterations: int = 1000, ridge: float = 1e-8
) -> FittedQ:
    """Regress r + γ Q_k(s', π) on φ(s, a) until Q stands still (Le et al., 2019, algorithm 3).

    Raises:
        DataError: arrays of different lengths, values that are not finite, or no transition.
    """
    _check(logged)
    features, rewards, discount, next_features = logged
    n_features = features.shape[1]
    gram = features.T @ features + ridge * np.eye(n_features)
    # w ← A w + b, where A and b do not depend on w: every iteration costs D² instead of N·D.
    step = np.linalg.solve(gram, features.T @ (discount[:, None] * next_features))
    constant = np.linalg.solve(gram, features.T @ rewards)
    weights = np.zeros_like(constant)
    residual, iteration = np.inf, 0
    for iteration in range(1, n_iterations + 1):  # noqa: B007  # the count is reported
        updated = step @ weights + constant
        residual = float(np.abs(updated - weights).max())
        weights = updated
        if residual < _TOLERANCE or not np.isfinite(residual):
            break
    return FittedQ(weights=weights, n_iterations=iteration, residual=residual)


def policy_values(fitted: FittedQ, initial_features: Doubles) -> Doubles:
    """Value of the policy in each initial state, [M, C], from Σ_a π(a | s) φ(s, a) [M, D].

    One row an initial state, so that a bootstrap over tasks gives the interval of their mean.
    """
    values: Doubles = initial_features @ fitted.weights
    return values


def table_features(
    state: npt.NDArray[np.int64], probabilities: Doubles, *, n_states: int
) -> Doubles:
    """φ of a table: rows of π(a | s) [N, A] placed at their state, [N, S · A].

    The action taken is a row that is 1 at that action.
    """
    n_rows, n_actions = probabilities.shape
    table = np.zeros((n_rows, n_states, n_actions))
    table[np.arange(n_rows), state] = probabilities
    return table.reshape(n_rows, -1)


def _check(logged: LoggedTransitions) -> None:
    lengths = {len(array) for array in logged}
    if lengths == {0} or len(lengths) > 1:
        raise DataError(f"off-policy evaluation needs N equal rows, found {sorted(lengths)}")
    for name, array in logged._asdict().items():
        if not np.isfinite(array).all():
            raise DataError(f"off-policy evaluation: {name} holds a value that is not finite")
