"""Text vectors reduced to few dimensions, and numbers brought to one scale.

Both are fitted on development tasks, stored with the model and only applied afterwards.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from harness_core.features.batch import Floats, Integers

_MIN_STD: Final = 1e-6
_LIMIT: Final = 8.0
_TEXTS_PER_DIMENSION: Final = 4
"""Fewer texts than this a dimension, and the dimensions would name single texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Principal components of text vectors, scaled to a mean variance of one a dimension."""

    mean: Floats  # [W]
    components: Floats  # [W, D]

    @property
    def width(self) -> int:
        """D."""
        return int(self.components.shape[1])

    @classmethod
    def fit(cls, vectors: Floats, *, n_dimensions: int) -> Self:
        """At most `n_dimensions` components; fewer where there are few texts."""
        n, width = vectors.shape
        rank = min(n_dimensions, n // _TEXTS_PER_DIMENSION, width)
        if rank < 1:
            return cls(
                mean=np.zeros(width, dtype=np.float32),
                components=np.zeros((width, 0), dtype=np.float32),
            )
        mean = vectors.mean(axis=0, dtype=np.float64)
        centred = vectors.astype(np.float64) - mean
        variances, directions = np.linalg.eigh(centred.T @ centred / n)
        order = np.argsort(-variances, kind="stable")[:rank]
        chosen = directions[:, order]
        # An eigenvector has no sign; fix one, so that equal data give equal components.
        largest = np.abs(chosen).argmax(axis=0)
        chosen = chosen * np.where(chosen[largest, np.arange(rank)] < 0, -1.0, 1.0)
        spread = float(np.sqrt(np.maximum(variances[order], 0.0).mean()))
        scale = 1.0 / spread if spread > _MIN_STD else 0.0
        return cls(mean=mean.astype(np.float32), components=(chosen * scale).astype(np.float32))

    def apply(self, vectors: Floats) -> Floats:
        """[N, W] to [N, D]."""
        return np.asarray((vectors - self.mean) @ self.components, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standardiser:
    """Columns that vary, in units of their standard deviation, clipped."""

    kept: Integers  # [D] columns that vary over development rows
    mean: Floats  # [D]
    std: Floats  # [D]

    @property
    def width(self) -> int:
        """D."""
        return len(self.kept)

    @classmethod
    def fit(cls, rows: Floats) -> Self:
        """Mean and deviation of each column; a column that never varies is dropped."""
        if not len(rows):
            nothing = np.zeros(0, dtype=np.float32)
            return cls(kept=np.zeros(0, dtype=np.int64), mean=nothing, std=nothing)
        mean = rows.mean(axis=0, dtype=np.float64)
        std = rows.std(axis=0, dtype=np.float64)
        kept = np.flatnonzero(std > _MIN_STD)
        return cls(
            kept=kept.astype(np.int64),
            mean=mean[kept].astype(np.float32),
            std=std[kept].astype(np.float32),
        )

    def apply(self, rows: Floats) -> Floats:
        """[N, columns] to [N, D]."""
        scaled = (rows[:, self.kept] - self.mean) / self.std
        return np.asarray(np.clip(scaled, -_LIMIT, _LIMIT), dtype=np.float32)
