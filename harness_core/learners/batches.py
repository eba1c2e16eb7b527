"""What one update learns from: tensors of whole trajectories and of whole decision groups.

Rows of different trajectories (or groups) lie one after another; `Layout` says where each stands in
the padded form. Letters: N rows, B trajectories or groups, T longest of them, Ds/Da/Dr widths,
C components, M negatives.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness_core.features.batch import Integers


class Layout(NamedTuple):
    """How ragged rows are padded and found again."""

    row: Tensor  # [B, T] int64, row of each place; N where there is none
    place: Tensor  # [N] int64, place of each row in the flattened [B · T]

    @property
    def valid(self) -> Tensor:
        """Which places hold a row, [B, T]."""
        return self.row < len(self.place)

    def pad(self, values: Tensor) -> Tensor:
        """Rows [N, ...] in padded form [B, T, ...], zeros where there is none."""
        zero = values.new_zeros((1, *values.shape[1:]))
        return torch.cat([values, zero])[self.row]

    def flatten(self, padded: Tensor) -> Tensor:
        """The inverse of `pad`."""
        return padded.flatten(0, 1)[self.place]

    @classmethod
    def of(cls, lengths: Integers) -> "Layout":
        """The layout of consecutive pieces of these lengths."""
        n_rows, longest = int(lengths.sum()), int(lengths.max(initial=1))
        slot = np.arange(longest)
        starts = np.cumsum(lengths) - lengths
        inside = slot[None, :] < lengths[:, None]
        row = np.where(inside, starts[:, None] + slot[None, :], n_rows)
        return cls(torch.from_numpy(row), torch.from_numpy(np.flatnonzero(inside)))


class TransitionBatch(NamedTuple):
    """Transitions of whole trajectories.

    The state after a row is that of the row below it, or `beyond` has it, or nobody needs it.
    """

    pair: Tensor  # [N, Ds + Da + Dr] float32, state and action side by side
    n_state: int  # Ds
    beyond: Tensor  # [E, Ds] float32
    before_beyond: Tensor  # [E] int64, the row that each follows
    continues: Tensor  # [N] bool; True where the row below is the next step of the same piece
    longest: int  # rows of the longest piece
    rewards: Tensor  # [N, C] float32, weighted; 0 where null
    mask: Tensor  # [N, C] bool; False where a component is not learnt
    discount: Tensor  # [N] float32; 0 after termination
    shift: Tensor  # [M] int64, distances to rows whose actions stand for actions not taken
    n_known: int  # rows whose intervention is known
    intervention: Tensor  # [N] int64, place in `ActionKind`; −1 where unknown
    legal: Tensor  # [N, kinds] bool
    return_advantage: Tensor  # [N] return of the run minus the mean of its task's runs
    value: Tensor | None = None  # [N, C] V of the states, without gradient, where it is known

    @property
    def state(self) -> Tensor:
        """[N, Ds]."""
        return self.pair[:, : self.n_state]

    @property
    def action(self) -> Tensor:
        """[N, Da + Dr]."""
        return self.pair[:, self.n_state :]

    @property
    def negative(self) -> Tensor:
        """Rows whose actions stand for actions not taken here, [N, M] int64."""
        n_rows = len(self.pair)
        rows = torch.arange(n_rows, device=self.shift.device)
        return (rows[:, None] + self.shift) % n_rows


class GroupBatch(NamedTuple):
    """Candidates of whole decision groups."""

    pair: Tensor  # attempts: [state | set-relative]; steps: [state | action | set-relative]
    label: Tensor  # [N] float32 in [0, 1]; 0 where unknown
    known: Tensor  # [N] bool
    taken: Tensor  # [N] bool
    layout: Layout


class Batch(NamedTuple):
    """Everything of one update; a kind of group that the data lack is None."""

    transitions: TransitionBatch
    attempts: GroupBatch | None
    steps: GroupBatch | None
