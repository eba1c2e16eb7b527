"""A model registry in a plain folder, for tests and for those who want no MLflow.

```
<root>/versions/<n>/version.json   written last: a version without it does not exist
                    model/         the model folder
       aliases/<alias>             the number of a version
```
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from harness_core.controller.manifest import read_manifest
from harness_core.errors import RegistryError
from harness_core.registry.folders import copy_model
from harness_core.registry.versions import MODEL_DIGEST, RUN_KEY, ModelVersion
from harness_core.tables import publish_bytes


class LocalRegistry:
    """Implements `ModelRegistry` with files and a lock that dies with its process."""

    def __init__(self, root: Path) -> None:
        self._versions = root / "versions"
        self._aliases = root / "aliases"
        self._lock = FileLock(root / ".lock")
        self._versions.mkdir(parents=True, exist_ok=True)

    def register(
        self, folder: Path, *, run_key: str, tags: Mapping[str, str], run_id: str = ""
    ) -> int:
        """See `ModelRegistry.register`."""
        digest = read_manifest(folder).digest
        with self._lock:
            numbers = self._numbers()
            for number in numbers:
                if self.describe(number).tags[RUN_KEY] == run_key:
                    return number
            version = ModelVersion(
                version=max(numbers, default=0) + 1,
                aliases=(),
                tags={**tags, RUN_KEY: run_key, MODEL_DIGEST: digest},
                run_id=run_id,
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            home = self._versions / str(version.version)
            copy_model(folder, home / "model")
            publish_bytes(home / "version.json", version.model_dump_json(indent=2).encode())
            return version.version

    def set_alias(self, alias: str, version: int) -> None:
        """See `ModelRegistry.set_alias`."""
        self.describe(version)
        publish_bytes(self._aliases / alias, str(version).encode())

    def get_alias(self, alias: str) -> int | None:
        """See `ModelRegistry.get_alias`."""
        path = self._aliases / alias
        return int(path.read_bytes()) if path.exists() else None

    def describe(self, version: int) -> ModelVersion:
        """See `ModelRegistry.describe`."""
        try:
            content = (self._versions / str(version) / "version.json").read_bytes()
        except FileNotFoundError as error:
            raise RegistryError(f"there is no version {version} in {self._versions}") from error
        stored = ModelVersion.model_validate_json(content)
        names = sorted(path.name for path in self._aliases.glob("[!.]*"))
        aliases = tuple(name for name in names if self.get_alias(name) == version)
        return stored.model_copy(update={"aliases": aliases})

    def fetch(self, version: int, target: Path) -> None:
        """See `ModelRegistry.fetch`."""
        self.describe(version)
        copy_model(self._versions / str(version) / "model", target)

    def _numbers(self) -> list[int]:
        found = self._versions.glob("*/version.json")
        return sorted(int(path.parent.name) for path in found)
