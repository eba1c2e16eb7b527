"""The data of training: pools of transitions and of decision groups, and batches from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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
from harness_core.learners.returns import (
    component_mask,
    discounted_returns,
    is_last,
    linked_rows,
    outcome_by_row,
    return_advantage,
    total_returns,
)
from harness_core.learners.rows import cut_into_pieces, ranges, side_by_side
from harness_core.learners.sampling import ALIKE, Sampler, Samplers, reach_at
from harness_core.trajectories.vocabulary import GroupKind

SetRelative = Callable[[GroupSignals], Floats]
"""From the signals of K candidates to their set-relative features [K, Dr]."""

_N_NEGATIVES = 8
_MIN_SUBSETS, _MAX_SUBSETS, _POOL_SUBSETS = 8, 32, 4096


@dataclass(frozen=True, kw_only=True)
class TransitionPool:
    """Transitions in pieces: whole trajectories, cut only where one is longer than a batch."""

    state: Tensor
    action: Tensor
    next_state: Tensor
    is_linked: Tensor  # [N] bool; the next state is that of the row below
    rewards: Tensor
    mask: Tensor
    discount: Tensor
    returns: Tensor  # [N, C] discounted sums to the end of the trajectory, weighted
    intervention: Tensor
    legal: Tensor
    return_advantage: Tensor
    outcome: Tensor  # [N] final outcome of the run in [0, 1]; NaN where it is not known
    running: Tensor  # [N] bool; an attempt that took a step, still goes on, and has an outcome
    start: Integers  # [S] first row of each piece
    length: Integers  # [S]

    def restrict(self, rows: Flags) -> "TransitionPool":
        """The pieces whose rows are chosen (all rows of a task are or none)."""
        chosen = rows[self.start]
        return replace(self, start=self.start[chosen], length=self.length[chosen])

    @cached_property
    def mean_length(self) -> float:
        """Rows of a piece."""
        return float(self.length.mean())

    def rows(self) -> Integers:
        """Rows of all pieces."""
        return ranges(self.start, self.length)

    def draw(
        self, n_rows: int, rng: np.random.Generator, sampler: Sampler | None = None
    ) -> TransitionBatch:
        """Random pieces with about `n_rows` rows together."""
        n_pieces = max(1, round(n_rows / self.mean_length))
        return self.batch(_pick(n_pieces, len(self.start), sampler, rng), rng)

    def batch(self, pieces: Integers, rng: np.random.Generator) -> TransitionBatch:
        """These pieces as one batch."""
        lengths = self.length[pieces]
        rows = torch.from_numpy(ranges(self.start[pieces], lengths))
        n_rows = len(rows)
        shift = rng.integers(1, max(n_rows, 2), size=_N_NEGATIVES)
        continues = torch.ones(n_rows, dtype=torch.bool)
        continues[torch.from_numpy(np.cumsum(lengths) - 1)] = False
        discount = self.discount.index_select(0, rows)
        intervention = self.intervention.index_select(0, rows)
        is_linked = self.is_linked.index_select(0, rows) & continues
        before_beyond = torch.nonzero((discount != 0) & ~is_linked)[:, 0]
        return TransitionBatch(
            pair=side_by_side(self.state, rows, self.action, rows),
            n_state=self.state.shape[1],
            beyond=self.next_state.index_select(0, rows[before_beyond]),
            before_beyond=before_beyond,
            continues=continues,
            longest=int(lengths.max(initial=1)),
            rewards=self.rewards.index_select(0, rows),
            mask=self.mask.index_select(0, rows),
            discount=discount,
            shift=torch.from_numpy(shift),
            n_known=int((intervention >= 0).sum()),
            intervention=intervention,
            legal=self.legal.index_select(0, rows),
            return_advantage=self.return_advantage.index_select(0, rows),
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
    source: npt.NDArray[np.str_]  # [G]

    def restrict(self, groups: Flags) -> "GroupPool":
        """The chosen groups."""
        return replace(
            self,
            first=self.first[groups],
            count=self.count[groups],
            task_id=self.task_id[groups],
            source=self.source[groups],
        )

    def subsets(self) -> Integers:
        """All subsets of all groups."""
        return ranges(self.first, self.count)

    def rows(self) -> Integers:
        """Rows of all subsets."""
        subsets = self.subsets()
        return ranges(self.start[subsets], self.length[subsets])

    def draw(
        self, n_groups: int, rng: np.random.Generator, sampler: Sampler | None = None
    ) -> GroupBatch:
        """One random subset of each of `n_groups` random groups."""
        groups = _pick(n_groups, len(self.first), sampler, rng)
        return self.batch(self.first[groups] + rng.integers(self.count[groups]))

    def batch(self, subsets: Integers) -> GroupBatch:
        """These subsets as one batch."""
        lengths = self.length[subsets]
        rows = ranges(self.start[subsets], lengths)
        index = torch.from_numpy(rows)
        source = torch.from_numpy(self.source_row[rows])
        return GroupBatch(
            pair=side_by_side(self.state, source, self.other, index),
            label=self.label.index_select(0, index),
            known=self.known.index_select(0, index),
            taken=self.taken.index_select(0, index),
            layout=Layout.of(lengths),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """What one model learns from; a kind of group that is missing is None."""

    transitions: TransitionPool
    attempts: GroupPool | None
    steps: GroupPool | None
    samplers: Samplers = ALIKE

    def at(self, update: int, config: TrainConfig) -> "TrainingData":
        """The data as they may be drawn at an update."""
        if config.curriculum is None:
            return self
        reach = reach_at(config.curriculum, update, config.max_updates)
        return replace(self, samplers=self.samplers.at(reach))

    def draw(self, config: TrainConfig, rng: np.random.Generator) -> Batch:
        """The batch of one update."""
        by, n = self.samplers, config.n_groups
        return Batch(
            transitions=self.transitions.draw(config.batch_size, rng, by.transitions),
            attempts=None if self.attempts is None else self.attempts.draw(n, rng, by.attempts),
            steps=None if self.steps is None else self.steps.draw(n, rng, by.steps),
        )


def transition_pool(
    arrays: TransitionArrays, spec: NetworkSpec, *, batch_size: int
) -> TransitionPool:
    """All transitions, with weighted rewards and without nulls."""
    scale = np.asarray(spec.reward_scale, dtype=np.float32)
    rewards = arrays.rewards * scale
    start, length = cut_into_pieces(arrays.trajectory, longest=batch_size)
    returns = discounted_returns(rewards, arrays.discount, arrays.trajectory)
    advantage = return_advantage(total_returns(returns, spec), arrays.trajectory, arrays.task_id)
    outcome = outcome_by_row(arrays, spec.components)
    running = (arrays.step_index >= 1) & ~is_last(arrays.trajectory) & ~np.isnan(outcome)
    return TransitionPool(
        state=torch.from_numpy(arrays.state),
        action=torch.from_numpy(arrays.action),
        next_state=torch.from_numpy(arrays.next_state),
        is_linked=torch.from_numpy(linked_rows(arrays.state, arrays.next_state)),
        rewards=torch.from_numpy(np.nan_to_num(rewards, nan=0.0)),
        mask=torch.from_numpy(component_mask(rewards, arrays.trajectory)),
        discount=torch.from_numpy(arrays.discount),
        returns=torch.from_numpy(returns),
        intervention=torch.from_numpy(arrays.intervention),
        legal=torch.from_numpy(arrays.legal),
        return_advantage=torch.from_numpy(advantage),
        outcome=torch.from_numpy(outcome),
        running=torch.from_numpy(running),
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
        self._source: list[str] = []

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
        self._source.append(group.source)

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
            source=np.asarray(self._source, dtype=np.str_),
        )


def _pick(n: int, n_items: int, sampler: Sampler | None, rng: np.random.Generator) -> Integers:
    """`n` items of a pool with replacement, all alike unless a sampler says otherwise."""
    return rng.integers(n_items, size=n) if sampler is None else sampler(n, rng)


def _random_subsets(
    size: int, group_sizes: Sequence[int], n: int, rng: np.random.Generator
) -> list[Integers]:
    """`n` random subsets whose sizes go round the given ones below `size`; none if none fits."""
    sizes = [k for k in group_sizes if k < size]
    return [
        np.sort(rng.choice(size, size=sizes[turn % len(sizes)], replace=False))
        for turn in range(n if sizes else 0)
    ]
