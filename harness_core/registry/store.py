"""Where MLflow keeps its database and artifacts, and how both come to be: once, under a lock.

Two processes that open a fresh database through MLflow at the same time leave it damaged for good.
So one of them makes it under a temporary name while the others wait, and a rename publishes it.
Looking at a store that exists costs milliseconds and does not import MLflow.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from filelock import FileLock
from pydantic import ValidationError

from harness_core.errors import RegistryError
from harness_core.records import Record
from harness_core.tables import publish_bytes

_LOCATIONS: Final = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Columns in which MLflow stores absolute paths."""


class _State(Record):
    """What the store was made for; a difference to the present means work."""

    root: str
    """Folder that the absolute paths in the database begin with."""
    mlflow: str
    """Version whose schema the database has."""


class AliasTarget(NamedTuple):
    """Where an alias points."""

    version: int
    tags: dict[str, str]


class StoredVersion(NamedTuple):
    """A registered version as the database has it."""

    name: str
    version: int
    run_id: str
    artifact_uri: str
    """Where its run keeps its files; empty without a run."""
    aliases: tuple[str, ...]
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class MlflowStore:
    """The folder `mlruns`."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.root / "mlflow.db"

    @property
    def artifacts(self) -> Path:
        """Everything that runs and models leave as files."""
        return self.root / "artifacts"

    @property
    def tracking_uri(self) -> str:
        """What MLflow's tools take as `--backend-store-uri`."""
        return f"sqlite:///{self.database}"

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """One run at a time is logged and registered."""
        with FileLock(self.root / ".publish.lock"):
            yield

    def alias(self, model_name: str, alias: str) -> AliasTarget | None:
        """The version that an alias points to and its tags, read without MLflow.

        Raises:
            RegistryError: the database cannot be read.
        """
        with self._read_only() as connection:
            found = connection.execute(
                "SELECT version FROM registered_model_aliases WHERE name = ? AND alias = ?",
                (model_name, alias),
            ).fetchone()
            if found is None:
                return None
            tags = connection.execute(
                "SELECT key, value FROM model_version_tags WHERE name = ? AND version = ?",
                (model_name, found[0]),
            ).fetchall()
            return AliasTarget(version=int(found[0]), tags=dict(tags))

    def versions_of(self, model_digest: str) -> list[StoredVersion]:
        """The registered versions that hold a model, the newest first, read without MLflow.

        Raises:
            RegistryError: the database cannot be read.
        """
        with self._read_only() as connection:
            found = connection.execute(
                "SELECT v.name, v.version, v.run_id, r.artifact_uri FROM model_version_tags t "
                "JOIN model_versions v ON v.name = t.name AND v.version = t.version "
                "LEFT JOIN runs r ON r.run_uuid = v.run_id "
                "WHERE t.key = 'model_digest' AND t.value = ? ORDER BY v.version DESC",
                (model_digest,),
            ).fetchall()
            return [
                StoredVersion(
                    name=name,
                    version=int(version),
                    run_id=run_id or "",
                    artifact_uri=artifact_uri or "",
                    aliases=tuple(
                        sorted(
                            alias
                            for (alias,) in connection.execute(
                                "SELECT alias FROM registered_model_aliases "
                                "WHERE name = ? AND version = ?",
                                (name, version),
                            )
                        )
                    ),
                    tags=dict(
                        connection.execute(
                            "SELECT key, value FROM model_version_tags "
                            "WHERE name = ? AND version = ?",
                            (name, version),
                        ).fetchall()
                    ),
                )
                for name, version, run_id, artifact_uri in found
            ]

    def experiment_of(self, run_id: str) -> str:
        """Id of the experiment that a run belongs to.

        Raises:
            RegistryError: there is no such run.
        """
        with self._read_only() as connection:
            found = connection.execute(
                "SELECT experiment_id FROM runs WHERE run_uuid = ?", (run_id,)
            ).fetchone()
        if found is None:
            raise RegistryError(f"there is no run {run_id} in {self.database}")
        return str(found[0])

    def metrics(self, run_id: str, *, prefix: str) -> dict[str, float]:
        """The last values of a run's metrics whose names begin with a prefix, without it."""
        with self._read_only() as connection:
            rows = connection.execute(
                "SELECT key, value FROM latest_metrics WHERE run_uuid = ? ORDER BY key", (run_id,)
            ).fetchall()
        return {key[len(prefix) :]: value for key, value in rows if key.startswith(prefix)}

    def check(self) -> None:
        """Refuse a database that was damaged while it was made.

        Raises:
            RegistryError: it is no MLflow database, or a migration broke off half-way.
        """
        with self._read_only() as connection:
            names = {
                name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()
            }
            is_whole = "alembic_version" in names and not any(
                name.startswith("_alembic_tmp_") for name in names
            )
            n_heads = is_whole and connection.execute(
                "SELECT count(*) FROM alembic_version"
            ).fetchone() == (1,)
        if not n_heads:
            raise RegistryError(
                f"{self.database} is damaged: a migration broke off. Move the file away (runs and "
                "aliases in it are lost, artifacts stay) or restore a copy of it"
            )

    @contextmanager
    def _read_only(self) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{self.database.as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=20)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise RegistryError(f"{self.database} cannot be read: {error}") from error

    @property
    def _state_file(self) -> Path:
        return self.root / "store.json"

    def _state(self) -> _State | None:
        try:
            return _State.model_validate_json(self._state_file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def _is_ready(self, wanted: _State) -> bool:
        if not self.database.exists() or self._state() != wanted:
            return False
        self.check()
        return True


def initialise_store(root: Path) -> MlflowStore:
    """Make, migrate or relocate the store if it needs that; safe from many processes at once.

    A migration replaces the database file: stop MLflow's own server before the library is updated.

    Raises:
        RegistryError: the database is damaged.
    """
    store = MlflowStore(root.resolve())
    wanted = _State(root=str(store.root), mlflow=version("mlflow"))
    if store._is_ready(wanted):
        return store
    store.root.mkdir(parents=True, exist_ok=True)
    with FileLock(store.root / ".lock"):
        if store._is_ready(wanted):
            return store
        state = store._state()
        if not store.database.exists() or state is None or state.mlflow != wanted.mlflow:
            _make_database(store)
        if state is not None and state.root != wanted.root:
            relocate(store, old_root=state.root)
        publish_bytes(store._state_file, wanted.model_dump_json().encode() + b"\n")
    return store


def relocate(store: MlflowStore, *, old_root: str) -> int:
    """Let the absolute paths of a moved store begin with its present folder; return how many."""
    prefixes = [
        (f"{Path(old_root).as_uri()}/", f"{store.root.as_uri()}/"),
        (f"{old_root}/", f"{store.root}/"),
    ]
    n_changed = 0
    with closing(sqlite3.connect(store.database, timeout=20)) as connection, connection:
        for table, column in _LOCATIONS:
            for old, new in prefixes:
                # Table and column are constants of this module.
                changed = connection.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) "  # noqa: S608
                    f"WHERE substr({column}, 1, ?) = ?",
                    (new, len(old) + 1, len(old), old),
                )
                n_changed += changed.rowcount
    return n_changed


def _make_database(store: MlflowStore) -> None:
    """Bring the database to MLflow's present schema under a temporary name, then publish it."""
    # MLflow takes seconds to import, and a store is made once.
    from harness_core.registry.mlflow_database import upgrade_database  # noqa: PLC0415

    scratch = store.root / f".tmp-{os.getpid()}-mlflow.db"
    _remove_database(scratch)
    try:
        if store.database.exists():
            store.check()
            _copy_database(store.database, scratch)
        upgrade_database(scratch, artifacts=store.artifacts)
        with closing(sqlite3.connect(scratch)) as connection:
            # Readers and one writer side by side; the setting stays with the file.
            connection.execute("PRAGMA journal_mode = WAL")
        _remove_database(store.database, but_file=True)
        scratch.replace(store.database)
    finally:
        _remove_database(scratch)


def _copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _remove_database(path: Path, *, but_file: bool = False) -> None:
    """Remove a database with its journals, or the journals alone."""
    for suffix in ("-wal", "-shm", "-journal") if but_file else ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
