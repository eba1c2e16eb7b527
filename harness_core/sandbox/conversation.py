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
_SEED: Final = "__import__('random').seed(0)"
_EXHAUSTED: Final = frozenset({b"MemoryError", b"RecursionError"})
"""What an honest program may raise when it is asked once more."""
_TAMPERED: Final = "tampered"


class _Handle(NamedTuple):
    """An object that stays in the candidate's process, named by its number."""

    number: int


def run_program(box: Box, job: ProgramJob, config: SandboxConfig) -> ProgramRun:
    """Run one program on its calls, then on its scripts.

    Raises:
        BoxError: the box broke, whoever is to blame.
    """
    if job.calls or not job.scripts:
        run = _run_calls(box, job, config)
        if not job.scripts or run.tampered:
            return run
    else:
        run = ProgramRun(calls=(), layers=box.layers)
    return _run_scripts(box, job, config, run)


def _run_calls(box: Box, job: ProgramJob, config: SandboxConfig) -> ProgramRun:
    # The first call is asked once more, after all the others, so that it changes none of them.
    first, *answers = _request_run(box, job.program, [*job.calls, *job.calls[:1]])
    if messages.TAMPERED in {first.kind, *(frame.kind for frame in answers)}:
        return _same_for_all(job, CallStatus.DIED, _TAMPERED, box.layers, tampered=True)
    if first.kind not in _LOADINGS:
        raise BoxError("a program that neither loaded nor failed")
    if first.kind != messages.LOADED:
        return _same_for_all(job, _LOADINGS[first.kind], _detail(first), box.layers)
    if len(answers) > len(job.calls) + 1:
        raise BoxError("more answers than calls")
    results = list(_results(answers[: len(job.calls)], config))
    # The calls after the one that ended the process share its fate.
    results += [results[-1]] * (len(job.calls) - len(results)) if results else []
    if len(results) != len(job.calls):
        raise BoxError("no answers at all")
    return ProgramRun(
        calls=tuple(results),
        layers=box.layers,
        tampered=any(map(_is_lie, answers)),
        stateful=_is_stateful(box, job, answers, config),
    )


def _is_stateful(box: Box, job: ProgramJob, answers: list[Frame], config: SandboxConfig) -> bool:
    """Whether the program keeps count of its calls, beyond chance, clocks and spent resources."""
    before = _contradictions(job.calls, answers, config)
    if not before:
        return False
    # Once more with the same random numbers for each call. What a program answers first must be
    # what it answered first the last time: if it is not, it depends on a clock or the like.
    calls = [part for call in (*job.calls, *job.calls[:1]) for part in (_SEED, call)]
    again = _request_run(box, job.program, calls)[2::2]
    after = _contradictions(job.calls, again, config)
    return any(
        call in before and answer.payload == before[call].payload for call, answer in after.items()
    )


def _contradictions(
    calls: tuple[str, ...], answers: list[Frame], config: SandboxConfig
) -> dict[str, Frame]:
    """The first answers to calls that were answered in another way later on."""
    firsts: dict[str, Frame] = {}
    found: dict[str, Frame] = {}
    for call, answer in zip((*calls, *calls[:1]), answers, strict=False):
        first = firsts.setdefault(call, answer)
        if first is not answer and first != answer and _contradicts(first, answer, config):
            found[call] = first
    return found


def _contradicts(first: Frame, later: Frame, config: SandboxConfig) -> bool:
    if first.kind != messages.VALUE or later.kind not in _ANSWERS or later.kind in _ENDINGS:
        return False
    if later.kind != messages.VALUE:
        return later.payload not in _EXHAUSTED
    # Equal data can be written in two ways, as the order of a dictionary.
    values = [result.value for result in _results([first, later], config)]
    return bool(values[0] != values[1])


def _run_scripts(box: Box, job: ProgramJob, config: SandboxConfig, run: ProgramRun) -> ProgramRun:
    results: list[CallResult] = []
    is_lie = False
    for script in job.scripts:
        frames = _request_run(box, job.program, [], script)
        last = frames[-1]
        if messages.TAMPERED in {frame.kind for frame in frames}:
            result = CallResult(status=CallStatus.DIED, detail=_TAMPERED)
            is_lie = True
        elif len(frames) == 1:  # it did not load
            if last.kind not in _LOADINGS or last.kind == messages.LOADED:
                raise BoxError("a program that neither loaded nor failed")
            result = CallResult(status=_LOADINGS[last.kind], detail=_detail(last))
        else:
            result = _result(last, config.value_bytes, config.max_value_depth + 1)
            is_lie = _is_lie(last)
        results.append(result)
        if result.status is not CallStatus.VALUE:
            break
    return run.model_copy(update={"scripts": tuple(results), "tampered": run.tampered or is_lie})


def _request_run(box: Box, program: str, calls: list[str], *scripts: str) -> list[Frame]:
    texts = [list(map(_text, part)) for part in (calls, scripts)]
    frames = box.request(messages.RUN, orjson.dumps([_text(program), *texts]))
    if not frames:
        raise BoxError("no answer at all")
    return frames


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
        result = _shared_result if is_shared else _result
        # Numbers, not the section they are from: what is shared is looked up by them.
        yield result(frame, config.value_bytes, config.max_value_depth)


def _result(frame: Frame, limit_bytes: int, max_depth: int) -> CallResult:
    if frame.kind not in _ANSWERS:
        raise BoxError(f"an answer of unknown kind {frame.kind}")
    if frame.kind != messages.VALUE:
        return CallResult(status=_ANSWERS[frame.kind], detail=_detail(frame))
    try:
        value: Any = decode(frame.payload, limit_bytes=limit_bytes, max_depth=max_depth)
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
