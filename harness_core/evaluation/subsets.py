"""Which candidates a selector gets to see: random subsets of K, the same for every selector."""

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness_core.features.batch import DecisionGroup, Flags, Floats, GroupSignals, Integers
from harness_core.features.set_relative import set_relative


@dataclass(frozen=True, kw_only=True)
class Subset:
    """K candidates of one decision group; what is relative to the set is computed for the set."""

    group: DecisionGroup
    index: Integers  # [K] positions in the group, ascending
    repeat: int = 0
    """Running number of the draw within its group."""

    @cached_property
    def signals(self) -> GroupSignals:
        """Signals of the K candidates."""
        return self.group.signals.take(self.index)

    @cached_property
    def relative(self) -> Floats:
        """Set-relative features [K, Dr] of the K candidates among themselves."""
        return set_relative(self.signals)

    @property
    def attempt_vectors(self) -> Floats:
        """What terminal head and boosted trees see of complete attempts, [K, Ds+Dr]."""
        return np.concatenate([self.group.after[self.index], self.relative], axis=1)

    @property
    def action_vectors(self) -> Floats:
        """What Q sees of actions, [K, Da+Dr]."""
        return np.concatenate([self.group.action[self.index], self.relative], axis=1)

    @property
    def success(self) -> Floats:
        """Labels [K]."""
        return self.group.success[self.index]

    @property
    def dangerous(self) -> Flags:
        """Which of the K the hard filter takes out."""
        return self.group.dangerous[self.index]

    def without_dangerous(self) -> "Subset":
        """What is left after the hard filter; possibly nothing."""
        kept = self.index[~self.dangerous]
        return self if len(kept) == len(self.index) else Subset(group=self.group, index=kept)


def labelled(groups: Sequence[DecisionGroup]) -> list[DecisionGroup]:
    """Groups cut down to the candidates whose outcome is known; empty ones are left out.

    Sorted by `group_id`, so that no result depends on the order in which groups arrive.
    """
    result = []
    for group in sorted(groups, key=lambda group: group.group_id):
        known = np.flatnonzero(~np.isnan(group.success))
        if len(known) == group.size:
            result.append(group)
        elif len(known):
            result.append(group.take(known))
    return [group for group in result if group.size]


def whole(groups: Sequence[DecisionGroup]) -> list[Subset]:
    """Each group with all its candidates."""
    return [Subset(group=group, index=np.arange(group.size)) for group in groups]


def draw_subsets(
    groups: Sequence[DecisionGroup], *, size: int, n_subsets: int, seed: int
) -> list[Subset]:
    """Up to `n_subsets` different subsets of `size` candidates from each group that has as many.

    Where there are no more than `n_subsets` of them, all are taken, and the result is exact. The
    draw depends on `seed`, `group_id` and `size` only.
    """
    return [
        Subset(group=group, index=index, repeat=repeat)
        for group in groups
        if group.size >= size
        for repeat, index in enumerate(
            _indices(group, size=size, n_subsets=n_subsets, seed=seed),
        )
    ]


def _indices(group: DecisionGroup, *, size: int, n_subsets: int, seed: int) -> list[Integers]:
    if math.comb(group.size, size) <= n_subsets:
        return [np.array(item) for item in itertools.combinations(range(group.size), size)]
    digest = hashlib.sha256(group.group_id.encode()).digest()
    rng = np.random.default_rng([seed, size, int.from_bytes(digest[:8], "big")])
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < n_subsets:
        index = np.sort(rng.choice(group.size, size=size, replace=False))
        drawn[tuple(index.tolist())] = None
    return [np.array(item) for item in drawn]
