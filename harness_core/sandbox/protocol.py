"""What a sandbox is asked and what it promises: jobs in, results in the same order out.

A sandbox runs foreign programs and returns pure data. It knows neither expected values nor
verdicts: those stay with the grader, which lives outside every box.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.result import CheckRun, ProgramRun


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """One program and the expressions to evaluate in its namespace, in order."""

    program: str
    calls: tuple[str, ...]
    """Python expressions such as "add(1, 2)", evaluated one after the other in one process; where
    a call has a limit of its own (`call_cpu_s`), a fresh one after each that exceeded it."""
    scripts: tuple[str, ...] = ()
    """Functions that observe values, see `sandbox.scripts`; each runs in a process of its own, and
    those after one that gave no values are not run."""


@dataclass(frozen=True, slots=True)
class CheckJob:
    """One program and one test source; the two run in different boxes and exchange pure data."""

    program: str
    test: str
    """Python source: asserts, a `check(candidate)`, or `unittest` cases."""
    entry_point: str | None


class Sandbox(Protocol):
    """A pool of boxes. A context manager; leaving it ends every process it started."""

    @property
    def config(self) -> SandboxConfig:
        """The limits that every program runs under."""
        ...

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation layers that held when the boxes were started, sorted."""
        ...

    @property
    def trusted(self) -> bool:
        """False when isolation was switched off."""
        ...

    def run_programs(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        """Run programs on their calls, several boxes at a time; results in the order of jobs."""
        ...

    def run_checks(self, jobs: Sequence[CheckJob]) -> list[CheckRun]:
        """Run test sources against programs in another box; results in the order of jobs."""
        ...

    def close(self) -> None:
        """End every process of the sandbox."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
