"""The two side effects of a run on the world: data versions in DVC, the model in MLflow."""

from pathlib import Path
from typing import Any

from flows import snapshot as versions
from flows.steps import params_of
from harness_core.stages import register as registration
from harness_core.stages.dag import Workspace
from harness_core.stages.project import locked_digests


def snapshot(root: str) -> dict[str, str]:
    """Version data and outputs; return the DVC digest of each."""
    return versions.snapshot(Workspace(Path(root)))


def register(root: str) -> dict[str, Any]:
    """Register the candidate model, and promote it if the verdict says so."""
    workspace = Workspace(Path(root))
    params = params_of(workspace)
    context = registration.run_context(workspace, params, dvc_digests=locked_digests(workspace))
    return registration.run(params.registry, workspace, run_context=context).figures
