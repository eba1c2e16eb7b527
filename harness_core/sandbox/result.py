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
    scripts: tuple[CallResult, ...] = ()
    """One a script that was run; its value is the list of what it observed."""
    tampered: bool = False
    """The process answered with something that honest code does not produce."""
    stateful: bool = False
    """The same call gave two different values in one process."""


class CheckStatus(StrEnum):
    """Verdict on one check."""

    PASSED = "passed"
    FAILED = "failed"
    """A wrong value, an exception, a time-out, a tampered reply: everything that is not passed."""
    UNUSABLE = "unusable"
    """The check itself cannot be run (it is not Python, or asserts nothing about the program)."""


class Evidence(StrEnum):
    """What a verdict on a check rests on."""

    COMPARED = "compared"
    """The grader compared the returned values itself."""
    IN_BOX = "in_box"
    """A test source ran in a second box, and its own end was taken for the verdict."""
    NONE = "none"
    """The check could not be run."""


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
    evidence: tuple[Evidence, ...] = ()
    """What each verdict rests on, one a check."""
    vacuous: tuple[bool, ...] = ()
    """One a check: whether it says nothing, since a program would pass it too that returns None for
    everything, or its first argument."""
    tampered: bool = False
    """The candidate answered with something that honest code does not produce."""
    stateful: bool = False
    """The same call gave two different values in one process."""

    @property
    def n_passed(self) -> int:
        """Number of checks passed."""
        return sum(status is CheckStatus.PASSED for status in self.checks)

    @property
    def n_usable(self) -> int:
        """Number of checks that say something."""
        return sum(status is not CheckStatus.UNUSABLE for status in self.checks)

    @property
    def n_telling_passed(self) -> int:
        """Number of checks passed that a program doing nothing would not pass."""
        return sum(status is CheckStatus.PASSED for status in self._telling())

    @property
    def n_telling(self) -> int:
        """Number of usable checks that a program doing nothing would not pass."""
        return sum(status is not CheckStatus.UNUSABLE for status in self._telling())

    @property
    def all_passed(self) -> bool:
        """Whether there is at least one usable check and all of them passed."""
        return self.n_usable > 0 and self.n_passed == self.n_usable

    @property
    def is_honest(self) -> bool:
        """Neither tampered with nor dependent on how often it was asked."""
        return not self.tampered and not self.stateful

    def without_in_box(self) -> "Verdict":
        """The same verdict, believing only what the grader compared itself."""
        if Evidence.IN_BOX not in self.evidence:
            return self
        pairs = zip(self.checks, self.evidence, strict=True)
        checks = tuple(
            CheckStatus.UNUSABLE if kind is Evidence.IN_BOX else status for status, kind in pairs
        )
        return self.model_copy(update={"checks": checks})

    def _telling(self) -> list[CheckStatus]:
        empty = self.vacuous or (False,) * len(self.checks)
        return [
            status for status, is_vacuous in zip(self.checks, empty, strict=True) if not is_vacuous
        ]
