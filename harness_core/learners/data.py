"""The data of training: pools of transitions and decision groups, and the batches drawn from them.

Update u draws its batch from a generator seeded by (seed, u) alone, so a resumed run sees the
batches that an uninterrupted one would have seen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from harness_core.features.batch import (
    DecisionGroup,
    Flags,
    Floats,
    GroupSignals,
    Integers,
    TransitionArrays,
)
from harness_core.learners.batches import Batch, GroupBatch, Layout, TransitionBatch
from harness_core.learners.config import TrainConfig
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.returns import component_mask, discounted_returns
from harness_core.trajectories.vocabulary import GroupKind

SetRelative = Callable[[GroupSignals], Floats]
"""From the signals of K candidates to their set-relative features [K, Dr]."""

_N_NEGATIVES = 8
_MIN_SUBSETS, _MAX_SUBSETS, _POOL_SUBSETS = 8, 32, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionPool:
    """Transitions in pieces: whole trajectories, cut only where one is longer than a batch."""

    state: Tensor
    action: Tensor
    next_state: Tensor
    rewards: Tensor
    mask: Tensor
    discount: Tensor
    returns: Tensor  # [N, C] discounted sums to the end of the trajectory, weighted
    start: Integers  # [S] first row of each piece
    length: Integers  # [S]

    def restrict(self, rows: Flags) -> "TransitionPool":
        """The pieces whose rows are chosen (all rows of a task are or none)."""
        chosen = rows[self.start]
        return replace(self, start=self.start[chosen], length=self.length[chosen])

    def rows(self) -> Integers:
        """Rows of all pieces."""
        return _ranges(self.start, self.length)

    def draw(self, n_rows: int, rng: np.random.Generator) -> TransitionBatch:
        """Random pieces with about `n_rows` rows together."""
        n_pieces = max(1, round(n_rows / self.length.mean()))
        return self.batch(rng.integers(len(self.start), size=n_pieces), rng)

    def batch(self, pieces: Integers, rng: np.random.Generator) -> TransitionBatch:
        """These pieces as one batch."""
        lengths = self.length[pieces]
        rows = torch.from_numpy(_ranges(self.start[pieces], lengths))
        n_rows = len(rows)
        shift = rng.integers(1, max(n_rows, 2), size=_N_NEGATIVES)
        negative = (np.arange(n_rows)[:, None] + shift[None, :]) % n_rows
        return TransitionBatch(
            state=self.state[rows],
            action=self.action[rows],
            next_state=self.next_state[rows],
            rewards=self.rewards[rows],
            mask=self.mask[rows],
            discount=self.discount[rows],
            negative=torch.from_numpy(negative),
            layout=Layout.of(lengths),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPool:
    """Subsets of decision groups, each with the set-relative features of that very subset."""

    state: Tensor  # [N, Ds] one row a candidate of any group
    source_row: Integers  # [R] row of `state`
    other: Tensor  # [R, X]
    label: Tensor  # [R]
    known: Tensor  # [R]
    taken: Tensor  # [R]
    start: Integers  # [E] first row of each subset
    length: Integers  # [E]
    first: Integers  # [G] first subset of each group
    count: Integers  # [G] subsets of it
    task_id: npt.NDArray[np.str_]  # [G]

    def restrict(self, groups: Flags) -> "GroupPool":
        """The chosen groups."""
        return replace(
            self,
            first=self.first[groups],
            count=self.count[groups],
            task_id=self.task_id[groups],
        )

    def subsets(self) -> Integers:
        """All subsets of all groups."""
        return _ranges(self.first, self.count)

    def rows(self) -> Integers:
        """Rows of all subsets."""
        subsets = self.subsets()
        return _ranges(self.start[subsets], self.length[subsets])

    def draw(self, n_groups: int, rng: np.random.Generator) -> GroupBatch:
        """One random subset of each of `n_groups` random groups."""
        groups = rng.integers(len(self.first), size=n_groups)
        return self.batch(self.first[groups] + rng.integers(self.count[groups]))

    def batch(self, subsets: Integers) -> GroupBatch:
        """These subsets as one batch."""
        lengths = self.length[subsets]
        rows = _ranges(self.start[subsets], lengths)
        index = torch.from_numpy(rows)
        return GroupBatch(
            state=self.state[torch.from_numpy(self.source_row[rows])],
            other=self.other[index],
            label=self.label[index],
            known=self.known[index],
            taken=self.taken[index],
            layout=Layout.of(lengths),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """What one model learns from; a kind of group that is missing is None."""

    transitions: TransitionPool
    attempts: GroupPool | None
    steps: GroupPool | None

    def draw(self, config: TrainConfig, rng: np.random.Generator) -> Batch:
        """The batch of one update."""
        return Batch(
            transitions=self.transitions.draw(config.batch_size, rng),
            attempts=None if self.attempts is None else self.attempts.draw(config.n_groups, rng),
            steps=None if self.steps is None else self.steps.draw(config.n_groups, rng),
        )


class BatchStream(IterableDataset[Batch]):
    """Whole batches of updates from `first()` to `n_updates`, `check_every` of them an epoch."""

    def __init__(
        self,
        data: TrainingData,
        config: TrainConfig,
        *,
        seed: int,
        first: Callable[[], int],
        n_updates: int,
    ) -> None:
        self._data = data
        self._config = config
        self._seed = seed
        self._first = first
        self._n_updates = n_updates

    def __iter__(self) -> Iterator[Batch]:
        first = self._first()
        for update in range(first, min(first + self._config.check_every, self._n_updates)):
            yield self._data.draw(self._config, np.random.default_rng([self._seed, update]))


def transition_pool(
    arrays: TransitionArrays, spec: NetworkSpec, *, batch_size: int
) -> TransitionPool:
    """All transitions, with weighted rewards and without nulls."""
    scale = np.asarray(spec.reward_scale, dtype=np.float32)
    rewards = arrays.rewards * scale
    start, length = _pieces(arrays.trajectory, longest=batch_size)
    return TransitionPool(
        state=torch.from_numpy(arrays.state),
        action=torch.from_numpy(arrays.action),
        next_state=torch.from_numpy(arrays.next_state),
        rewards=torch.from_numpy(np.nan_to_num(rewards, nan=0.0)),
        mask=torch.from_numpy(component_mask(rewards, arrays.trajectory)),
        discount=torch.from_numpy(arrays.discount),
        returns=torch.from_numpy(discounted_returns(rewards, arrays.discount, arrays.trajectory)),
        start=start,
        length=length,
    )


def group_pool(
    groups: Sequence[DecisionGroup],
    *,
    kind: GroupKind,
    set_relative: SetRelative,
    group_sizes: Sequence[int],
    seed: int,
) -> GroupPool | None:
    """All groups of one kind (None without any); attempts are subsampled to `group_sizes`."""
    chosen = [group for group in groups if group.kind is kind]
    if not chosen:
        return None
    n_subsets = int(np.clip(_POOL_SUBSETS // len(chosen), _MIN_SUBSETS, _MAX_SUBSETS))
    is_attempt = kind is GroupKind.ATTEMPT
    columns = _PoolColumns()
    n_rows = 0
    for group in chosen:
        whole = np.arange(group.size)
        subsets = [whole]
        if is_attempt:
            rng = np.random.default_rng([seed, crc32(group.group_id.encode())])
            subsets += _random_subsets(group.size, group_sizes, n_subsets, rng)
        for subset in subsets:
            relative = set_relative(group.signals.take(subset))
            other = relative if is_attempt else np.hstack([group.action[subset], relative])
            columns.add(group, subset, other.astype(np.float32), first_row=n_rows)
        columns.close(group, state=group.after if is_attempt else group.before, n=len(subsets))
        n_rows += group.size
    return columns.pool()


class _PoolColumns:
    """Columns of a `GroupPool` while it grows."""

    def __init__(self) -> None:
        self._rows: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("state", "source_row", "other", "label", "known", "taken")
        }
        self._length: list[int] = []
        self._count: list[int] = []
        self._task_id: list[str] = []

    def add(self, group: DecisionGroup, subset: Integers, other: Floats, *, first_row: int) -> None:
        success = group.success[subset]
        self._rows["source_row"].append(first_row + subset)
        self._rows["other"].append(other)
        self._rows["label"].append(np.nan_to_num(success, nan=0.0).astype(np.float32))
        self._rows["known"].append(~np.isnan(success))
        self._rows["taken"].append(group.is_taken[subset])
        self._length.append(len(subset))

    def close(self, group: DecisionGroup, *, state: Floats, n: int) -> None:
        self._rows["state"].append(state.astype(np.float32))
        self._count.append(n)
        self._task_id.append(group.task_id)

    def pool(self) -> GroupPool:
        column = {name: np.concatenate(parts) for name, parts in self._rows.items()}
        length, count = np.asarray(self._length), np.asarray(self._count)
        return GroupPool(
            state=torch.from_numpy(column["state"]),
            source_row=column["source_row"],
            other=torch.from_numpy(column["other"]),
            label=torch.from_numpy(column["label"]),
            known=torch.from_numpy(column["known"]),
            taken=torch.from_numpy(column["taken"]),
            start=np.cumsum(length) - length,
            length=length,
            first=np.cumsum(count) - count,
            count=count,
            task_id=np.asarray(self._task_id, dtype=np.str_),
        )


def _random_subsets(
    size: int, group_sizes: Sequence[int], n: int, rng: np.random.Generator
) -> list[Integers]:
    """`n` random subsets whose sizes go round the given ones below `size`; none if none fits."""
    sizes = [k for k in group_sizes if k < size]
    return [
        np.sort(rng.choice(size, size=sizes[turn % len(sizes)], replace=False))
        for turn in range(n if sizes else 0)
    ]


def _pieces(trajectory: Integers, *, longest: int) -> tuple[Integers, Integers]:
    """Start and length of runs of equal numbers, cut to at most `longest` rows."""
    if not len(trajectory):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    runs = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
    ends = np.append(runs[1:], len(trajectory))
    start = np.concatenate([np.arange(a, b, longest) for a, b in zip(runs, ends, strict=True)])
    length = np.diff(np.append(start, len(trajectory)))
    return start, length


def _ranges(start: Integers, length: Integers) -> Integers:
    """start[0], …, start[0] + length[0] − 1, start[1], … as one array."""
    total = int(length.sum())
    offset = np.repeat(start - (np.cumsum(length) - length), length)
    return cast("Integers", offset + np.arange(total))
