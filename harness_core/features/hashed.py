"""Texts as hashed character n-grams and words: no model, thousands of texts a second.

Every text becomes counts of its n-grams and words in `_N_BUCKETS` buckets (sub-linear, so that a
loop of repeats does not drown the rest), folded with signs into the output width: a count sketch
(Charikar et al., 2002), which keeps inner products in expectation. All arithmetic is on integers
until the last step, so the same text gives the same vector on every machine.
"""

import hashlib
import re
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from harness_core.features.batch import Floats

_N_BUCKETS: Final = 4096
_N_GRAMS: Final = (3, 4, 5)
_WORD: Final = re.compile(r"\w+|[^\w\s]+")
_BATCH: Final = 256
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SIGN_SEED: Final = 20250101


class HashedEncoder:
    """Character 3- to 5-grams and words, hashed and folded to `width`, with L2 norm 1."""

    def __init__(self, *, width: int = 512) -> None:
        if _N_BUCKETS % width:
            raise ValueError(f"width must divide {_N_BUCKETS}, found {width}")
        self.width = width
        settings = f"hashed-1 buckets={_N_BUCKETS} grams={_N_GRAMS} width={width}"
        self.fingerprint = hashlib.sha256(settings.encode()).hexdigest()
        # A generator whose stream is fixed by its specification, unlike `default_rng`.
        signs = np.random.RandomState(_SIGN_SEED).randint(0, 2, size=_N_BUCKETS)
        self._signs = (2 * signs - 1).astype(np.float32)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width]; an empty text is all zero."""
        rows = [self._fold(np.stack([_counts(text) for text in group])) for group in _groups(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, self.width), dtype=np.float32)

    def _fold(self, counts: npt.NDArray[np.int64]) -> Floats:
        weights = np.log1p(counts).astype(np.float32) * self._signs
        folded = weights.reshape(len(counts), self.width, -1).sum(axis=2)
        norms = np.linalg.norm(folded, axis=1, keepdims=True)
        return np.asarray(folded / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _groups(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]


def _counts(text: str) -> npt.NDArray[np.int64]:
    """Number of n-grams and words of a text in each bucket."""
    lowered = text.lower()
    content = lowered.encode("utf-8", "surrogatepass")
    characters = np.frombuffer(content, dtype=np.uint8).astype(np.uint64) + np.uint64(1)
    hashes = [_mix(_combine(characters, n), seed=n) for n in _N_GRAMS if len(characters) >= n]
    words = [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in _WORD.findall(lowered)]
    hashes.append(_mix(np.array(words, dtype=np.uint64), seed=1))
    return np.bincount(np.concatenate(hashes), minlength=_N_BUCKETS)


def _combine(characters: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.uint64]:
    """The n-grams of a byte string, each packed into one integer (n ≤ 7)."""
    length = len(characters) - n + 1
    packed = np.zeros(length, dtype=np.uint64)
    for offset in range(n):
        packed = (packed << np.uint64(9)) | characters[offset : offset + length]
    return packed


def _mix(values: npt.NDArray[np.uint64], *, seed: int) -> npt.NDArray[np.int64]:
    """Buckets of integers (a multiplicative hash that wraps on purpose)."""
    mixed = (values + np.uint64(seed)) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIER
    return (mixed >> np.uint64(52)).astype(np.int64)
