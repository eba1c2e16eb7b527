"""Which model a server uses, by the name that `--model` gives."""

from pathlib import Path
from typing import Final

from harness_core.controller.manifest import FILE_NAME
from harness_core.params import load_params
from harness_core.registry import champion as champions
from harness_core.registry.store import MlflowStore
from harness_core.registry.versions import MODEL_DIGEST
from harness_core.serving.selector import Located
from harness_core.stages.dag import CANDIDATE_MODEL, STUDENT_MODEL, Workspace
from harness_core.stages.project import PARAMS
from harness_core.stages.register import STORE, VERSIONS, fetch_version

_OWN: Final = {"candidate": CANDIDATE_MODEL, "student": STUDENT_MODEL}


class ServedModels:
    """Finds models for `serving.model_watch`."""

    def __init__(self, workspace: Workspace, model: str) -> None:
        self._workspace = workspace
        self._model = model

    def locate(self) -> Located | None:
        """The folder that the name stands for now. Looking costs milliseconds while it stays.

        Raises:
            ParameterError: there is no such version.
            HarnessError: it cannot be fetched.
        """
        path = self._workspace.path(_OWN[self._model]) if self._model in _OWN else Path(self._model)
        if self._model in _OWN or path.is_dir():
            return self._of_folder(path)
        if self._model.isdecimal():
            return Located(self._model, fetch_version(self._model, self._workspace))
        store = MlflowStore(self._workspace.path(STORE))
        if not store.database.exists():
            return None
        name = load_params(self._workspace.path(PARAMS)).registry.model_name
        target = store.alias(name, self._model)
        if target is None:
            return None
        fetched = self._workspace.path(f"{VERSIONS}/{target.version}")
        if champions.held_digest(fetched) != target.tags.get(MODEL_DIGEST):
            fetched = fetch_version(str(target.version), self._workspace)
        return Located(str(target.version), fetched)

    def _of_folder(self, path: Path) -> Located | None:
        try:
            status = (path / FILE_NAME).stat()
        except FileNotFoundError:
            return None
        return Located(f"{path.name}-{status.st_mtime_ns:x}", path)
