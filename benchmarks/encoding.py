"""How fast texts become vectors, by several ways, and how near the vectors are to the default ones.

Texts are cut into as many portions as there are rounds; every portion goes through every way, in an
order drawn anew for each, so that what else happens on the machine hits all of them alike. A figure
is the median of the rounds. Vectors are compared over all texts.
"""

import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.encoder_choice import gap_closed_by_encoder
from benchmarks.machine import describe_machine
from benchmarks.peers.other_encoders import StaticEncoder, has_onnx, onnx_encoders, unpacked_encoder
from benchmarks.threads import torch_threads
from harness_core.errors import ParameterError
from harness_core.features.batch import Floats
from harness_core.features.cache import FILE_NAME, CachedEncoder, EmbeddingCache
from harness_core.features.config import EncoderConfig
from harness_core.features.encoder import TextEncoder, TransformersEncoder, open_encoder
from harness_core.features.hashed import HashedEncoder

_DEFAULT: Final = "sorted"
_LOW_PERCENT: Final = 5
_Ways = Mapping[str, Callable[[Sequence[str]], Floats]]


class CountingEncoder:
    """An encoder that counts how often and for how many texts it is asked."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self.fingerprint = encoder.fingerprint
        self.width = encoder.width
        self.n_calls = 0
        self.n_texts = 0

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width], in order."""
        self.n_calls += 1
        self.n_texts += len(texts)
        return self._encoder.encode(texts)


def compare_encoders(
    texts: Sequence[str],
    config: EncoderConfig,
    *,
    n_rounds: int,
    n_threads: int,
    seed: int,
    with_gap: bool = False,
) -> dict[str, Any]:
    """Speed of every way to encode, and fidelity to the configured encoder in full precision.

    `with_gap` adds what each encoder is worth to a controller; that takes minutes and a sandbox.

    Raises:
        ParameterError: the configured encoder is no transformer, or there are too few texts.
    """
    encoder = open_encoder(config)
    if not isinstance(encoder, TransformersEncoder):
        raise ParameterError("features.encoder.name: a transformer is needed to compare with")
    if len(texts) < 2 * n_rounds:
        raise ParameterError(f"{len(texts)} texts are too few for {n_rounds} rounds")
    machine = describe_machine()
    with torch_threads(n_threads), tempfile.TemporaryDirectory() as folder:
        others, absent = _others(encoder, config, texts, n_threads=n_threads, scratch=Path(folder))
        counting = CountingEncoder(encoder)
        cached = CachedEncoder(counting, EmbeddingCache(Path(folder) / FILE_NAME))
        cached.encode(texts)
        filling = counting.n_texts
        counting.n_calls = counting.n_texts = 0
        ways: dict[str, Callable[[Sequence[str]], Floats]] = {
            "unsorted": lambda part: _unsorted(encoder, part, config.batch_size),
            _DEFAULT: encoder.encode,
            "cached": cached.encode,
            **{name: other.encode for name, other in others.items()},
            "hashed": HashedEncoder().encode,
        }
        seconds, vectors = _measure(texts, ways, n_rounds=n_rounds, seed=seed)
        gap = _gap(encoder, others, Path(folder) / "gap") if with_gap else None
    return {
        "texts_per_s": {name: round(median(rates), 1) for name, rates in seconds.items()},
        "times_as_fast_as_sorted": {
            name: round(median(np.divide(rates, seconds[_DEFAULT])), 2)
            for name, rates in seconds.items()
        },
        "fidelity": {name: _fidelity(vectors[name], vectors[_DEFAULT]) for name in ways},
        "warm_cache": {
            "n_texts_encoded_to_fill": filling,
            "n_encoder_calls": counting.n_calls,
            "n_texts_encoded": counting.n_texts,
        },
        "gap_closed": gap,
        "absent": absent,
        "n_texts": len(texts),
        "mean_tokens": round(_mean_tokens(encoder, texts), 1),
        "n_rounds": n_rounds,
        "n_threads": n_threads,
        "encoder": config.model_dump(mode="json"),
        "machine": machine,
    }


def _others(
    encoder: TransformersEncoder,
    config: EncoderConfig,
    texts: Sequence[str],
    *,
    n_threads: int,
    scratch: Path,
) -> tuple[dict[str, TextEncoder], dict[str, str]]:
    """The other encoders by name, and the reason of each that is not there."""
    absent: dict[str, str] = {}
    settings = config.model_dump(include={"max_tokens", "max_chunks", "batch_size"})
    others: dict[str, TextEncoder] = {"unpacked": unpacked_encoder(encoder._folder, settings)}
    if has_onnx():
        others |= onnx_encoders(encoder._folder, settings, n_threads=n_threads, scratch=scratch)
    else:
        missing = "onnx and onnxruntime are not installed; they come with the extra `bench`"
        absent = {"onnx_fp32": missing, "onnx_int8": missing}
    others["static"] = StaticEncoder.of(encoder, texts)
    return others, absent


def _gap(
    encoder: TransformersEncoder, others: Mapping[str, TextEncoder], root: Path
) -> dict[str, Any]:
    """Gap closed by those encoders whose vectors differ; the static one knows every token."""
    candidates = {
        _DEFAULT: encoder,
        **{name: others[name] for name in ("onnx_int8",) if name in others},
        "static": StaticEncoder.of_vocabulary(encoder),
        "hashed": HashedEncoder(),
    }
    return gap_closed_by_encoder(candidates, root, default=_DEFAULT)


def _unsorted(encoder: TextEncoder, texts: Sequence[str], batch_size: int) -> Floats:
    """Batches as the texts come, each as wide as its longest text."""
    starts = range(0, len(texts), batch_size)
    return np.concatenate([encoder.encode(texts[i : i + batch_size]) for i in starts])


def _measure(
    texts: Sequence[str], ways: _Ways, *, n_rounds: int, seed: int
) -> tuple[dict[str, list[float]], dict[str, Floats]]:
    """Texts a second of each way in each round, and the vectors of all texts."""
    rng = random.Random(seed)
    rates: dict[str, list[float]] = {name: [] for name in ways}
    vectors: dict[str, list[Floats]] = {name: [] for name in ways}
    for encode in ways.values():  # first calls are no part of anybody's figure
        encode(texts[:2])
    for first in range(n_rounds):
        portion = texts[first::n_rounds]
        for name in rng.sample(list(ways), len(ways)):
            began = time.perf_counter()
            found = ways[name](portion)
            rates[name].append(len(portion) / (time.perf_counter() - began))
            vectors[name].append(found)
    return rates, {name: np.concatenate(parts) for name, parts in vectors.items()}


def _fidelity(vectors: Floats, default: Floats) -> dict[str, float | None]:
    """Cosine with the default vector of the same text, where both are of one space.

    `similarity_correlation` needs no common space: how alike two texts are by these vectors beside
    how alike they are by the default ones, over all pairs.
    """
    above = np.triu_indices(len(vectors), k=1)
    pairs = [(_unit(item) @ _unit(item).T)[above] for item in (vectors, default)]
    figures: dict[str, float | None] = {
        "cosine_mean": None,
        "cosine_p5": None,
        "similarity_correlation": round(float(np.corrcoef(pairs)[0, 1]), 4),
    }
    if vectors.shape[1] == default.shape[1]:
        cosine = (_unit(vectors) * _unit(default)).sum(axis=1)
        figures["cosine_mean"] = round(float(cosine.mean()), 4)
        figures["cosine_p5"] = round(float(np.percentile(cosine, _LOW_PERCENT)), 4)
    return figures


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))


def _mean_tokens(encoder: TransformersEncoder, texts: Sequence[str]) -> float:
    return float(np.mean([sum(map(len, encoder.chunks(text))) for text in texts]))
