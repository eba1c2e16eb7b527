"""The champion as plain files, where stages and controllers read it."""

from pathlib import Path
from typing import Any, Final

import orjson

from harness_core.controller.manifest import read_manifest
from harness_core.errors import ModelError
from harness_core.registry.folders import replaced_folder
from harness_core.registry.versions import CHAMPION, MODEL_DIGEST, ModelRegistry
from harness_core.tables import publish_bytes

NONE_MARKER: Final = "none.json"
"""The only file of the folder while there is no champion."""


def fetch_champion(registry: ModelRegistry, target: Path) -> int | None:
    """Bring the champion's model folder up to date; return its version, None if there is none.

    A folder that already holds the champion is left as it is.
    """
    version = registry.get_alias(CHAMPION)
    if version is None:
        put_none(target)
        return None
    if held_digest(target) != registry.describe(version).tags.get(MODEL_DIGEST):
        registry.fetch(version, target)
    return version


def put_none(target: Path) -> None:
    """Say that there is no champion."""
    content = orjson.dumps({"champion": None}) + b"\n"
    marker = target / NONE_MARKER
    if marker.exists() and marker.read_bytes() == content and len(list(target.iterdir())) == 1:
        return
    with replaced_folder(target) as scratch:
        publish_bytes(scratch / NONE_MARKER, content)


def held_digest(target: Path) -> str | None:
    """Digest of the model in a folder; None where there is none or it is damaged."""
    try:
        return read_manifest(target).digest
    except ModelError:
        return None


def describe_champion(registry: ModelRegistry) -> dict[str, Any] | None:
    """The champion for people: version, aliases, tags, run, time; None if there is none."""
    version = registry.get_alias(CHAMPION)
    return None if version is None else registry.describe(version).model_dump(mode="json")
