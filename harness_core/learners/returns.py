"""Returns of trajectories: which components count, λ-returns and plain discounted sums.

What a null component means is decided here: null on every row of a trajectory, the component does
not apply to it and is masked; null on some rows only, those rows pay 0.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from harness_core.features.batch import Flags, Floats, Integers, TransitionArrays
from harness_core.learners.networks import NetworkSpec
from harness_core.rewards.table import COMPONENTS, OF_THE_END

_ROWS_AT_ONCE: Final = 1 << 16


def component_mask(rewards: Floats, trajectory: Integers) -> Flags:
    """Which components of `rewards` [N, C] are learnt, [N, C]: those with any value in the run.

    `trajectory` [N] is ascending.
    """
    if not len(trajectory):
        return np.zeros(rewards.shape, dtype=np.bool_)
    starts = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
    any_value = np.logical_or.reduceat(~np.isnan(rewards), starts, axis=0)
    lengths = np.diff(np.append(starts, len(trajectory)))
    mask: Flags = np.repeat(any_value, lengths, axis=0)
    return mask


def discounted_returns(rewards: Floats, discount: Floats, trajectory: Integers) -> Floats:
    """Σ γᵏ r_(t+k) to the end of each trajectory, [N, C]; nothing is assumed after a truncation."""
    if not len(trajectory):
        return np.zeros(rewards.shape, dtype=np.float32)
    starts = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
    continues = np.append(trajectory[1:] == trajectory[:-1], False)
    paid = torch.from_numpy(np.nan_to_num(rewards).astype(np.float64))
    returns = lambda_returns(
        paid,
        torch.from_numpy(discount.astype(np.float64) * continues),
        torch.zeros_like(paid),
        torch.from_numpy(continues),
        return_lambda=1.0,
        longest=int(np.diff(np.append(starts, len(trajectory))).max()),
    )
    return np.asarray(returns.numpy(), dtype=np.float32)


def total_returns(returns: Floats, spec: NetworkSpec) -> Floats:
    """Sum over the components that count, [N] from [N, C], in units of the largest weight.

    A run that earns its dearest component once, and nothing else, has a return of about 1.
    """
    counts = np.asarray(spec.sum_weight, dtype=np.float32)
    unit = max((abs(weight) for weight in spec.weights), default=0.0) or 1.0
    return np.asarray(returns @ counts / np.float32(unit), dtype=np.float32)


def return_advantage(total: Floats, trajectory: Integers, task_id: npt.NDArray[np.str_]) -> Floats:
    """Return of the run a row belongs to, minus the mean over the runs of its task, [N].

    Every step of a run has the same: Yi & Song (2026) give no credit to single steps. A task with
    one run has 0. `trajectory` [N] is ascending.
    """
    if not len(trajectory):
        return np.zeros(0, dtype=np.float32)
    starts = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
    _, task = np.unique(task_id[starts], return_inverse=True)
    of_run = total[starts].astype(np.float64)
    mean = np.bincount(task, weights=of_run) / np.bincount(task)
    lengths = np.diff(np.append(starts, len(trajectory)))
    return np.repeat(of_run - mean[task], lengths).astype(np.float32)


def linked_rows(state: Floats, next_state: Floats) -> Flags:
    """Rows whose next state is the state of the row below, [N].

    V of such a next state is V of that row, which is computed anyway. A bounded number of rows at a
    time, since the tables may be larger than memory.
    """
    linked = np.zeros(len(state), dtype=np.bool_)
    for first in range(0, len(state) - 1, _ROWS_AT_ONCE):
        below = state[first + 1 : first + 1 + _ROWS_AT_ONCE]
        rows = slice(first, first + len(below))
        linked[rows] = (next_state[rows] == below).all(axis=1)
    return linked


def lambda_returns(
    rewards: Tensor,
    discount: Tensor,
    next_value: Tensor,
    continues: Tensor,
    *,
    return_lambda: float,
    longest: int,
) -> Tensor:
    """λ-returns of trajectories one after another, [N, C] as rewards and next values are.

    G_t = r_t + γ_t · ((1 − λ) · V(s_(t+1)) + λ · G_(t+1)), and after the last row G is V: a run
    that ended has a discount of 0 there, a truncated one bootstraps. λ = 1 is Monte Carlo, λ = 0
    one-step TD (Sutton & Barto, 2018, §12.1). `discount` [N]; `continues` [N] is False in the last
    row of each trajectory, the longest of which has `longest` rows.

    All rows at once, reaching twice as far each time (Hillis & Steele, 1986).
    """
    carry = discount * continues * return_lambda
    returns = torch.addcmul(rewards, (discount - carry)[:, None], next_value)
    reach = 1
    while return_lambda and reach < longest:
        returns[:-reach] += carry[:-reach, None] * returns[reach:]
        # Beyond the last row nothing is carried on.
        carry = functional.pad(carry[:-reach] * carry[reach:], (0, reach))
        reach *= 2
    return returns


def outcome_by_row(arrays: TransitionArrays, components: Sequence[str] = COMPONENTS) -> Floats:
    """Final outcome of the run that each row belongs to, [N] in [0, 1]; NaN where it is unknown.

    `components` are the names of the columns of `arrays.rewards`.
    """
    columns = [components.index(name) for name in OF_THE_END if name in components]
    last = np.flatnonzero(is_last(arrays.trajectory))
    reward = arrays.rewards[last][:, columns]
    known = ~np.isnan(reward).all(axis=1)
    outcome = np.where(np.isnan(reward), -np.inf, reward).max(axis=1, initial=-np.inf)
    found = np.where(known, outcome, np.nan).astype(np.float32)
    return np.repeat(found, np.diff(last, prepend=-1))


def is_last(trajectory: Integers) -> Flags:
    """Which rows are the last of their trajectory, [N]."""
    return np.append(trajectory[1:] != trajectory[:-1], True)[: len(trajectory)]
