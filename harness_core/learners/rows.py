"""Rows of tables: which ones a piece is made of, and those of two tables side by side."""

from typing import cast

import numpy as np
import torch
from torch import Tensor

from harness_core.features.batch import Integers


def cut_into_pieces(trajectory: Integers, *, longest: int) -> tuple[Integers, Integers]:
    """Start and length of runs of equal numbers, cut to at most `longest` rows."""
    if not len(trajectory):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    runs = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
    ends = np.append(runs[1:], len(trajectory))
    start = np.concatenate([np.arange(a, b, longest) for a, b in zip(runs, ends, strict=True)])
    length = np.diff(np.append(start, len(trajectory)))
    return start, length


def ranges(start: Integers, length: Integers) -> Integers:
    """start[0], …, start[0] + length[0] − 1, start[1], … as one array."""
    total = int(length.sum())
    offset = np.repeat(start - (np.cumsum(length) - length), length)
    return cast("Integers", offset + np.arange(total))


def side_by_side(left: Tensor, at: Tensor, right: Tensor, right_at: Tensor) -> Tensor:
    """Rows of two tables in one, [N, both widths]."""
    n_left = left.shape[1]
    pair = left.new_empty((len(at), n_left + right.shape[1]))
    torch.index_select(left, 0, at, out=pair[:, :n_left])
    torch.index_select(right, 0, right_at, out=pair[:, n_left:])
    return pair
