"""Vectors of texts, kept for ever under the digest of encoder and text.

One SQLite file in WAL mode, so that several processes may read and write it at once. Values are
raw little-endian float16: half the size, and what is read back is exactly what was handed out when
it was first computed. Whoever copies the file can be read only as numbers.
"""

import hashlib
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
from filelock import FileLock

from harness_core.features.batch import Floats
from harness_core.features.encoder import TextEncoder

FILE_NAME: Final = "embeddings.sqlite"

_BUSY_S: Final = 60.0
_KEYS_PER_QUERY: Final = 500
_TEXTS_PER_WRITE: Final = 256
_MAX_IN_MEMORY: Final = 20_000
"""Vectors kept where there is no file; who serves for months may not fill the memory."""
_MAX_BYTES_IN_MEMORY: Final = 1 << 24
"""What they may take together: fewer are kept of a wide encoder."""
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, vector BLOB NOT NULL) "
    "WITHOUT ROWID"
)


class EmbeddingCache:
    """A file of vectors by 32-byte key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Switching to WAL does not wait for another process that is just doing the same.
        lock = FileLock(path.with_name(f"{path.name}.lock"))
        with lock, closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(_CREATE)

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Values of those keys that are there."""
        found: dict[bytes, bytes] = {}
        with closing(self._connect()) as connection:
            for start in range(0, len(keys), _KEYS_PER_QUERY):
                part = keys[start : start + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, vector FROM embeddings WHERE key IN ({marks})"  # noqa: S608  # only marks
                found.update(connection.execute(query, part).fetchall())
        return found

    def write(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add values. A key that another process added meanwhile keeps its first value."""
        with closing(self._connect()) as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO embeddings VALUES (?, ?)", items)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_S)
        # A lost cache entry costs one encoding, so the disk need not be waited for.
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection


class CachedEncoder:
    """Any encoder, asked only for texts that it never saw; many threads may use one.

    `n_hits` and `n_misses` count distinct texts; without a file, those used last are kept in
    memory.
    """

    def __init__(self, encoder: TextEncoder, cache: EmbeddingCache | None = None) -> None:
        self._encoder = encoder
        self._cache = cache
        self._memory: OrderedDict[bytes, bytes] = OrderedDict()
        self._in_memory = threading.Lock()
        # Tokenizers are not made for several threads; and who waits may find its text encoded.
        self._encoding = threading.Lock()
        self.fingerprint = encoder.fingerprint
        self.width = encoder.width
        self.n_hits = 0
        self.n_misses = 0

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width], in order, rounded to half precision."""
        keys = [self._key(text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        known = self._read(list(distinct))
        if len(known) < len(distinct):
            with self._encoding:
                known.update(self._read([key for key in distinct if key not in known]))
                missing = {key: text for key, text in distinct.items() if key not in known}
                self.n_misses += len(missing)
                for group in _groups(missing):
                    fresh = dict(self._encode(group))
                    self._write(fresh)
                    known.update(fresh)
        else:
            missing = {}
        with self._in_memory:
            self.n_hits += len(distinct) - len(missing)
        vectors = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, key in enumerate(keys):
            vectors[row] = np.frombuffer(known[key], dtype="<f2")
        return vectors

    def _encode(self, group: Mapping[bytes, str]) -> Iterator[tuple[bytes, bytes]]:
        vectors = self._encoder.encode(list(group.values())).astype("<f2")
        for key, vector in zip(group, vectors, strict=True):
            yield key, vector.tobytes()

    def _key(self, text: str) -> bytes:
        content = text.encode("utf-8", "surrogatepass")
        return hashlib.sha256(self.fingerprint.encode() + b"\0" + content).digest()

    def _read(self, keys: list[bytes]) -> dict[bytes, bytes]:
        if self._cache is not None:
            return self._cache.read(keys)
        with self._in_memory:
            found = {key: self._memory[key] for key in keys if key in self._memory}
            for key in found:
                self._memory.move_to_end(key)
        return found

    def _write(self, items: Mapping[bytes, bytes]) -> None:
        if self._cache is not None:
            self._cache.write(items.items())
            return
        with self._in_memory:
            self._memory.update(items)
            room = min(_MAX_IN_MEMORY, _MAX_BYTES_IN_MEMORY // (2 * self.width))
            for _ in range(len(self._memory) - room):
                self._memory.popitem(last=False)  # used longest ago


def _groups(missing: Mapping[bytes, str]) -> Iterator[dict[bytes, str]]:
    """Texts by length, in groups small enough that a crash loses little."""
    ordered = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))
    for start in range(0, len(ordered), _TEXTS_PER_WRITE):
        yield dict(ordered[start : start + _TEXTS_PER_WRITE])
