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

    def __init__(self, process: "subprocess.Popen[bytes]", *, block_s: float = 30.0) -> None:
        """Nothing is known at first.

        Args:
            process: whose memory it is, with what it started.
            block_s: seconds that are taken together, in which memory goes up and down anyway.
        """
        self._pid = process.pid
        self._block_s = block_s
        self._samples: list[tuple[float, float, float]] = []

    def note(self) -> None:
        """Take a sample; nothing happens where the system does not tell."""
        with contextlib.suppress(OSError):
            own, *children = (_resident_mb(pid) for pid in family(self._pid))
            self._samples.append((time.monotonic(), own, sum(children)))

    def slopes(self) -> dict[str, float | None]:
        """MB a minute of the process itself, and of those that it started.

        Each is that of a line through the later two thirds of the samples, block by block.
        """
        return {name: slope for name, (slope, _) in self._lines().items()}

    def slope_errors(self) -> dict[str, float | None]:
        """Standard errors of the slopes, MB a minute.

        Samples next to each other tell the same, so that the line and its error are those of the
        means of blocks.
        """
        return {name: error for name, (_, error) in self._lines().items()}

    def _lines(self) -> dict[str, tuple[float | None, float | None]]:
        return {"own": self._line(1), "children": self._line(2)}

    def _line(self, column: int) -> tuple[float | None, float | None]:
        settled = self._samples[len(self._samples) // 3 :]
        if not settled:
            return None, None
        at, used = np.array(settled)[:, [0, column]].T
        block = ((at - at[0]) // self._block_s).astype(np.int64)
        means = [(at[block == n].mean(), used[block == n].mean()) for n in np.unique(block)]
        minutes, level = np.array(means).T / np.array([[60.0], [1.0]])
        if len(means) < 3:  # noqa: PLR2004  # a line through fewer has no error
            return None, None
        minutes -= minutes.mean()
        slope, base = np.polyfit(minutes, level, 1)
        left = level - base - slope * minutes
        error = np.sqrt(left @ left / (len(means) - 2) / (minutes @ minutes))
        return round(float(slope), 3), round(float(error), 3)


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
