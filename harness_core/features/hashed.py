"""Texts as hashed character n-grams and words: no model, thousands of texts a second.

Every text becomes counts of its n-grams and words in `_N_BUCKETS` buckets (sub-linear, so that a
loop of repeats does not drown the rest), folded with signs into the output width: a count sketch
(Charikar et al., 2002), which keeps inner products in expectation. All arithmetic is on integers
until the last step, so the same text gives the same vector on every machine.

Texts are counted together, since numpy takes longer to begin than a short text is work.
"""

import hashlib
import re
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from harness_core.features.ascii_text import tokens_of
from harness_core.features.batch import Floats, Integers

_N_BUCKETS: Final = 4096
_N_GRAMS: Final = (3, 4, 5)
_WORD: Final = re.compile(r"\w+|[^\w\s]+")
_BATCH: Final = 16
"""Texts counted together; of more, long ones do not fit into a processor's cache."""
_LOGS: Final = np.log1p(np.arange(256)).astype(np.float32)
"""log(1 + n) of the counts that nearly all buckets have; looking is cheaper than computing."""
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
        rows = [self._fold(_counts(group)) for group in _groups(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, self.width), dtype=np.float32)

    def _fold(self, counts: Integers) -> Floats:
        folded = (_logs(counts) * self._signs).reshape(len(counts), self.width, -1)
        # Neighbours first: the order in which numbers are added decides their last digit.
        while folded.shape[2] > 1:
            folded = folded[..., ::2] + folded[..., 1::2]
        vectors = folded[..., 0]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _groups(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]


def _logs(counts: Integers) -> Floats:
    if counts.max() < len(_LOGS):
        return np.asarray(_LOGS.take(counts))
    return np.log1p(counts).astype(np.float32)


def _counts(texts: Sequence[str]) -> Integers:
    """Number of n-grams and words of each text in each bucket, [N, buckets]; at least one text."""
    lowered = [text.lower() for text in texts]
    contents = [text.encode("utf-8", "surrogatepass") for text in lowered]
    lengths = np.array([len(content) for content in contents])
    owner = np.repeat(np.arange(len(texts)), lengths)
    left = np.cumsum(lengths)[owner] - np.arange(len(owner))
    characters = np.frombuffer(b"".join(contents), dtype=np.uint8).astype(np.uint64) + np.uint64(1)
    hashes, owners = [], []
    packed = characters
    for n in range(2, max(_N_GRAMS) + 1):
        # Each n-gram as one integer (n ≤ 7), made of the one that is a character shorter.
        packed = (packed[:-1] << np.uint64(9)) | characters[n - 1 :]
        if n in _N_GRAMS:
            # What began in one text and ended in the next is no n-gram of either.
            inside = np.flatnonzero(left[: len(packed)] >= n)
            hashes.append(_mix(packed[inside], seed=n))
            owners.append(owner[inside])
    words = [_words(*pair) for pair in zip(lowered, contents, strict=True)]
    flat = np.array([word for group in words for word in group], dtype=np.uint64)
    hashes.append(_mix(flat, seed=1))
    owners.append(np.repeat(np.arange(len(texts)), [len(group) for group in words]))
    cells = np.concatenate(owners) * _N_BUCKETS + np.concatenate(hashes)
    return np.bincount(cells, minlength=len(texts) * _N_BUCKETS).reshape(len(texts), _N_BUCKETS)


def _words(text: str, content: bytes) -> list[int]:
    """A number for each word and each row of symbols; `content` is the text as bytes."""
    if not text.isascii():
        words = _WORD.findall(text)
        return [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words]
    return list(map(zlib.crc32, tokens_of(content)))


def _mix(values: npt.NDArray[np.uint64], *, seed: int) -> Integers:
    """Buckets of integers (a multiplicative hash that wraps on purpose)."""
    mixed = (values + np.uint64(seed)) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIER
    return (mixed >> np.uint64(52)).astype(np.int64)
