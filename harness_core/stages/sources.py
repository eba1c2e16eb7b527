"""Sources and overrides that a person names on the command line."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from harness_core.errors import ParameterError
from harness_core.importers.landing import land, source_name_of
from harness_core.stages.dag import RAW, Workspace
from harness_core.stages.land_traces import is_experiment, land_traces
from harness_core.tables import publish_bytes

_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)")
_ORIGINS: Final = ".harness/origins.json"
"""Where each landed source came from."""


def land_source(path: Path, format_name: str, workspace: Workspace) -> str:
    """Copy logs below `data/raw/` and return the name of the source.

    A folder that already lies there is taken as it is. `mlflow:EXPERIMENT` names the traces of an
    experiment. `NAME=PATH` names the source, which has its name from the path otherwise, and
    replaces what had the name before.

    Raises:
        ParameterError: the path does not exist, the format is unknown, or the name that comes from
            the path is that of a source from elsewhere.
    """
    if is_experiment(path):
        return land_traces(path, workspace)
    name: str | None = None
    if not path.exists() and (named := _NAMED.fullmatch(str(path))):
        name, path = named[1], Path(named[2])
    if not path.exists():
        raise ParameterError(f"--source {path}: no such file or folder")
    raw = workspace.path(RAW)
    if path.resolve().parent == raw.resolve():
        return path.name
    origins = _origins(workspace)
    origin = _origin(path, workspace)
    if name is None:
        name = source_name_of(path.resolve())
        other = origins.get(name, origin)
        if other != origin and workspace.path(f"{RAW}/{name}").exists():
            raise ParameterError(
                f"--source {path}: the name {name} is that of the logs of {other}; say NAME={path} "
                f"to keep both, or {name}={path} to replace them"
            )
    land(path, format_name, name=name, workspace=workspace)
    if origins.get(name) != origin:
        kept = orjson.dumps({**origins, name: origin}, option=orjson.OPT_SORT_KEYS)
        publish_bytes(workspace.path(_ORIGINS), kept + b"\n")
    return name


def _origin(path: Path, workspace: Workspace) -> str:
    """Where logs are, below the working folder relative to it, which may be moved."""
    here, root = path.resolve(), workspace.path(".").resolve()
    return str(here.relative_to(root) if here.is_relative_to(root) else here)


def _origins(workspace: Workspace) -> dict[str, str]:
    path = workspace.path(_ORIGINS)
    try:
        found = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}  # a working folder from before they were noted, or a torn one: nothing to compare
    return found if isinstance(found, dict) else {}


def read_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """`section.key=value` texts as a mapping, values read as YAML."""
    values: dict[str, Any] = {}
    for override in overrides:
        name, separator, text = override.partition("=")
        if not separator:
            raise ParameterError(f"--set {override}: expected section.key=value")
        values[name] = yaml.safe_load(text)
    return values
