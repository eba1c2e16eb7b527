"""Inside a candidate process: load a program, evaluate one call at a time, answer with data.

Everything here shares an interpreter with hostile code, so nothing here is believed: whatever a
program does to this module, the most it can send is another piece of data.
"""

import os
import sys
import types
from typing import Any, NamedTuple

from harness_core.sandbox.inside import messages
from harness_core.sandbox.inside.codec import NotDataError, decode, encode
from harness_core.sandbox.inside.framing import Frame, read_frame, write_frame
from harness_core.sandbox.inside.scripting import Observer, run_script

MODULE_NAME = "candidate"
_LIMIT_BYTES = 1 << 30  # the runner is trusted; its frames are bounded by the grader
_NAME_CHARS = 100
_BUILTIN_VALUES = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)

_CLAIMS = ("__eq__", "__ne__", "__bool__", "__len__", "__contains__")


class ValueLimits(NamedTuple):
    """Bounds of one encoded value."""

    value_bytes: int
    max_value_depth: int


def serve_candidate(program: Frame, request_fd: int, reply_fd: int, limits: ValueLimits) -> None:
    """Load the program, then answer requests until there are no more."""
    namespace = _fresh_namespace()
    try:
        exec(compile(program.payload, "<candidate>", "exec", dont_inherit=True), namespace)
    except BaseException as error:  # noqa: BLE001  # whatever a program raises is its result
        write_frame(reply_fd, Frame(messages.NOT_LOADED, _name(error), program.number))
        return
    write_frame(reply_fd, Frame(messages.LOADED, b"", program.number))
    objects: list[Any] = []
    while True:
        frame = read_frame(request_fd, limit_bytes=_LIMIT_BYTES)
        if frame.kind == messages.CALL:
            reply = _evaluate(frame.payload, namespace, limits)
        elif frame.kind == messages.SCRIPT:
            reply = _observe(frame.payload, namespace, limits)
        elif frame.kind == messages.APPLY:
            reply = _apply(frame.payload, namespace, objects, limits)
        else:
            reply = Frame(messages.END, b"")
        write_frame(reply_fd, reply._replace(number=frame.number))


def _fresh_namespace() -> dict[str, Any]:
    # A real module in sys.modules: dataclasses and typing look their owner up there.
    module = types.ModuleType(MODULE_NAME)
    sys.modules[MODULE_NAME] = module
    os.chdir(os.environ.get("TMPDIR", "/"))
    return module.__dict__


def _evaluate(expression: bytes, namespace: dict[str, Any], limits: ValueLimits) -> Frame:
    try:
        value = eval(compile(expression, "<call>", "eval", dont_inherit=True), namespace)  # noqa: S307  # in a jail
        payload = encode(value, limit_bytes=limits.value_bytes, max_depth=limits.max_value_depth)
    except NotDataError as error:
        return _refusal(error)
    except BaseException as error:  # noqa: BLE001  # whatever a program raises is its result
        return Frame(messages.RAISED, _name(error))
    return Frame(messages.VALUE, payload)


def _observe(script: bytes, namespace: dict[str, Any], limits: ValueLimits) -> Frame:
    observer = Observer(*limits, claims_too_much=_claims_to_equal_anything)
    try:
        payload = run_script(script, namespace, observer)
    except NotDataError as error:
        return _refusal(error)
    except BaseException as error:  # noqa: BLE001  # whatever a program raises is its result
        return Frame(messages.RAISED, _name(error))
    return Frame(messages.VALUE, payload)


def _apply(
    request: bytes, namespace: dict[str, Any], objects: list[Any], limits: ValueLimits
) -> Frame:
    """Do what a test asked for: `(operation, target, name, arguments, keywords)`.

    The answer is `[result, arguments]`: arguments that were changed in place go back too.
    """

    def handle_of(value: Any) -> int:
        objects.append(value)
        return len(objects) - 1

    try:
        operation, target, name, arguments, keywords = decode(
            request,
            limit_bytes=_LIMIT_BYTES,
            max_depth=limits.max_value_depth + 3,
            object_of=objects.__getitem__,
        )
        owner = namespace if target is None else target
        result = _operate(operation, owner, name, arguments, keywords)
        payload = encode(
            [result, list(arguments)],
            limit_bytes=limits.value_bytes,
            max_depth=limits.max_value_depth + 1,
            handle_of=handle_of,
        )
    except NotDataError as error:
        return _refusal(error)
    except BaseException as error:  # noqa: BLE001  # whatever a program raises is its result
        return Frame(messages.RAISED, _name(error))
    return Frame(messages.VALUE, payload)


def _operate(
    operation: str, owner: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    if operation == "list":
        return list(owner)
    if operation == "set":
        setattr(owner, name, arguments[0])
        return None
    if type(owner) is dict:  # the program's namespace
        found = owner[name] if name in owner else _missing(name)
    else:
        found = getattr(owner, name) if name else owner
    return found(*arguments, **keywords) if operation == "call" else found


def _refusal(error: NotDataError) -> Frame:
    reason = str(error).encode("ascii", "replace")
    if _claims_to_equal_anything(error.culprit):
        reason = messages.LYING + b" " + reason
    return Frame(messages.NOT_DATA, reason)


def _claims_to_equal_anything(culprit: Any) -> bool:
    """Whether an object that is no data was made to win comparisons; only ever a flag."""
    try:
        for base in _BUILTIN_VALUES:
            if isinstance(culprit, base):
                mine, true = type(culprit), base
                return any(getattr(mine, name, 0) != getattr(true, name, 0) for name in _CLAIMS)
        stranger = object()
        return bool(culprit == stranger) or not bool(culprit != stranger)
    except BaseException:  # noqa: BLE001  # an object that cannot be compared claims nothing
        return False


def _missing(name: str) -> Any:
    raise NameError(name)


def _name(error: BaseException) -> bytes:
    return type(error).__name__[:_NAME_CHARS].encode("ascii", "replace")
