"""Returns of trajectories: which components count, λ-returns and plain discounted sums.

What a null component means is decided here: null on every row of a trajectory, the component does
not apply to it and is masked; null on some rows only, those rows pay 0.
"""

import numpy as np
import torch
from torch import Tensor

from harness_core.features.batch import Flags, Floats, Integers


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
    returns = np.nan_to_num(rewards).astype(np.float64)
    for row in range(len(returns) - 2, -1, -1):
        if trajectory[row] == trajectory[row + 1]:
            returns[row] += discount[row] * returns[row + 1]
    return returns.astype(np.float32)


def lambda_returns(
    rewards: Tensor, discount: Tensor, next_value: Tensor, valid: Tensor, *, return_lambda: float
) -> Tensor:
    """λ-returns of padded trajectories, [B, T, C] from rewards and next values of that shape.

    G_t = r_t + γ_t · ((1 − λ) · V(s_(t+1)) + λ · G_(t+1)), and after the last row G is V: a run
    that ended has a discount of 0 there, a truncated one bootstraps. λ = 1 is Monte Carlo, λ = 0
    one-step TD (Sutton & Barto, 2018, §12.1). `discount` and `valid` are [B, T]; rows that are not
    valid follow all valid ones.
    """
    n_steps = rewards.shape[1]
    returns = torch.zeros_like(rewards)
    following = next_value[:, -1]
    for step in range(n_steps - 1, -1, -1):
        value = next_value[:, step]
        if step + 1 < n_steps:
            mixed = (1.0 - return_lambda) * value + return_lambda * following
            value = torch.where(valid[:, step + 1, None], mixed, value)
        following = rewards[:, step] + discount[:, step, None] * value
        returns[:, step] = following
    return returns
