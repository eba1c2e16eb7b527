"""Numbered versions of a model and the names that point to them: what every registry offers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from pydantic import Field

from harness_core.records import Record

CHAMPION: Final = "champion"
"""The version in use. Moving it is the only commit point of a run."""
CHALLENGER: Final = "challenger"
"""The version registered last."""
PREVIOUS: Final = "previous"
"""The champion before the present one, for a rollback."""

RUN_KEY: Final = "run_key"
MODEL_DIGEST: Final = "model_digest"


class ModelVersion(Record):
    """One registered version. Its files never change; its aliases come and go."""

    version: int = Field(ge=1)
    aliases: tuple[str, ...]
    tags: dict[str, str]
    """At least `run_key` and `model_digest`."""
    run_id: str
    """The run that made it; empty where the registry keeps no runs."""
    created_at: str
    """UTC, ISO 8601."""


class ModelRegistry(Protocol):
    """One named model with its versions and aliases."""

    def register(
        self, folder: Path, *, run_key: str, tags: Mapping[str, str], run_id: str = ""
    ) -> int:
        """Store a complete model folder as a new version and return its number.

        A run key that is registered already gives its version, and nothing is stored.

        Raises:
            ModelError: the folder is incomplete or damaged.
        """

    def set_alias(self, alias: str, version: int) -> None:
        """Let an alias point to a version, atomically.

        Raises:
            RegistryError: no such version.
        """

    def get_alias(self, alias: str) -> int | None:
        """The version that an alias points to."""

    def describe(self, version: int) -> ModelVersion:
        """What is known of a version.

        Raises:
            RegistryError: no such version.
        """

    def fetch(self, version: int, target: Path) -> None:
        """Put the model folder of a version at `target`, verified, in place of what is there.

        Raises:
            RegistryError: no such version.
            ModelError: the stored files are not those that the manifest names.
        """
