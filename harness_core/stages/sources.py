"""Sources and overrides that a person names on the command line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from harness_core.errors import ParameterError
from harness_core.importers.landing import land
from harness_core.stages.dag import RAW, Workspace
from harness_core.stages.land_traces import is_experiment, land_traces


def land_source(path: Path, format_name: str, workspace: Workspace) -> str:
    """Copy logs below `data/raw/` and return the name of the source.

    A folder that already lies there is taken as it is. `mlflow:EXPERIMENT` names the traces of an
    experiment.

    Raises:
        ParameterError: the path does not exist or the format is unknown.
    """
    if is_experiment(path):
        return land_traces(path, workspace)
    if not path.exists():
        raise ParameterError(f"--source {path}: no such file or folder")
    raw = workspace.path(RAW)
    if path.resolve().parent == raw.resolve():
        return path.name
    return land(path, format_name, workspace=workspace)


def read_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """`section.key=value` texts as a mapping, values read as YAML."""
    values: dict[str, Any] = {}
    for override in overrides:
        name, separator, text = override.partition("=")
        if not separator:
            raise ParameterError(f"--set {override}: expected section.key=value")
        values[name] = yaml.safe_load(text)
    return values
