"""What comes back from the sandbox."""

from enum import StrEnum
from typing import Any

from harness_core.records import Record


class CallStatus(StrEnum):
    """How one call ended."""

    VALUE = "value"
    """It returned pure data of builtin types."""
    RAISED = "raised"
    """It raised; `detail` is the exception's name."""
    NOT_DATA = "not_data"
    """It returned something that is not pure builtin data, or too large or too deep."""
    TIMEOUT = "timeout"
    """CPU or wall limit."""
    DIED = "died"
    """The process ended without an answer."""
    NOT_LOADED = "not_loaded"
    """The program itself did not compile or raised while it was loaded."""


class CallResult(Record):
    """One call. `value` is pure builtin data, decoded outside the box."""

    status: CallStatus
    value: Any = None
    detail: str = ""


class ProgramRun(Record):
    """One program on several calls, in order."""

    calls: tuple[CallResult, ...]
    layers: tuple[str, ...]
    """Isolation layers that held, e.g. ("bubblewrap", "landlock", "rlimits", "seccomp")."""
    tampered: bool = False
    """The process answered with something that honest code does not produce."""


class CheckStatus(StrEnum):
    """Verdict on one check."""

    PASSED = "passed"
    FAILED = "failed"
    """A wrong value, an exception, a time-out, a tampered reply: everything that is not passed."""
    UNUSABLE = "unusable"
    """The check itself cannot be run (it is not Python, or asserts nothing about the program)."""


class CheckRun(Record):
    """One test source on one program, the two in different boxes."""

    status: CheckStatus
    layers: tuple[str, ...]
    detail: str = ""
    tampered: bool = False


class Verdict(Record):
    """Verdict of the grader on one program."""

    checks: tuple[CheckStatus, ...]
    layers: tuple[str, ...]
    trusted: bool
    """False when isolation was switched off."""
    tampered: bool = False
    """The candidate answered with something that honest code does not produce."""

    @property
    def n_passed(self) -> int:
        """Number of checks passed."""
        return sum(status is CheckStatus.PASSED for status in self.checks)

    @property
    def n_usable(self) -> int:
        """Number of checks that say something."""
        return sum(status is not CheckStatus.UNUSABLE for status in self.checks)

    @property
    def all_passed(self) -> bool:
        """Whether there is at least one usable check and all of them passed."""
        return self.n_usable > 0 and self.n_passed == self.n_usable
