"""Options that several verbs share, and the one way to print a result."""

import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from harness_core.errors import ParameterError
from harness_core.params import Params, load_params
from harness_core.settings import Settings
from harness_core.stages.dag import Workspace
from harness_core.stages.project import PARAMS, prepare_project

Workdir = Annotated[
    Path | None, typer.Option("--workdir", help="Folder that holds all state of a run.")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value, may be repeated.")
]
Sources = Annotated[
    list[Path] | None,
    typer.Option("--source", help="File or folder of logs, or NAME=PATH; may be repeated."),
]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="Format of each --source in turn; `auto` looks at the content."),
]
Model = Annotated[
    str,
    typer.Option(
        "--model", help="`champion`, `candidate`, `student`, a version, or a model folder."
    ),
]

UnsafeLocal = Annotated[
    bool,
    typer.Option(
        "--unsafe-local",
        help="Run programs without isolation: short for --set sandbox.backend=unsafe_local. Only "
        "for programs that you trust; what is computed is marked untrusted and never promoted.",
    ),
]


def print_json(value: Any) -> None:
    """The one JSON object of a command, on stdout."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    sys.stdout.write(orjson.dumps(value, option=options).decode() + "\n")


def pair_sources(sources: list[Path] | None, formats: list[str] | None) -> list[dict[str, str]]:
    """Join each source with its format; one format may serve all, none means `auto`."""
    paths = sources or []
    names = formats or ["auto"]
    if len(names) == 1:
        names = names * len(paths)
    if len(names) != len(paths):
        raise ParameterError(f"{len(paths)} --source but {len(names)} --format: give one for each")
    return [{"path": str(path), "format": name} for path, name in zip(paths, names, strict=True)]


def with_backend(overrides: list[str] | None, *, unsafe_local: bool) -> list[str]:
    """The overrides, with isolation switched off if that was asked for."""
    return [*(overrides or []), *(["sandbox.backend=unsafe_local"] if unsafe_local else [])]


def open_workspace(workdir: Path | None) -> Workspace:
    """The working folder that the options or the environment name."""
    return prepare_project(workdir or Settings().workdir)


def read_params(workspace: Workspace, overrides: list[str] | None) -> Params:
    """The parameters of a working folder, with overrides."""
    return load_params(workspace.path(PARAMS), overrides or ())
