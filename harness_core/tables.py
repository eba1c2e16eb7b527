"""Parquet tables in and out: schema check, atomic publish, content digest."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness_core.errors import NoDataError, TableSchemaError

_CHUNK_BYTES = 1 << 20


def write_table(path: Path, rows: Sequence[Mapping[str, Any]] | pa.Table, schema: pa.Schema) -> int:
    """Write rows under `schema` (no other column) and publish them atomically; return their number.

    The bytes depend on the rows and the library version only: no time and no path is stored.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=schema)
    _check(path, table.schema, schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        with temporary.open("wb") as sink:
            pq.write_table(table, sink, compression="zstd")
            sink.flush()
            os.fsync(sink.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return int(table.num_rows)


def read_table(path: Path, schema: pa.Schema, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table, memory-mapped, and check that it keeps its contract.

    Raises:
        NoDataError: the file does not exist.
        TableSchemaError: a column is missing, unknown or of another type.
    """
    check_table(path, schema)
    return pq.read_table(path, columns=None if columns is None else list(columns), memory_map=True)


def check_table(path: Path, schema: pa.Schema) -> None:
    """Check that a table is there and keeps its contract; raises as `read_table` does."""
    if not path.exists():
        raise NoDataError(f"{path} does not exist; run the stage that writes it first")
    _check(path, pq.read_schema(path), schema)


def publish_bytes(path: Path, content: bytes) -> None:
    """Write a whole file atomically: temporary neighbour, fsync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        with temporary.open("wb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def tree_digest(path: Path) -> str:
    """sha256 over the relative names and contents of a file or of all files below a folder.

    Hidden files (names that start with a dot) and `*.dvc` pointers do not count: they are
    bookkeeping, not content. A path that does not exist has the digest of nothing.
    """
    if path.is_file():
        return file_digest(path)
    return combine_digests(
        (str(item.relative_to(path)), file_digest(item))
        for item in sorted(path.rglob("*"))
        if item.is_file() and not _is_bookkeeping(item.relative_to(path))
    )


def combine_digests(parts: Iterable[tuple[str, str]]) -> str:
    """One sha256 of named digests, in the order given."""
    digest = hashlib.sha256()
    for name, value in parts:
        digest.update(f"{len(name)}:{name}={len(value)}:{value};".encode())
    return digest.hexdigest()


def _is_bookkeeping(relative: Path) -> bool:
    return relative.suffix == ".dvc" or any(part.startswith(".") for part in relative.parts)


def _check(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    if found.names == expected.names and found.types == expected.types:
        return
    differences = [
        f"{name}: expected {_type_of(expected, name)}, found {_type_of(found, name)}"
        for name in dict.fromkeys([*expected.names, *found.names])
        if _type_of(expected, name) != _type_of(found, name)
    ]
    raise TableSchemaError(f"{path}: {'; '.join(differences) or 'columns in another order'}")


def _type_of(schema: pa.Schema, name: str) -> str:
    return str(schema.field(name).type) if name in schema.names else "no such column"
