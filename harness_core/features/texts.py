"""Texts of each column to few dimensions: which encoder, which projection.

A column with few distinct texts goes through the configured encoder, one with many is hashed;
programs that can be run are hashed unless the configuration says otherwise. The choice is made
once, when the pipeline is fitted, and stored.
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np

from harness_core.features.batch import Floats
from harness_core.features.cache import FILE_NAME, CachedEncoder, EmbeddingCache
from harness_core.features.config import EncoderConfig, FeatureConfig
from harness_core.features.encoder import TextEncoder, open_encoder
from harness_core.features.frame import TEXT_COLUMNS
from harness_core.features.hashed import HashedEncoder
from harness_core.features.projection import Projection
from harness_core.features.tuned_weights import TunedWeights

Choice = Literal["configured", "hashed"]

_MAX_FIT_TEXTS: Final = 5000
_BLOCK: Final = 4096
_SEED: Final = 0


class Encoders:
    """The configured encoder and the hashed one, each behind the cache, opened when first used."""

    def __init__(
        self,
        config: EncoderConfig,
        *,
        cache: Path | None = None,
        configured: TextEncoder | None = None,
        tuned: TunedWeights | None = None,
    ) -> None:
        self._config = config
        self._tuned = tuned
        self._cache = None if cache is None else EmbeddingCache(cache / FILE_NAME)
        self._given = configured
        self._open: dict[Choice, CachedEncoder] = {}
        self._opening = threading.Lock()

    def of(self, choice: Choice) -> CachedEncoder:
        """The encoder of a choice."""
        with self._opening:
            if choice not in self._open:
                encoder: TextEncoder = HashedEncoder()
                if choice == "configured":
                    encoder = self._given or open_encoder(self._config, self._tuned)
                self._open[choice] = CachedEncoder(encoder, self._cache)
            return self._open[choice]

    def with_tuned(self, tuned: TunedWeights) -> "Encoders":
        """The same, with what fine-tuning changed."""
        other = Encoders(self._config, tuned=tuned)
        other._cache = self._cache
        return other

    @property
    def n_misses(self) -> int:
        """Distinct texts that had to be encoded."""
        return sum(encoder.n_misses for encoder in self._open.values())

    @property
    def n_hits(self) -> int:
        """Distinct texts whose vectors were there."""
        return sum(encoder.n_hits for encoder in self._open.values())


def choose(n_texts: Mapping[str, int], config: FeatureConfig) -> dict[str, Choice]:
    """Which encoder each column goes through, by its number of distinct texts."""
    choices: dict[str, Choice] = {}
    for column in TEXT_COLUMNS:
        few = n_texts[column] <= config.encoder.max_texts
        wanted = config.encode_code or column != "program"
        choices[column] = "configured" if few and wanted else "hashed"
    return choices


def fit_projections(
    texts: Mapping[str, Sequence[str]],
    choices: Mapping[str, Choice],
    encoders: Encoders,
    *,
    n_dimensions: int,
) -> dict[str, Projection]:
    """Fit the projection of each column on texts of development tasks."""
    projections = {}
    for column in TEXT_COLUMNS:
        # Sorted, so that the sample depends on what the texts are and on nothing else.
        distinct = sorted(set(texts[column]))
        if len(distinct) > _MAX_FIT_TEXTS:
            rng = np.random.default_rng(_SEED)
            drawn = np.sort(rng.choice(len(distinct), _MAX_FIT_TEXTS, replace=False))
            distinct = [distinct[index] for index in drawn]
        vectors = encoders.of(choices[column]).encode(distinct)
        projections[column] = Projection.fit(vectors, n_dimensions=n_dimensions)
    return projections


def project(texts: Sequence[str], encoder: CachedEncoder, projection: Projection) -> Floats:
    """Vectors of texts, [N + 1, D]; the last row is zero and stands for "no text"."""
    blocks = [
        projection.apply(encoder.encode(texts[start : start + _BLOCK]))
        for start in range(0, len(texts) if projection.width else 0, _BLOCK)
    ]
    n = len(texts) if not projection.width else 0
    nothing = np.zeros((n + 1, projection.width), dtype=np.float32)
    return np.concatenate([*blocks, nothing])
