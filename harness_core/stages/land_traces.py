"""Traces that MLflow recorded of an agent, landed as a source: `--source mlflow:EXPERIMENT`."""

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from harness_core.errors import ParameterError
from harness_core.importers.landing import land
from harness_core.registry.store import MlflowStore, initialise_store
from harness_core.stages.dag import Workspace
from harness_core.stages.register import STORE

PREFIX: Final = "mlflow:"
FORMAT: Final = "mlflow_traces"

_ADDRESS: Final = "MLFLOW_TRACKING_URI"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS: Final = 64


def is_experiment(source: Path) -> bool:
    """Whether a source names an experiment and no path."""
    return str(source).startswith(PREFIX)


def land_traces(source: Path, workspace: Workspace) -> str:
    """Copy the traces of an experiment below `data/raw/` and return the name of the source.

    They are read from where `MLFLOW_TRACKING_URI` says, else from the working folder's own store.

    Raises:
        ParameterError: no experiment is named, or there is no store.
        NoDataError: there is no such experiment, or it has no trace.
        RegistryError: MLflow refused.
    """
    experiment = str(source).removeprefix(PREFIX)
    name = _UNSAFE.sub("-", f"mlflow-{experiment}").strip(".-")[:_MAX_NAME_CHARS]
    if not experiment:
        raise ParameterError(f"--source {source}: expected {PREFIX}EXPERIMENT")
    from harness_core.registry.mlflow_traces import export_traces  # noqa: PLC0415  # seconds

    with tempfile.TemporaryDirectory() as scratch:
        export_traces(_address(workspace), experiment, Path(scratch))
        return land(Path(scratch), FORMAT, name=name, workspace=workspace)


def _address(workspace: Workspace) -> str:
    given = os.environ.get(_ADDRESS)
    if given:
        return given
    root = workspace.path(STORE)
    if not MlflowStore(root).database.exists():
        raise ParameterError(
            f"--source {PREFIX}…: there is no MLflow store below {workspace.root}; say where the "
            f"traces are with {_ADDRESS}"
        )
    return initialise_store(root).tracking_uri
