"""Which model a server uses, by the name that `--model` gives, and how it is opened."""

from pathlib import Path

from harness_core.controller.controller import Controller
from harness_core.controller.manifest import FILE_NAME
from harness_core.errors import IsolationUnavailable
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import run_limits
from harness_core.params import load_params
from harness_core.registry import champion as champions
from harness_core.registry.store import MlflowStore
from harness_core.registry.versions import MODEL_DIGEST
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.protocol import Sandbox
from harness_core.serving.model_watch import Located
from harness_core.serving.scorer import OpenModel
from harness_core.stages.dag import CANDIDATE_MODEL, STUDENT_MODEL, Workspace
from harness_core.stages.project import PARAMS
from harness_core.stages.register import STORE, VERSIONS
from harness_core.stages.score import model_folder

_OWN = {"candidate": CANDIDATE_MODEL, "student": STUDENT_MODEL}


class ServedModels:
    """Finds and opens models for `serving.model_watch`."""

    def __init__(self, workspace: Workspace, model: str, *, run_programs: bool) -> None:
        self._workspace = workspace
        self._model = model
        self._run_programs = run_programs

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
            return Located(self._model, model_folder(self._model, self._workspace))
        store = MlflowStore(self._workspace.path(STORE))
        if not store.database.exists():
            return None
        name = load_params(self._workspace.path(PARAMS)).registry.model_name
        target = store.alias(name, self._model)
        if target is None:
            return None
        fetched = self._workspace.path(f"{VERSIONS}/{target.version}")
        if champions.held_digest(fetched) != target.tags.get(MODEL_DIGEST):
            fetched = model_folder(str(target.version), self._workspace)
        return Located(str(target.version), fetched)

    def open_folder(self, located: Located) -> OpenModel:
        """Open a model, with a sandbox of its own if programs are to be run.

        Raises:
            ModelError: the folder is damaged.
        """
        import torch  # noqa: PLC0415  # seconds

        # Two decide at a time; more threads would take the event loop's core from it.
        torch.set_num_threads(1)
        sandbox = self._sandbox(located.folder) if self._run_programs else None
        try:
            controller = Controller.load(located.folder, sandbox=sandbox, version=located.version)
        except BaseException:
            _close(sandbox)
            raise
        _warm_up(controller)
        return OpenModel(
            version=located.version, selector=controller, close=lambda: _close(sandbox)
        )

    def _of_folder(self, path: Path) -> Located | None:
        try:
            status = (path / FILE_NAME).stat()
        except FileNotFoundError:
            return None
        return Located(f"{path.name}-{status.st_mtime_ns:x}", path)

    def _sandbox(self, folder: Path) -> Sandbox | None:
        features = FeaturePipeline.load(folder / "pipeline").config
        limits = load_params(self._workspace.path(PARAMS)).sandbox
        try:
            return open_sandbox(run_limits(limits, features))
        except IsolationUnavailable:
            # Execution signals are then unknown, which the features can say.
            return None


def _warm_up(controller: Controller) -> None:
    """Decide once on nothing much, so that encoders are loaded before somebody waits for them."""
    for language, text in (
        ("python", "def f():\n    return 1\n"),
        ("text", "One."),
        ("tools", "f"),
    ):
        kind = {"python": "code", "tools": "tool_call"}.get(language, "message")
        arguments = {"name": text, "arguments": {}} if language == "tools" else {}
        candidate = {"kind": kind, "text": text, "arguments": arguments}
        state = {"description": "Begin.", "language": language, "entry_point": "f"}
        controller.select(state, [candidate, candidate])


def _close(sandbox: Sandbox | None) -> None:
    if sandbox is not None:
        sandbox.__exit__(None, None, None)
