"""Which format a folder of logs has, judged by the names of its files and how they begin."""

import difflib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from harness_core.errors import ParameterError
from harness_core.importers.base import Importer
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.framing import head_of

AUTO: Final = "auto"

_HEAD_BYTES: Final = 1 << 16
_MAX_FILES: Final = 64
_SURE_ENOUGH: Final = 0.5


def importer_named(name: str) -> Importer:
    """The importer of a format.

    Raises:
        ParameterError: there is none; the message names the nearest.
    """
    if name in IMPORTERS:
        return IMPORTERS[name]
    nearest = difflib.get_close_matches(name, IMPORTERS, n=1)
    hint = f" (did you mean '{nearest[0]}'?)" if nearest else ""
    raise ParameterError(f"format '{name}' is unknown{hint}; known: {', '.join(IMPORTERS)}, {AUTO}")


def sniffed(folder: Path, paths: Iterable[PurePosixPath]) -> Importer:
    """The importer that is surest about the files of a folder.

    Raises:
        ParameterError: none is sure enough.
    """
    best: tuple[float, Importer] | None = None
    for path in sorted(paths)[:_MAX_FILES]:
        readers = [importer for importer in IMPORTERS.values() if importer.reads(path)]
        head = head_of(folder / path, n_bytes=_HEAD_BYTES) if readers else b""
        for importer in readers:
            confidence = importer.sniff(path, head)
            if confidence >= _SURE_ENOUGH and (best is None or confidence > best[0]):
                best = (confidence, importer)
    if best is None:
        known = ", ".join(IMPORTERS)
        raise ParameterError(f"{folder}: format not recognised; name it with --format ({known})")
    return best[1]
