"""The benchmark of encoders, on a transformer with random weights and a handful of texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.encoding import compare_encoders
from benchmarks.peers.other_encoders import StaticEncoder, has_onnx, onnx_encoders
from benchmarks.results_speed import encode_section
from benchmarks.texts import benchmark_texts
from harness_core.errors import ParameterError
from harness_core.features.config import EncoderConfig
from harness_core.features.encoder import TransformersEncoder
from tests.features.test_encoders import tiny, tiny_folder  # noqa: F401  # a fixture

TEXTS = [f"add word {'select ' * number} return {number}" for number in range(12)]
OURS = {"unsorted", "sorted", "unpacked", "cached", "static", "hashed"}
ONNX = {"onnx_fp32", "onnx_int8"}


def folder_config(folder: Path) -> EncoderConfig:
    return EncoderConfig(
        name="folder", path=str(folder), max_tokens=16, max_chunks=2, batch_size=4, max_texts=100
    )


@pytest.fixture(scope="module")
def figures(tiny_folder):  # noqa: F811  # the fixture
    return compare_encoders(TEXTS, folder_config(tiny_folder), n_rounds=3, n_threads=1, seed=0)


def test_every_way_has_its_speed_and_its_fidelity(figures):
    assert json.loads(json.dumps(figures)) == figures
    ways = OURS | (ONNX if has_onnx() else set())
    assert set(figures["texts_per_s"]) == set(figures["fidelity"]) == ways
    assert all(speed > 0 for speed in figures["texts_per_s"].values())
    assert set(figures["absent"]) == (set() if has_onnx() else ONNX)
    assert figures["n_texts"] == len(TEXTS)
    assert figures["gap_closed"] is None  # only where it is asked for
    shown = [line.split(" | ")[0] for line in encode_section(figures)]
    assert {f"| {way.replace('_', ' ')}" for way in ways} <= set(shown)


def test_a_warm_cache_encodes_nothing(figures):
    warm = figures["warm_cache"]
    assert warm["n_texts_encoded_to_fill"] == len(TEXTS)
    assert warm["n_encoder_calls"] == warm["n_texts_encoded"] == 0


def test_order_and_cache_leave_the_vectors_what_they_are(figures):
    for name in ("unsorted", "sorted", "unpacked", "cached"):
        assert figures["fidelity"][name]["cosine_p5"] == pytest.approx(1.0, abs=1e-3)


def test_vectors_of_another_width_have_no_cosine(figures):
    assert figures["fidelity"]["hashed"]["cosine_mean"] is None
    assert -1.0 <= figures["fidelity"]["hashed"]["similarity_correlation"] <= 1.0


def test_a_static_vector_does_not_know_the_order_of_words(tiny_folder):  # noqa: F811
    encoder = tiny(tiny_folder)
    static = StaticEncoder.of(encoder, ["add word select", "return"])
    one, other, third = static.encode(["add word select", "select word add", "return"])
    np.testing.assert_allclose(one, other, atol=1e-5)
    assert not np.allclose(one, third, atol=1e-2)


def test_a_static_encoder_of_the_vocabulary_knows_every_token(tiny_folder):  # noqa: F811
    encoder = tiny(tiny_folder)
    some, every = StaticEncoder.of(encoder, ["add"]), StaticEncoder.of_vocabulary(encoder)
    unknown_to_some = ["select"]
    assert not some.encode(unknown_to_some).any()
    assert every.encode(unknown_to_some).any()


def test_without_a_transformer_there_is_nothing_to_compare_with():
    config = EncoderConfig(
        name="hashed", path=None, max_tokens=16, max_chunks=2, batch_size=4, max_texts=100
    )
    with pytest.raises(ParameterError, match="transformer is needed"):
        compare_encoders(TEXTS, config, n_rounds=1, n_threads=1, seed=0)


def test_too_few_texts_are_refused(tiny_folder):  # noqa: F811
    with pytest.raises(ParameterError, match="too few"):
        compare_encoders(TEXTS[:3], folder_config(tiny_folder), n_rounds=2, n_threads=1, seed=0)


def test_onnx_in_full_precision_gives_the_vectors_of_torch(tiny_folder, tmp_path):  # noqa: F811
    if not has_onnx():
        pytest.skip("onnx and onnxruntime are not installed; they come with the extra `bench`")
    settings: dict[str, Any] = {"max_tokens": 16, "max_chunks": 2, "batch_size": 4}
    others = onnx_encoders(tiny_folder, settings, n_threads=1, scratch=tmp_path)
    expected = TransformersEncoder(tiny_folder, **settings).encode(TEXTS)
    np.testing.assert_allclose(others["onnx_fp32"].encode(TEXTS), expected, atol=1e-4)
    cosine = (others["onnx_int8"].encode(TEXTS) * expected).sum(axis=1)
    assert cosine.min() > 0.95


def test_texts_are_distinct_and_the_same_each_time():
    texts = benchmark_texts(None, n=40, seed=1)
    assert len(set(texts)) == len(texts) == 40
    assert texts == benchmark_texts(None, n=40, seed=1)
    assert texts != benchmark_texts(None, n=40, seed=2)


def test_half_of_the_texts_are_real_where_there_are_logs(data_packs: Path):
    simulated = set(benchmark_texts(None, n=5000, seed=0))
    texts = benchmark_texts(data_packs, n=40, seed=0)
    assert sum(text not in simulated for text in texts) >= 15
