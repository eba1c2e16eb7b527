"""MLflow as model registry: each version is a pyfunc, made from code, that MLflow can serve."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import orjson
import pandas as pd
from filelock import FileLock

from harness_core import __version__
from harness_core.controller.manifest import read_manifest
from harness_core.errors import RegistryError
from harness_core.registry.folders import copy_model
from harness_core.registry.mlflow_database import (
    ALREADY_EXISTS,
    experiment_id,
    open_client,
    quiet,
)
from harness_core.registry.mlflow_quietly import (
    ColSpec,
    LoggedModelOutput,
    LoggedModelStatus,
    MlflowException,
    Model,
    ModelSignature,
    Schema,
    pyfunc,
)
from harness_core.registry.store import MlflowStore
from harness_core.registry.versions import MODEL_DIGEST, RUN_KEY, ModelVersion

_SERVED_CODE: Final = Path(__file__).with_name("serve_model.py")
_ARTIFACT: Final = "model"
_DOES_NOT_EXIST: Final = "RESOURCE_DOES_NOT_EXIST"
_INVALID: Final = "INVALID_PARAMETER_VALUE"
"""What MLflow answers to an alias that is not set."""

_SIGNATURE: Final = ModelSignature(
    inputs=Schema(
        [
            ColSpec("string", "state"),
            ColSpec("string", "candidates"),
            ColSpec("string", "goal", required=False),
        ]
    ),
    outputs=Schema([ColSpec("string")]),
)
_EXAMPLE: Final = {
    "state": '{"description": "Add two numbers.", "language": "python"}',
    "candidates": '[{"text": "def add(a, b):\\n    return a + b\\n"}]',
}


class MlflowRegistry:
    """Implements `ModelRegistry`; each version is a pyfunc that MLflow can serve."""

    def __init__(
        self,
        store: MlflowStore,
        *,
        experiment: str,
        model_name: str,
        served_code: Path = _SERVED_CODE,
    ) -> None:
        self._store = store
        self._client = open_client(store)
        self._experiment = experiment
        self._name = model_name
        self._served_code = served_code

    def register(
        self, folder: Path, *, run_key: str, tags: Mapping[str, str], run_id: str = ""
    ) -> int:
        """See `ModelRegistry.register`."""
        manifest = read_manifest(folder)
        with FileLock(self._store.root / ".register.lock"), quiet():
            known = self._find(run_key)
            if known is not None:
                return known
            all_tags = {**tags, RUN_KEY: run_key, MODEL_DIGEST: manifest.digest}
            logged = self._log_model(folder, run_id=run_id, tags=all_tags)
            self._ensure_name()
            # By address: a model given as `models:/<id>`, or by its id without a run, would be
            # looked up in MLflow's global store.
            created = self._client.create_model_version(
                self._name,
                source=logged.artifact_location,
                run_id=run_id or None,
                tags=all_tags,
                model_id=logged.model_id if run_id else None,
            )
            link = [{"name": self._name, "version": int(created.version)}]
            self._client.set_logged_model_tags(
                logged.model_id, {"mlflow.modelVersions": orjson.dumps(link).decode()}
            )
            return int(created.version)

    def set_alias(self, alias: str, version: int) -> None:
        """See `ModelRegistry.set_alias`."""
        with _refusals(f"version {version} of {self._name}"):
            self._client.set_registered_model_alias(self._name, alias, str(version))

    def get_alias(self, alias: str) -> int | None:
        """See `ModelRegistry.get_alias`."""
        try:
            found = self._client.get_model_version_by_alias(self._name, alias)
        except MlflowException as error:
            if error.error_code in {_DOES_NOT_EXIST, _INVALID}:
                return None
            raise
        return int(found.version)

    def describe(self, version: int) -> ModelVersion:
        """See `ModelRegistry.describe`."""
        found = self._get(version)
        created = datetime.fromtimestamp(found.creation_timestamp / 1000, UTC)
        return ModelVersion(
            version=version,
            aliases=tuple(sorted(found.aliases)),
            tags=dict(found.tags),
            run_id=found.run_id or "",
            created_at=created.isoformat(timespec="seconds"),
        )

    def fetch(self, version: int, target: Path) -> None:
        """See `ModelRegistry.fetch`."""
        source = self._get(version).source
        folder = Path(url2pathname(urlsplit(source).path)) / "artifacts" / _ARTIFACT
        copy_model(folder, target)

    def _get(self, version: int) -> Any:
        with _refusals(f"version {version} of {self._name}"):
            return self._client.get_model_version(self._name, str(version))

    def _find(self, run_key: str) -> int | None:
        query = f"name = '{self._name}' and tags.{RUN_KEY} = '{run_key}'"
        found = self._client.search_model_versions(query)
        return min((int(item.version) for item in found), default=None)

    def _ensure_name(self) -> None:
        try:
            self._client.create_registered_model(
                self._name, description="Steers an agent: scores its candidate actions."
            )
        except MlflowException as error:
            if error.error_code != ALREADY_EXISTS:
                raise

    def _log_model(self, folder: Path, *, run_id: str, tags: Mapping[str, str]) -> Any:
        home = experiment_id(self._client, self._store, self._experiment)
        logged = self._client.create_logged_model(
            home, name=self._name, source_run_id=run_id or None, tags=dict(tags)
        )
        with tempfile.TemporaryDirectory() as scratch:
            # MLflow names the artifact after the folder that it is given.
            copy_model(folder, Path(scratch) / _ARTIFACT)
            package = Path(scratch) / "package"
            pyfunc.save_model(
                path=str(package),
                python_model=str(self._served_code),
                artifacts={"model": str(Path(scratch) / _ARTIFACT)},
                # Named, else MLflow would start a process and import everything to guess.
                pip_requirements=[f"harness-core=={__version__}"],
                signature=_SIGNATURE,
                input_example=pd.DataFrame([_EXAMPLE]),
                mlflow_model=Model(
                    artifact_path=logged.artifact_location,
                    run_id=run_id or None,
                    model_id=logged.model_id,
                    model_uuid=logged.model_id,
                ),
            )
            self._client.log_model_artifacts(logged.model_id, str(package))
        self._client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
        if run_id:
            output = LoggedModelOutput(logged.model_id, step=0)
            self._client.log_outputs(run_id, models=[output])
        return logged


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turn MLflow's refusals into ours."""
    try:
        yield
    except MlflowException as error:
        raise RegistryError(f"MLflow refused {what}: {error.message}") from error
