"""What the grader's side says to boxes for one job, and how the frames that come back are read.

Only frames that are exactly as expected become values. A test and its candidate sit in two boxes;
every request and answer between them is decoded to pure data and written anew here.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from harness_core.sandbox.box import Box, BoxError
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.inside import messages
from harness_core.sandbox.inside.codec import NotDataError, decode, encode
from harness_core.sandbox.inside.framing import Frame
from harness_core.sandbox.protocol import CheckJob, ProgramJob
from harness_core.sandbox.result import CallResult, CallStatus, CheckRun, CheckStatus, ProgramRun

_ENDINGS: Final = {messages.TIMEOUT: CallStatus.TIMEOUT, messages.DIED: CallStatus.DIED}
_LOADINGS: Final = {
    **_ENDINGS,
    messages.LOADED: CallStatus.VALUE,  # its calls say more
    messages.NOT_LOADED: CallStatus.NOT_LOADED,
}
_ANSWERS: Final = {
    **_ENDINGS,
    messages.VALUE: CallStatus.VALUE,
    messages.RAISED: CallStatus.RAISED,
    messages.NOT_DATA: CallStatus.NOT_DATA,
}
_VERDICTS: Final = {
    messages.PASSED: CheckStatus.PASSED,
    messages.FAILED: CheckStatus.FAILED,
    messages.UNUSABLE: CheckStatus.UNUSABLE,
}
_MAX_REQUESTS: Final = 100_000
_TAMPERED: Final = "tampered"


class _Handle(NamedTuple):
    """An object that stays in the candidate's process, named by its number."""

    number: int


def run_program(box: Box, job: ProgramJob, config: SandboxConfig) -> ProgramRun:
    """Run one program on its calls.

    Raises:
        BoxError: the box broke, whoever is to blame.
    """
    content = orjson.dumps([_text(job.program), [_text(call) for call in job.calls]])
    first, *answers = box.request(messages.RUN, content)
    if messages.TAMPERED in {first.kind, *(frame.kind for frame in answers)}:
        return _same_for_all(job, CallStatus.DIED, _TAMPERED, box.layers, tampered=True)
    if first.kind not in _LOADINGS:
        raise BoxError("a program that neither loaded nor failed")
    if first.kind != messages.LOADED:
        return _same_for_all(job, _LOADINGS[first.kind], _detail(first), box.layers)
    if len(answers) > len(job.calls):
        raise BoxError("more answers than calls")
    results = list(_results(answers, config))
    # The calls after the one that ended the process share its fate.
    results += [results[-1]] * (len(job.calls) - len(results)) if results else []
    if len(results) != len(job.calls):
        raise BoxError("no answers at all")
    return ProgramRun(calls=tuple(results), layers=box.layers, tampered=any(map(_is_lie, answers)))


def run_check(candidate: Box, test: Box, job: CheckJob, config: SandboxConfig) -> CheckRun:
    """Run a test source in one box against a program in another.

    Raises:
        BoxError: one of the boxes broke, whoever is to blame.
    """
    loaded = _open(candidate, messages.PROGRAM, _text(job.program).encode())
    source = orjson.dumps({"source": _text(job.test), "entry_point": job.entry_point})
    run = _converse(candidate, test, loaded, _open(test, messages.TEST, source), config)
    _one(test.request(messages.CLOSE, b""))
    if _one(candidate.request(messages.CLOSE, b"")).kind == messages.TAMPERED:
        return _failed_by(Frame(messages.TAMPERED, b""), candidate.layers)
    return run


def died_program(job: ProgramJob, layers: tuple[str, ...]) -> ProgramRun:
    """The run of a program that broke every box it was given."""
    return _same_for_all(job, CallStatus.DIED, "broke its box", layers)


def died_check(layers: tuple[str, ...]) -> CheckRun:
    """The run of a test whose program broke every box it was given."""
    return CheckRun(status=CheckStatus.FAILED, layers=layers, detail="broke its box")


def _converse(
    candidate: Box, test: Box, loaded: Frame, event: Frame, config: SandboxConfig
) -> CheckRun:
    layers = candidate.layers
    for _ in range(_MAX_REQUESTS):
        if event.kind in _VERDICTS:
            return CheckRun(status=_VERDICTS[event.kind], layers=layers, detail=_detail(event))
        if event.kind != messages.REQUEST:  # the test process itself ran out of time or died
            return CheckRun(status=CheckStatus.FAILED, layers=layers, detail=_detail(event))
        if loaded.kind != messages.LOADED:
            return _failed_by(loaded, layers)
        try:
            request = _rewritten(event.payload, config)
        except NotDataError:
            return CheckRun(status=CheckStatus.UNUSABLE, layers=layers, detail="no request")
        answer = _ask(candidate, request, config)
        if answer.kind not in {messages.VALUE, messages.RAISED}:
            return _failed_by(answer, layers)
        event = _send(test, messages.ANSWER, bytes([answer.kind]) + answer.payload)
    return CheckRun(status=CheckStatus.FAILED, layers=layers, detail="too many requests")


def _ask(candidate: Box, request: bytes, config: SandboxConfig) -> Frame:
    answer = _send(candidate, messages.APPLY, request)
    if answer.kind != messages.VALUE:
        return answer
    try:
        return Frame(messages.VALUE, _rewritten(answer.payload, config))
    except NotDataError:
        return Frame(messages.TAMPERED, b"")


def _rewritten(payload: bytes, config: SandboxConfig) -> bytes:
    depth = config.max_value_depth + 3
    value = decode(payload, limit_bytes=config.value_bytes, max_depth=depth, object_of=_Handle)
    return encode(
        value,
        # Handles and spacing may differ a little in length; the runner's own limit still holds.
        limit_bytes=2 * config.value_bytes,
        max_depth=depth,
        handle_of=lambda item: item.number if type(item) is _Handle else None,
    )


def _failed_by(frame: Frame, layers: tuple[str, ...]) -> CheckRun:
    return CheckRun(
        status=CheckStatus.FAILED,
        layers=layers,
        detail=_detail(frame),
        tampered=frame.kind == messages.TAMPERED or _is_lie(frame),
    )


def _open(box: Box, kind: int, payload: bytes) -> Frame:
    return _one(box.request(messages.OPEN, bytes([kind]) + payload))


def _send(box: Box, kind: int, payload: bytes) -> Frame:
    return _one(box.request(messages.SEND, bytes([kind]) + payload))


def _one(frames: list[Frame]) -> Frame:
    if len(frames) != 1:
        raise BoxError(f"{len(frames)} frames where one was due")
    return frames[0]


def _is_lie(frame: Frame) -> bool:
    return frame.kind == messages.NOT_DATA and frame.payload.startswith(messages.LYING)


def _results(frames: list[Frame], config: SandboxConfig) -> Iterator[CallResult]:
    for frame in frames:
        # Most answers are one of few, and thousands of programs have a hundred each.
        is_shared = frame.kind != messages.VALUE or frame.payload.isalnum()
        yield _shared_result(frame, config) if is_shared else _result(frame, config)


def _result(frame: Frame, config: SandboxConfig) -> CallResult:
    if frame.kind not in _ANSWERS:
        raise BoxError(f"an answer of unknown kind {frame.kind}")
    if frame.kind != messages.VALUE:
        return CallResult(status=_ANSWERS[frame.kind], detail=_detail(frame))
    try:
        value: Any = decode(
            frame.payload, limit_bytes=config.value_bytes, max_depth=config.max_value_depth
        )
    except NotDataError:
        return CallResult(status=CallStatus.NOT_DATA, detail=_TAMPERED)
    return CallResult(status=CallStatus.VALUE, value=value)


_shared_result = functools.lru_cache(maxsize=4096)(_result)


def _detail(frame: Frame) -> str:
    return frame.payload.decode("ascii", "replace")[:100]


def _same_for_all(
    job: ProgramJob,
    status: CallStatus,
    detail: str,
    layers: tuple[str, ...],
    *,
    tampered: bool = False,
) -> ProgramRun:
    result = CallResult(status=status, detail=detail)
    return ProgramRun(calls=(result,) * len(job.calls), layers=layers, tampered=tampered)


def _text(source: str) -> str:
    # Lone surrogates cannot be UTF-8; they are no Python source either.
    return source.encode("utf-8", "replace").decode()
