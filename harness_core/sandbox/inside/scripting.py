"""Inside a candidate process: run a script beside the program and write down what it observes.

A script is a function whose globals are the program's, so that its own names hide nothing from the
program. Each value is encoded at the moment it is observed.
"""

import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn

from harness_core.sandbox.inside.codec import NotDataError, encode

OBSERVE: Final = "_observe_"
"""Writes a value down."""
PRESENCE: Final = "_observe_presence_"
"""Writes None down for None, and True for anything else."""
SIZE: Final = "_observe_size_"
"""Writes the length of something down."""
RAISED: Final = "_observe_raised_"
"""A context that writes down the names of the classes of what was raised inside of it, or None."""

SCRIPT: Final = "script"
"""The name of the function; it takes the test itself, then the four above."""

_CONTAINERS: Final = frozenset({str, bytes, bytearray, list, tuple, dict, set, frozenset})


class Observer:
    """What one script observed."""

    def __init__(
        self, value_bytes: int, max_value_depth: int, *, claims_too_much: Callable[[Any], bool]
    ) -> None:
        self._bytes_left = value_bytes - 2  # brackets around them all
        self._max_depth = max_value_depth
        self._claims_too_much = claims_too_much
        self.snapshots: list[bytes] = []
        self.refusal: NotDataError | None = None
        """The first value that was no data. A script may swallow exceptions, but not this."""

    def observe(self, value: Any) -> None:
        """Write a value down."""
        try:
            snapshot = encode(value, limit_bytes=self._bytes_left, max_depth=self._max_depth)
        except NotDataError as error:
            self._refuse(error)
        self._bytes_left -= len(snapshot) + 1
        self.snapshots.append(snapshot)

    def observe_presence(self, value: Any) -> None:
        """Write down whether something is None."""
        self._distrust(value)
        self.observe(None if value is None else True)

    def observe_size(self, value: Any) -> None:
        """Write a length down."""
        if type(value) not in _CONTAINERS:
            self._distrust(value)
        self.observe(len(value))

    def _distrust(self, value: Any) -> None:
        if self._claims_too_much(value):
            self._refuse(NotDataError("an object", culprit=value))

    def _refuse(self, error: NotDataError) -> NoReturn:
        self.refusal = self.refusal or error
        raise error


class _Raised(AbstractContextManager["_Raised"]):
    """Stands for `assertRaises`; swallows what is raised, for the grader looks at it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.exception: BaseException | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> bool:
        self.exception = error
        names = None if kind is None else [str(item.__name__) for item in kind.__mro__]
        self._observer.observe(names)
        return True


def run_script(source: bytes, namespace: dict[str, Any], observer: Observer) -> bytes:
    """Run a script; all its snapshots, as one encoded list.

    Raises:
        NotDataError: some value was no data.
        BaseException: whatever the script raised.
    """
    local: dict[str, Any] = {}
    exec(compile(source, "<script>", "exec", dont_inherit=True), namespace, local)
    try:
        local[SCRIPT](
            types.SimpleNamespace(),
            observer.observe,
            observer.observe_presence,
            observer.observe_size,
            lambda: _Raised(observer),
        )
    except BaseException:
        if observer.refusal is None:
            raise
    if observer.refusal is not None:
        raise observer.refusal
    return b"[" + b",".join(observer.snapshots) + b"]"
