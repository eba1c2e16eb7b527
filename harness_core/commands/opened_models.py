"""How a server opens the models that it uses: checked, with a sandbox if wanted, warmed up."""

import logging
from pathlib import Path
from typing import Final

from harness_core.controller.controller import Controller
from harness_core.errors import IsolationUnavailable
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import run_limits
from harness_core.params import load_params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.protocol import Sandbox
from harness_core.serving.selector import Located, OpenModel
from harness_core.stages.dag import Workspace
from harness_core.stages.project import PARAMS

_LOG: Final = logging.getLogger("harness")
_NOT_RUN: Final = (
    "model %s learnt from programs that were run, and here none are: for Python it chooses worse, "
    "and its probabilities, its risk and the threshold on it do not hold; %s"
)


class OpenedModels:
    """Opens models for `serving.worker`."""

    def __init__(self, workspace: Workspace, *, run_programs: bool) -> None:
        self._workspace = workspace
        self._run_programs = run_programs

    def open_folder(self, located: Located) -> OpenModel:
        """Open a model, with a sandbox of its own if programs are to be run.

        Raises:
            ModelError: the folder is damaged.
        """
        sandbox = self._sandbox(located.folder) if self._run_programs else None
        try:
            controller = Controller.load(located.folder, sandbox=sandbox, version=located.version)
            if sandbox is None and controller.manifest.ran_programs:
                _LOG.warning(_NOT_RUN, located.version, self._why_not_run())
            _warm_up(controller)
        except BaseException:
            _close(sandbox)
            raise
        return OpenModel(
            version=located.version,
            selector=controller,
            k_max=controller.manifest.k_max,
            close=lambda: _close(sandbox),
        )

    def _why_not_run(self) -> str:
        if self._run_programs:
            return "there is no sandbox on this machine (`harness doctor` says what it lacks)"
        return "start with --run-programs"

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
