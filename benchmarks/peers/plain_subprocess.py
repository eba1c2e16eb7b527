"""The naive grader: program and tests in one fresh interpreter, its exit status is the verdict.

No isolation at all, and an exit status is no evidence: `os._exit(0)` passes. It stands here for
what grading costs at least when every candidate gets an interpreter of its own.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from benchmarks.candidates import Candidate
from benchmarks.peers.method import Outcome


class PlainSubprocess:
    """Grades in bare interpreters."""

    name: Final = "plain_subprocess"

    def __init__(self, *, n_workers: int, time_limit_s: float) -> None:
        self._n_workers = n_workers
        self._time_limit_s = time_limit_s

    def grade(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """`n_workers` interpreters at a time."""
        with (
            tempfile.TemporaryDirectory(prefix="harness-bench-") as folder,
            ThreadPoolExecutor(self._n_workers) as threads,
        ):
            return list(threads.map(partial(self._run, folder), candidates))

    def _run(self, folder: str, candidate: Candidate) -> Outcome:
        source = f"{candidate.program}\n{candidate.test}\ncheck({candidate.entry_point})\n"
        try:
            done = subprocess.run(  # noqa: S603  # running the program is what is measured
                [sys.executable, "-I", "-c", source],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self._time_limit_s,
                cwd=folder,
                env={},
            )
        except subprocess.TimeoutExpired:
            return Outcome(passed=False, timed_out=True)
        except ValueError:  # a NUL cannot be an argument
            return Outcome(passed=False)
        return Outcome(passed=done.returncode == 0)
