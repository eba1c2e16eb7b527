"""Whether the linter finds anything in a program: one run of ruff over a folder of all programs.

Our own rule list, and neither configuration files nor comments of the candidate count.
"""

import hashlib
import logging
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import orjson
from ruff import find_ruff_bin  # type: ignore[import-untyped]  # a wheel around a binary

from harness_core.rewards.programs import has_valid_syntax

_LOG: Final = logging.getLogger("harness")

_SELECT: Final = "E4,E7,E9,F,W605,B,S102,SIM"
# A program repeats the prompt of its task. What a prompt often breaks (line length and blanks in
# docstrings, imports offered and not needed, offered twice or as a star) is no fault of its own.
_IGNORE: Final = "F401,F403,F405,F811,E402"
_TIMEOUT_S: Final = 300.0
_FINISHED: Final = frozenset({0, 1})


def clean_programs(programs: Iterable[str]) -> frozenset[str]:
    """Those programs in which the linter finds nothing. One that does not parse is not clean."""
    readable = sorted({program for program in programs if has_valid_syntax(program)})
    if not readable:
        return frozenset()
    with tempfile.TemporaryDirectory(prefix="harness-style-") as folder:
        names = {_digest(program): program for program in readable}
        for name, program in names.items():
            (Path(folder) / name).write_text(program, encoding="utf-8", newline="")
        found = _files_with_findings(Path(folder), sorted(names))
    return frozenset(program for name, program in names.items() if name not in found)


def _files_with_findings(folder: Path, names: Sequence[str]) -> set[str]:
    """Names of files with a finding; a file that breaks the linter is found by halving."""
    finished = _run_linter(folder, names)
    if finished is not None:
        return finished
    if len(names) == 1:
        _LOG.info("the linter cannot read one program (%s); it counts as not clean", names[0])
        return set(names)
    middle = len(names) // 2
    return _files_with_findings(folder, names[:middle]) | _files_with_findings(
        folder, names[middle:]
    )


def _run_linter(folder: Path, names: Sequence[str]) -> set[str] | None:
    arguments = folder / "arguments.txt"
    arguments.write_text("\n".join(names), encoding="utf-8")
    command = [
        *(find_ruff_bin(), "check", "--isolated", "--ignore-noqa", "--no-cache", "--quiet"),
        *("--no-respect-gitignore", "--target-version", "py311", "--output-format", "json"),
        *("--select", _SELECT, "--ignore", _IGNORE, f"@{arguments}"),
    ]
    try:
        process = subprocess.run(  # noqa: S603  # our own linter on files that it only reads
            command, cwd=folder, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if process.returncode not in _FINISHED:
        return None
    return {Path(finding["filename"]).name for finding in orjson.loads(process.stdout)}


def _digest(program: str) -> str:
    return f"{hashlib.sha256(program.encode()).hexdigest()}.py"
