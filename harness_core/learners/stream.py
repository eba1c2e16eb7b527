"""The batches of training in their order.

Update u draws its batch from a generator seeded by (seed, u) alone, so a resumed run sees the
batches that an uninterrupted one would have seen.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

import numpy as np
from torch.utils.data import IterableDataset

from harness_core.learners.batches import Batch
from harness_core.learners.config import TrainConfig
from harness_core.learners.data import TrainingData


class BatchStream(IterableDataset[Iterator[Batch]]):
    """Batches of updates from `first()` to `n_updates`, `check_every` of them an epoch.

    An item is a run of batches, drawn as they are asked for: Lightning's loop costs a millisecond a
    turn, as much as an update of small networks, so it turns once for many updates.
    """

    def __init__(
        self,
        data: TrainingData,
        config: TrainConfig,
        *,
        seed: int,
        first: Callable[[], int],
        n_updates: int,
        stops: Collection[int] = (),
    ) -> None:
        """`stops` are numbers of updates after which a run ends, whatever else."""
        self._data = data
        self._config = config
        self._seed = seed
        self._first = first
        self._n_updates = n_updates
        self._stops = stops

    def __iter__(self) -> Iterator[Iterator[Batch]]:
        first = self._first()
        end = min(first + self._config.check_every, self._n_updates)
        cuts = [first, *sorted(stop for stop in self._stops if first < stop < end), end]
        for one, two in pairwise(cuts):
            if one < two:
                yield self._batches(one, two)

    def _batches(self, first: int, end: int) -> Iterator[Batch]:
        for update in range(first, end):
            rng = np.random.default_rng([self._seed, update])
            yield self._data.at(update, self._config).draw(self._config, rng)
