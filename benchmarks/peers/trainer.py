"""What every implementation of IQL offers to the benchmark, and what all of them share."""

from dataclasses import dataclass
from typing import Final, Protocol

from benchmarks.agent_log import AgentLog
from harness_core.errors import HarnessError
from harness_core.features.batch import Floats

EXPECTILE: Final = 0.7
INVERSE_TEMPERATURE: Final = 3.0
MAX_WEIGHT: Final = 100.0
POLYAK: Final = 0.005
LEARNING_RATE: Final = 3e-4
"""The defaults of d3rlpy, for all."""


class PeerMissing(HarnessError):
    """A peer that cannot be measured here, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What has to be the same for all."""

    hidden_sizes: tuple[int, ...]
    batch_size: int
    n_threads: int
    seed: int


class Trainer(Protocol):
    """Trains IQL on one log."""

    @property
    def name(self) -> str:
        """What its figures are called."""
        ...

    def seconds_per_update(self, n_updates: int) -> float:
        """Mean time of so many updates in its own usual loop, batches included."""
        ...


class Ranker(Protocol):
    """Scores actions after training."""

    def q(self, log: AgentLog) -> Floats:
        """Q of every row, [N]."""
        ...
