"""What chooses between candidates, and where a model that does so comes from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from harness_core.controller.decision import Decision


class Selector(Protocol):
    """What chooses: a `Controller`, or a fake of one."""

    def select(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> Decision:
        """Choose one of K candidates."""

    def wants_more(self, decision: Decision, *, price: float | None = None) -> bool:
        """Whether one more candidate is worth its price, in probability of success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModel:
    """A model that is ready to choose."""

    version: str
    selector: Selector
    k_max: int | None = None
    """Number of candidates that it was shown to choose well from, where that is known."""
    close: Callable[[], None] = lambda: None
    """Frees what belongs to it, once it is not used any more."""


class Located(NamedTuple):
    """A model folder; another model has another version."""

    version: str
    folder: Path


Locate = Callable[[], Located | None]
"""Says which model is to be used, cheaply; None for none."""
OpenFolder = Callable[[Located], OpenModel]
"""Opens it, which takes seconds."""
