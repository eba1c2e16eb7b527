"""How a runner is started: what a backend hands to a box, and the start without any isolation."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INSIDE: Final = Path(__file__).with_name("inside")
"""The sources of the runner."""
PACKAGE_IN_BOX: Final = "harness_core/sandbox/inside"
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
SCRATCH: Final = "/scratch"
NOBODY: Final = "65534"
LIBRARY_FOLDERS: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64")
FLAGS: Final = ("-s", "-S", "-B", "-P")
"""Isolated like -I, but -I would also ignore PYTHONHASHSEED; the environment is empty anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command that starts a runner on its standard input and output, and what it may grant."""

    command: tuple[str, ...]
    environment: dict[str, str]
    readable: tuple[str, ...]
    """Folders that a candidate may read; the runner adds its own standard library."""
    scratch: str
    layer: str | None
    """Name of what isolates the runner; None if nothing does."""
    advice: str = ""
    """What to do if it does not start."""
    limits_processes: bool = False
    """Whether a candidate's RLIMIT_NPROC counts the processes of its box alone."""
    preamble: bytes = b""
    """What the command reads before the runner does."""
    ending: tuple[str, ...] = ()
    """A command that ends what outlives the first one."""


def unboxed(scratch: str) -> Launch:
    """Launch the same runner without any isolation."""
    return Launch(
        command=(str(interpreter()), *FLAGS, "-c", start_runner(str(INSIDE.parents[2]))),
        environment=environment(scratch),
        readable=(),
        scratch=scratch,
        layer=None,
    )


def start_runner(root: str) -> str:
    """Python source that runs the runner whose package lies below `root`."""
    return (
        f"import sys; sys.path.insert(0, {root!r}); "
        "from harness_core.sandbox.inside import runner; sys.path.pop(0); runner.main()"
    )


def interpreter() -> Path:
    """The interpreter that a virtual environment is made of."""
    # A virtual environment's python is a link, and its own folder does not exist in the box.
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def environment(scratch: str) -> dict[str, str]:
    """All of the environment of a box."""
    return {
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "PATH": "/nowhere",
        "HOME": scratch,
        "TMPDIR": scratch,
    }
