"""Where a model came from, by its digest: registered version, run, revision and data."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import orjson

from harness_core.records import Record
from harness_core.registry.store import MlflowStore

_LINEAGE: Final = "lineage.json"
_MAX_BYTES: Final = 1 << 20


class ModelOrigin(Record):
    """One registered version that holds the model."""

    name: str
    version: int
    aliases: tuple[str, ...]
    run_id: str
    teacher: str | None
    """Digest of the model that it was distilled from."""
    git_revision: str | None
    """Commit of the working folder; `+` behind it says that there were changes beside it."""
    dataset_digest: str | None
    dvc: dict[str, str]
    """Path → digest in `dvc.lock` at that revision."""


def model_origin(store: MlflowStore, model_digest: str) -> ModelOrigin | None:
    """The newest version that holds a model; None if none does."""
    versions = store.versions_of(model_digest)
    if not versions:
        return None
    found = versions[0]
    lineage = {**found.tags, **_lineage(found.artifact_uri)}
    revision = lineage.get("git_sha")
    known = revision if revision and revision != "none" else None
    dvc = lineage.get("dvc")
    return ModelOrigin(
        name=found.name,
        version=found.version,
        aliases=found.aliases,
        run_id=found.run_id,
        teacher=found.tags.get("teacher") or None,
        git_revision=f"{known}+" if known and lineage.get("dirty") == "true" else known,
        dataset_digest=lineage.get("dataset_digest"),
        dvc={str(key): str(value) for key, value in dvc.items()} if isinstance(dvc, dict) else {},
    )


def _lineage(artifact_uri: str) -> dict[str, Any]:
    """What the run wrote beside its figures; nothing where that is gone or somewhere else."""
    address = urlsplit(artifact_uri)
    if address.scheme not in {"", "file"} or not artifact_uri:
        return {}
    path = Path(url2pathname(address.path)) / _LINEAGE
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}
