"""The process that the grader talks to: starts children, relays frames, keeps the time.

It never runs, compiles or decodes anything of a candidate: frames pass through as bytes. It alone
holds the way back to the grader, so that a candidate cannot write a reply, and it puts the grader's
nonce of the run on each reply.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness_core.sandbox.inside import messages
from harness_core.sandbox.inside.candidate import ValueLimits, serve_candidate
from harness_core.sandbox.inside.child import Child
from harness_core.sandbox.inside.framing import (
    ClosedError,
    Frame,
    read_frame,
    write_frame,
)
from harness_core.sandbox.inside.jail import Jail, Limits
from harness_core.sandbox.inside.testing import serve_test
from harness_core.sandbox.inside.zygote import run_zygote

_FROM_GRADER_FD, _TO_GRADER_FD = 0, 1
_LIMIT_BYTES: Final = 1 << 30
_START_S: Final = 20.0
_MAX_SWEPT_FILES: Final = 1000


@dataclass(frozen=True)
class _Settings:
    limits: Limits
    values: ValueLimits
    output_bytes: int
    wall_s: float
    call_cpu_s: float | None
    max_slow_calls: int | None
    is_jailed: bool
    readable: tuple[str, ...]
    devices: tuple[str, ...]
    scratch: str

    @classmethod
    def parse(cls, payload: bytes) -> "_Settings":
        tree = json.loads(payload)
        return cls(
            limits=Limits(**tree["limits"]),
            values=ValueLimits(**tree["values"]),
            output_bytes=tree["output_bytes"],
            wall_s=tree["wall_s"],
            call_cpu_s=tree["call_cpu_s"],
            max_slow_calls=tree["max_slow_calls"],
            is_jailed=tree["is_jailed"],
            readable=tuple(tree["readable"]),
            devices=tuple(tree["devices"]),
            scratch=tree["scratch"],
        )


def main() -> None:
    """Serve one grader until it closes the socket."""
    settings = _Settings.parse(read_frame(_FROM_GRADER_FD, limit_bytes=_LIMIT_BYTES).payload)
    control = _start_zygote(settings)
    layers = _probe(control)
    write_frame(_TO_GRADER_FD, Frame(messages.HELLO, json.dumps(layers).encode()))
    relay = _Relay(control, settings)
    with suppress(ClosedError):
        while True:
            relay.answer(read_frame(_FROM_GRADER_FD, limit_bytes=_LIMIT_BYTES))


def _start_zygote(settings: _Settings) -> socket.socket:
    mine, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return mine
    try:
        mine.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        readable = (*settings.readable, os.path.dirname(os.__file__))  # noqa: PTH120
        jail = (
            Jail(readable=readable, scratch=settings.scratch, devices=settings.devices)
            if settings.is_jailed
            else None
        )
        values = settings.values

        def serve(request_fd: int, reply_fd: int, layers: tuple[str, ...]) -> None:
            frame = read_frame(request_fd, limit_bytes=_LIMIT_BYTES)
            if frame.kind == messages.PROGRAM:
                serve_candidate(frame, request_fd, reply_fd, values)
            elif frame.kind == messages.TEST:
                serve_test(frame, request_fd, reply_fd, values)
            else:
                answer = Frame(messages.PROBE, json.dumps(layers).encode(), frame.number)
                write_frame(reply_fd, answer)

        run_zygote(theirs, jail=jail, limits=settings.limits, serve=serve)
    finally:
        os._exit(0)


def _probe(control: socket.socket) -> list[str]:
    """Layers that took in a child that runs nothing."""
    child = Child(
        control,
        wall_s=_START_S,
        cpu_s=_START_S,
        limit_bytes=_LIMIT_BYTES,
        output_bytes=_LIMIT_BYTES,
    )
    frame = child.exchange(messages.PROBE, b"")
    child.end()
    return list(json.loads(frame.payload)) if frame.kind == messages.PROBE else []


class _Relay:
    """Answers the grader's commands; at most one child is alive."""

    def __init__(self, control: socket.socket, settings: _Settings) -> None:
        self._control = control
        self._settings = settings
        self._child: Child | None = None

    def answer(self, frame: Frame) -> None:
        nonce, content = (
            frame.payload[: messages.NONCE_BYTES],
            frame.payload[messages.NONCE_BYTES :],
        )
        if frame.kind == messages.RUN:
            frames = self._run(content)
        elif frame.kind == messages.OPEN:
            frames = [self._open(content[0], content[1:])]
        elif frame.kind == messages.SEND:
            frames = [self._send(content[0], content[1:])]
        else:
            frames = [self._close()]
        reply = nonce + b"".join(part.pack() for part in frames)
        write_frame(_TO_GRADER_FD, Frame(messages.REPLY, reply))
        if self._child is None:
            _sweep(Path(self._settings.scratch))

    def _run(self, content: bytes) -> list[Frame]:
        program, calls, scripts = json.loads(content)
        frames = [self._open(messages.PROGRAM, _bytes(program))]
        if frames[0].kind == messages.LOADED:
            frames += self._ask_calls(program, calls)
            frames += self._ask_scripts(scripts)
        if self._close().kind == messages.TAMPERED:
            frames.append(Frame(messages.TAMPERED, b""))
        return frames

    def _ask_calls(self, program: str, calls: list[str]) -> Iterator[Frame]:
        """Answers to calls, up to one that ends the process.

        After a slow call a fresh process goes on, while the program may have another slow one.
        """
        start, spent_s, n_slow = time.monotonic(), 0.0, 0
        for call in calls:
            child = self._child
            if child is None:
                return
            frame = self._send(messages.CALL, _bytes(call), cpu_s=self._settings.call_cpu_s)
            yield frame
            if frame == Frame(messages.TIMEOUT, messages.SLOW_CALL):
                spent_s += child.spent_s
                n_slow += 1
                if self._is_over(time.monotonic() - start, spent_s, n_slow):
                    return
                again = self._open(messages.PROGRAM, _bytes(program))
                if again.kind == messages.TAMPERED:
                    yield again
                if again.kind != messages.LOADED:
                    return

    def _is_over(self, wall_s: float, cpu_s: float, n_slow: int) -> bool:
        """Whether a program has used up what it may use over all its processes."""
        settings = self._settings
        is_late = wall_s >= settings.wall_s or cpu_s >= settings.limits.cpu_s
        return is_late or (
            settings.max_slow_calls is not None and n_slow >= settings.max_slow_calls
        )

    def _ask_scripts(self, scripts: list[str]) -> Iterator[Frame]:
        for script in scripts:
            if self._child is None:
                return
            yield self._send(messages.SCRIPT, _bytes(script))

    def _open(self, kind: int, payload: bytes) -> Frame:
        self._close()
        is_test = kind == messages.TEST
        self._child = Child(
            self._control,
            # A test waits for its candidate, whose own time is limited in the other box.
            wall_s=self._settings.wall_s * (2 if is_test else 1),
            cpu_s=self._settings.limits.cpu_s,
            limit_bytes=self._settings.values.value_bytes,
            output_bytes=self._settings.output_bytes,
        )
        return self._send(kind, payload)

    def _send(self, kind: int, payload: bytes, *, cpu_s: float | None = None) -> Frame:
        if self._child is None:
            return Frame(messages.DIED, b"")
        frame = self._child.exchange(kind, payload, cpu_s=cpu_s)
        if not self._child.is_alive:
            self._child = None
        return frame

    def _close(self) -> Frame:
        is_tampered = self._child is not None and not self._child.end()
        self._child = None
        return Frame(messages.TAMPERED if is_tampered else messages.CLOSE, b"")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _sweep(folder: Path) -> None:
    """Empty the scratch folder; whoever leaves more than a little costs the box its life."""
    entries = list(folder.iterdir())
    if len(entries) > _MAX_SWEPT_FILES:
        raise SystemExit("scratch folder is too full to clean")
    for entry in entries:
        try:
            entry.unlink()
        except OSError:
            entry.rmdir()  # a full one raises, and the box ends
