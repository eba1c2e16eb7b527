"""Memory and processor time of a process, and of the processes that it started."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

_TICK: int = os.sysconf("SC_CLK_TCK")
_PAGE_MB: float = os.sysconf("SC_PAGE_SIZE") / 2**20
_N_FLOORS = 2


class Spent(NamedTuple):
    """Processor time in seconds."""

    own: float
    children: float
    """Of processes that it started and that still run, and of theirs."""

    @classmethod
    def of(cls, process: "subprocess.Popen[bytes]") -> Self:
        """What was spent so far; 0 where the system does not tell."""
        own, *children = (_seconds(pid) for pid in family(process.pid))
        return cls(own, sum(children))

    def __sub__(self, other: "Spent") -> "Spent":
        """What was spent between two looks."""
        return Spent(self.own - other.own, self.children - other.children)

    def by_request(self, n: int) -> dict[str, float]:
        """Milliseconds of a request, in the process itself and in those that it started."""
        return {
            "own": round(1000 * self.own / n, 3),
            "children": round(1000 * self.children / n, 3),
        }


class Memory:
    """Resident memory over time."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._pid = process.pid
        self._samples: list[tuple[float, float, float]] = []

    def note(self) -> None:
        """Take a sample; nothing happens where the system does not tell."""
        with contextlib.suppress(OSError):
            own, *children = (_resident_mb(pid) for pid in family(self._pid))
            self._samples.append((time.monotonic(), own, sum(children)))

    def slopes(self) -> dict[str, float | None]:
        """MB a minute of the process itself, and of those that it started.

        Each is that of a line through the later two thirds of the samples.
        """
        return {"own": self._slope(1, None), "children": self._slope(2, None)}

    def floor_slopes(self) -> dict[str, float | None]:
        """The same of a line through the least of each half of these samples.

        Where memory that was freed is not given back at once, what is used goes up and down by
        some MB; what is never freed lifts the least of it by as much as everything else.
        """
        return {"own": self._slope(1, _N_FLOORS), "children": self._slope(2, _N_FLOORS)}

    def _slope(self, column: int, n_floors: int | None) -> float | None:
        settled = self._samples[len(self._samples) // 3 :]
        if len(settled) < (n_floors or 3):
            return None
        at, used = np.array(settled)[:, [0, column]].T
        if n_floors is not None:
            at = np.array([part.mean() for part in np.array_split(at, n_floors)])
            used = np.array([part.min() for part in np.array_split(used, n_floors)])
        return round(float(np.polyfit((at - at[0]) / 60.0, used, 1)[0]), 3)


def family(pid: int) -> Iterator[int]:
    """A process and all that it started, and so on."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                yield from family(int(child))


def _seconds(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICK


def _resident_mb(pid: int) -> float:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE_MB
