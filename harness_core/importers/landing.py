"""How logs land below `data/raw/`: copied, named, with their format beside them.

A landed source is a copy: later changes of the original change nothing until it is landed again.
"""

import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

import orjson

from harness_core.errors import DataError, NoDataError, ParameterError
from harness_core.importers.base import SOURCE_FILE, Importer, is_log
from harness_core.importers.sniff import AUTO, importer_named, sniffed
from harness_core.tables import publish_bytes, tree_digest

RAW: Final = "data/raw"
"""Where sources land; a test compares it with the table of stages, which stands above us."""

_GENERIC: Final = re.compile(
    r"(bash|ctf|data|datasets?|jsonl?|logs?|outputs?|python|raw|results|runs|sql|test|train"
    r"|trajector(y|ies))(\.\w+)*",
    re.IGNORECASE,
)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS: Final = 64
_N_TRIES: Final = 5


class Workspace(Protocol):
    """The working folder of a run; `stages.dag` has the real one."""

    def path(self, relative: str) -> Path:
        """Absolute path of a path below it."""


def land(
    source_path: Path, format_name: str, *, name: str | None = None, workspace: Workspace
) -> str:
    """Copy a file or folder to `data/raw/<name>/` of the working folder and return the name.

    Only files that the format reads are copied. Landing the same content again touches nothing;
    content that has changed takes the place of the old in one rename.

    Raises:
        NoDataError: there is nothing to copy.
        ParameterError: the format is unknown or not recognised, or the name cannot be one.
    """
    if not source_path.exists():
        raise NoDataError(f"{source_path} does not exist")
    source_path = source_path.resolve()
    source_name = source_name_of(source_path) if name is None else _checked(name)
    target = workspace.path(f"{RAW}/{source_name}")
    for _ in range(_N_TRIES - 1):
        try:
            _copy_all(source_path, format_name, target)
        except FileNotFoundError:
            # A log that is being written to was rotated between listing and copying.
            continue
        return source_name
    _copy_all(source_path, format_name, target)
    return source_name


def _copy_all(source_path: Path, format_name: str, target: Path) -> None:
    folder = source_path if source_path.is_dir() else source_path.parent
    paths = _logs_of(source_path)
    importer = sniffed(folder, paths) if format_name == AUTO else importer_named(format_name)
    chosen = [path for path in paths if importer.reads(path)]
    if not chosen:
        raise NoDataError(f"{source_path} holds no file that format '{importer.name}' reads")
    _publish(folder, chosen, importer, target)


def source_name_of(path: Path) -> str:
    """A name for a source; a folder with an everyday name takes its parent's along."""
    stem = path.name.split(".")[0] if path.is_file() else path.name
    parts = [path.parent.name, stem] if _GENERIC.fullmatch(stem) else [stem]
    name = _UNSAFE.sub("-", "-".join(filter(None, parts))).strip(".-")[:_MAX_NAME_CHARS]
    return name or "source"


def _checked(name: str) -> str:
    if _UNSAFE.search(name) or name.startswith((".", "-")) or not 0 < len(name) <= _MAX_NAME_CHARS:
        raise ParameterError(
            f"source name '{name}': use at most {_MAX_NAME_CHARS} letters, digits, '.', '_' and '-'"
        )
    return name


def _logs_of(source_path: Path) -> list[PurePosixPath]:
    """Files relative to their folder. Folders behind links are not entered: they may loop."""
    if source_path.is_file():
        return [PurePosixPath(source_path.name)]
    found = [
        PurePosixPath((Path(parent) / file).relative_to(source_path).as_posix())
        for parent, _, files in os.walk(source_path)
        for file in files
        if (Path(parent) / file).is_file()
    ]
    return sorted(filter(is_log, found))


def _publish(folder: Path, paths: list[PurePosixPath], importer: Importer, target: Path) -> None:
    """Build the new folder beside the old one, then swap them if they differ."""
    fresh = target.with_name(f".fresh-{os.getpid()}-{target.name}")
    stale = target.with_name(f".stale-{target.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    if stale.exists() and not target.exists():
        # A process died between the two renames.
        stale.rename(target)
    try:
        for path in paths:
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            _copy(folder / path, fresh / path)
        description = orjson.dumps({"format": importer.name}, option=orjson.OPT_SORT_KEYS)
        publish_bytes(fresh / SOURCE_FILE, description + b"\n")
        if target.exists() and tree_digest(target) == tree_digest(fresh):
            return
        shutil.rmtree(stale, ignore_errors=True)
        if target.exists():
            target.rename(stale)
        fresh.rename(target)
        shutil.rmtree(stale, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _copy(original: Path, copy: Path) -> None:
    try:
        shutil.copyfile(original, copy)
    except PermissionError as error:
        raise DataError(f"{original}: not permitted to read it; change that or move it") from error
