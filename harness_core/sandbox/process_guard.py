"""A pids cgroup around one box: the bound on processes where RLIMIT_NPROC does not hold.

The kernel never counts RLIMIT_NPROC against the machine's root user, in no user namespace. So a box
that root starts is put into a cgroup of its own, where this process may make one (cgroup v1 with
its pids controller writable, or v2 at the top of the hierarchy). For other users the rlimit holds.
"""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "harness-box-"
_ENTER: Final = 'echo $$ > "$0" && exec "$@"'
_EMPTYING_S: Final = 2.0
_numbers: Final = itertools.count()


class PidsCgroup:
    """A cgroup that holds at most so many processes; `remove` it when they are dead."""

    def __init__(self, folder: Path, n_processes: int) -> None:
        folder.mkdir()
        self._folder = folder
        try:
            (folder / "pids.max").write_text(str(n_processes))
        except OSError:
            self.remove()
            raise

    def around(self, command: Sequence[str]) -> tuple[str, ...]:
        """A command that enters the cgroup and becomes the given one."""
        # The shell moves itself before it becomes the box: moving it later would miss its children.
        return ("/bin/sh", "-c", _ENTER, str(self._folder / "cgroup.procs"), *command)

    def remove(self) -> None:
        """Remove it, waiting a moment for the kernel to bury what was killed."""
        deadline = time.monotonic() + _EMPTYING_S
        while self._folder.exists():
            try:
                self._folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)


def guard(n_processes: int) -> PidsCgroup | None:
    """A new cgroup below the one of this process, or None if none can be made."""
    for parent in _parents():
        _sweep(parent)
        with suppress(OSError):
            return PidsCgroup(parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}", n_processes)
    return None


def _parents() -> Iterator[Path]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            yield _ROOT / "pids" / path.lstrip("/")
    with suppress(OSError):
        # In version 2 a group that holds processes hands no controller down; the top one may.
        if "pids" in (_ROOT / "cgroup.subtree_control").read_text().split():
            yield _ROOT


def _sweep(parent: Path) -> None:
    """Remove what a process left that was killed before it could."""
    for folder in parent.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path(f"/proc/{owner}").exists():
            with suppress(OSError):
                folder.rmdir()
