import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness_core.features import cache
from harness_core.features.batch import Floats
from harness_core.features.cache import CachedEncoder, EmbeddingCache
from harness_core.features.hashed import HashedEncoder


class Recording(HashedEncoder):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(width=64)
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> Floats:
        self.asked += texts
        return super().encode(texts)


def test_no_text_is_encoded_twice(tmp_path):
    inner = Recording()
    path = tmp_path / "embeddings.sqlite"
    first = CachedEncoder(inner, EmbeddingCache(path))
    vectors = first.encode(["a text", "another", "a text"])
    assert (vectors[0] == vectors[2]).all()
    assert (first.n_misses, first.n_hits) == (2, 0)
    second = CachedEncoder(inner, EmbeddingCache(path))
    again = second.encode(["another", "a text", "a third"])
    assert sorted(inner.asked) == ["a text", "a third", "another"]
    assert (second.n_misses, second.n_hits) == (1, 2)
    assert (again[1] == vectors[0]).all()


def test_a_hit_is_the_same_number_as_the_miss_before_it(tmp_path):
    inner = Recording()
    missed = CachedEncoder(inner, EmbeddingCache(tmp_path / "a.sqlite")).encode(["x y z"])
    found = CachedEncoder(inner, EmbeddingCache(tmp_path / "a.sqlite")).encode(["x y z"])
    assert missed.tobytes() == found.tobytes()
    np.testing.assert_allclose(missed, HashedEncoder(width=64).encode(["x y z"]), atol=1e-3)


def test_without_a_file_vectors_are_kept_in_memory():
    inner = Recording()
    encoder = CachedEncoder(inner)
    encoder.encode(["a", "b"])
    encoder.encode(["b", "c"])
    assert sorted(inner.asked) == ["a", "b", "c"]


def test_two_encoders_share_a_file_and_no_vector(tmp_path):
    cache = EmbeddingCache(tmp_path / "embeddings.sqlite")
    small, large = HashedEncoder(width=32), HashedEncoder(width=64)
    assert CachedEncoder(small, cache).encode(["text"]).shape == (1, 32)
    assert CachedEncoder(large, cache).encode(["text"]).shape == (1, 64)


def test_lone_surrogates_and_empty_texts_can_be_kept(tmp_path):
    encoder = CachedEncoder(Recording(), EmbeddingCache(tmp_path / "embeddings.sqlite"))
    assert np.isfinite(encoder.encode(["\ud800", ""])).all()


def test_values_are_plain_numbers(tmp_path):
    path = tmp_path / "embeddings.sqlite"
    CachedEncoder(Recording(), EmbeddingCache(path)).encode(["text"])
    connection = sqlite3.connect(path)
    (value,) = connection.execute("SELECT vector FROM embeddings").fetchone()
    connection.close()
    assert len(value) == 64 * 2


def test_two_processes_may_write_at_once(tmp_path):
    path = tmp_path / "embeddings.sqlite"
    code = (
        "import sys; from pathlib import Path\n"
        "from harness_core.features.cache import CachedEncoder, EmbeddingCache\n"
        "from harness_core.features.hashed import HashedEncoder\n"
        "encoder = CachedEncoder(HashedEncoder(), EmbeddingCache(Path(sys.argv[1])))\n"
        "for start in range(0, 600, 20):\n"
        "    encoder.encode([f'text {n}' for n in range(start, start + 40)])\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=Path.cwd()) for _ in range(2)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    encoder = CachedEncoder(HashedEncoder(), EmbeddingCache(path))
    encoder.encode([f"text {n}" for n in range(620)])
    assert encoder.n_misses == 0


def test_without_a_file_only_the_last_vectors_are_kept(monkeypatch):
    monkeypatch.setattr(cache, "_MAX_IN_MEMORY", 2)
    inner = Recording()
    encoder = CachedEncoder(inner)
    for text in ("one", "two", "three", "three", "one"):
        encoder.encode([text])
    assert inner.asked == ["one", "two", "three", "one"]
    assert encoder.encode(["a", "b", "c", "d"]).shape == (4, 64)


def test_without_a_file_fewer_vectors_of_a_wide_encoder_are_kept(monkeypatch):
    two_of_width_64 = 2 * 2 * 64
    monkeypatch.setattr(cache, "_MAX_BYTES_IN_MEMORY", two_of_width_64)
    inner = Recording()
    encoder = CachedEncoder(inner)
    for text in ("one", "two", "three", "three", "one"):
        encoder.encode([text])
    assert inner.asked == ["one", "two", "three", "one"]
