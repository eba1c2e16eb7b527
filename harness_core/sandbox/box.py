"""One box seen from the grader: a runner behind a socket, that may lie, hang or die at any time.

Every read has a deadline and a size limit, every reply must carry the nonce of its request.
Whatever is not exactly as expected ends the box: `BoxError`, and the pool makes another one.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any, Final, Self

import orjson

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.bubblewrap import boxed
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.docker import docked, end_quietly
from harness_core.sandbox.inside import jail, messages
from harness_core.sandbox.inside.framing import HEADER, Frame
from harness_core.sandbox.launch import DEVICES, Launch, unboxed
from harness_core.sandbox.process_guard import PidsCgroup, guard

_START_S: Final = 30.0
_GRACE_S: Final = 10.0
_MAX_REPLY_BYTES: Final = 1 << 28
_ERROR_BYTES: Final = 2000


class BoxError(Exception):
    """The box broke its protocol, hung or died."""


class Box:
    """A started box. Use as a context manager, or call `kill`."""

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._guard: PidsCgroup | None = None
        self._launch = self._plan()
        if self._launch.limits_processes and os.geteuid() == 0:
            self._guard = guard(config.n_processes)
        self.process_limit = self._process_limit()
        """What bounds the number of processes, if ever a program could start one."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the box
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = self._start(theirs.fileno())
        try:
            self.layers = self._greet()
        except BaseException:
            self.kill()
            raise

    def _plan(self) -> Launch:
        if self._config.backend == "bubblewrap":
            return boxed(self._config)
        if self._config.backend == "docker":
            return docked(self._config)
        self._folder = tempfile.TemporaryDirectory(prefix="harness-scratch-")
        return unboxed(self._folder.name)

    def _start(self, channel: int) -> subprocess.Popen[bytes]:
        command = self._launch.command
        try:
            return subprocess.Popen(
                command if self._guard is None else self._guard.around(command),
                stdin=channel,
                stdout=channel,
                stderr=self._errors,
                env=self._launch.environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._free()
            raise IsolationUnavailable(
                f"the box did not start: {error}. {self._launch.advice}"
            ) from error

    def _process_limit(self) -> str:
        if self._guard is not None:
            return "a pids cgroup"
        if self._launch.layer is None:
            return "nothing"
        if not self._launch.limits_processes:
            return "the container engine"
        return "nothing but the ban on them" if os.geteuid() == 0 else "an rlimit"

    def _greet(self) -> tuple[str, ...]:
        launch = self._launch
        try:
            self._send(launch.preamble, _START_S)
            self._write(messages.SETTINGS, orjson.dumps(self._settings()), _START_S)
            frame = self._read(time.monotonic() + _START_S)
        except BoxError as error:
            raise IsolationUnavailable(
                f"the box did not start: {self._complaint() or error}. {launch.advice}"
            ) from error
        took = tuple(sorted(orjson.loads(frame.payload)))
        if launch.layer is None:
            return ()
        if took != jail.LAYERS:
            missing = ", ".join(sorted(set(jail.LAYERS) - set(took)))
            raise IsolationUnavailable(f"these layers did not take: {missing}. {launch.advice}")
        return tuple(sorted((launch.layer, *took)))

    def _settings(self) -> dict[str, Any]:
        config, launch = self._config, self._launch
        return {
            "limits": {
                "cpu_s": config.cpu_s,
                "memory_bytes": config.memory_bytes,
                "file_bytes": config.file_bytes,
                "n_files": config.n_files,
                "n_processes": config.n_processes if launch.limits_processes else None,
            },
            "values": {
                "value_bytes": config.value_bytes,
                "max_value_depth": config.max_value_depth,
            },
            "output_bytes": config.output_bytes,
            "wall_s": config.wall_s,
            "call_cpu_s": config.call_cpu_s,
            "max_slow_calls": config.max_slow_calls,
            "is_jailed": launch.layer is not None,
            "readable": launch.readable,
            "devices": DEVICES,
            "scratch": launch.scratch,
        }

    def request(self, kind: int, content: bytes) -> list[Frame]:
        """Send one command and return the frames of its reply.

        Raises:
            BoxError: the box is unusable from now on.
        """
        nonce = secrets.token_bytes(messages.NONCE_BYTES)
        # The runner keeps the time of candidates itself; this is for a runner that hangs.
        wait_s = 8 * self._config.wall_s + _GRACE_S
        self._write(kind, nonce + content, wait_s)
        reply = self._read(time.monotonic() + wait_s)
        if reply.kind != messages.REPLY or reply.payload[: messages.NONCE_BYTES] != nonce:
            raise BoxError("a reply without the nonce of its request")
        return _unpack(reply.payload[messages.NONCE_BYTES :])

    def interrupt(self) -> None:
        """End every process of the box; safe from another thread than the one that uses it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End every process of the box and free what it held."""
        self.interrupt()
        self._process.wait()
        if self._launch.ending:
            end_quietly(self._launch.ending)
        self._free()

    def _free(self) -> None:
        self._socket.close()
        self._errors.close()
        if self._guard is not None:
            self._guard.remove()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def _write(self, kind: int, payload: bytes, wait_s: float) -> None:
        self._send(Frame(kind, payload).pack(), wait_s)

    def _send(self, data: bytes, wait_s: float) -> None:
        self._socket.settimeout(wait_s)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise BoxError(f"the box does not listen: {error}") from error

    def _read(self, deadline: float) -> Frame:
        n_bytes, kind, _ = HEADER.unpack(self._read_exactly(HEADER.size, deadline))
        if n_bytes > _MAX_REPLY_BYTES:
            raise BoxError(f"a reply of {n_bytes} bytes")
        return Frame(kind, self._read_exactly(n_bytes, deadline))

    def _read_exactly(self, n_bytes: int, deadline: float) -> bytes:
        parts = []
        while n_bytes:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                part = self._socket.recv(min(n_bytes, 1 << 16))
            except OSError as error:
                raise BoxError(f"the box does not answer: {error}") from error
            if not part:
                raise BoxError("the box closed its socket")
            parts.append(part)
            n_bytes -= len(part)
        return b"".join(parts)

    def _complaint(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._errors.seek(0)
        return self._errors.read(_ERROR_BYTES).decode("utf-8", "replace").strip()


def _unpack(content: bytes) -> list[Frame]:
    frames = []
    while content:
        if len(content) < HEADER.size:
            raise BoxError("a reply that is cut off")
        n_bytes, kind, _ = HEADER.unpack_from(content)
        payload = content[HEADER.size : HEADER.size + n_bytes]
        if len(payload) != n_bytes:
            raise BoxError("a reply that is cut off")
        frames.append(Frame(kind, payload))
        content = content[HEADER.size + n_bytes :]
    return frames
