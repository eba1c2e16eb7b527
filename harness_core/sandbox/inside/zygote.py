"""The fork server: holds a warm interpreter and hands out locked-up children, one at a time.

It never sees a byte of any job. The runner gets the two pipe ends of each child over a socket, so
a child is a copy of a process that knows no program, no call, no nonce and no earlier answer.
"""

import gc
import importlib
import os
import random
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn, Protocol

from harness_core.sandbox.inside.jail import LAYERS, Jail, Limits, apply_limits, die_with_parent

WARM_MODULES: Final = (
    "abc", "ast", "base64", "bisect", "calendar", "cmath", "collections", "collections.abc",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
    "fractions", "functools", "hashlib", "heapq", "html", "inspect", "io", "itertools", "json",
    "math", "numbers", "operator", "os", "pprint", "random", "re", "secrets", "statistics",
    "string", "struct", "sys", "textwrap", "time", "traceback", "types", "typing", "unicodedata",
    "unittest", "uuid", "zlib",
)  # fmt: skip
"""Imported once, so that no candidate pays for them."""

FORK: Final = b"F"
REAP: Final = b"R"
_PID: Final = struct.Struct("=i")
_ENDING: Final = struct.Struct("=id")
_PROCESS_CLOCK: Final = 2
_REQUEST_FD, _REPLY_FD, _FIRST_FREE_FD = 3, 4, 5


class Birth(NamedTuple):
    """A fresh child: where requests are written and replies are read."""

    pid: int
    request_fd: int
    reply_fd: int


class Ending(NamedTuple):
    """How a process ended."""

    status: int
    """As `os.wait4` gives it."""
    cpu_s: float

    def is_out_of_time(self, limit_s: float) -> bool:
        """Whether the kernel ended it at its CPU limit."""
        if not os.WIFSIGNALED(self.status):
            return False
        name = os.WTERMSIG(self.status)
        # Accounting is coarser than the limit, so a tick less counts as well.
        return name == signal.SIGXCPU or (name == signal.SIGKILL and self.cpu_s > limit_s - 0.1)


class Serve(Protocol):
    """What a child does on its two pipes; told which layers hold."""

    def __call__(self, request_fd: int, reply_fd: int, layers: tuple[str, ...]) -> None:
        """Answer requests until there are no more."""


def run_zygote(control: socket.socket, *, jail: Jail | None, limits: Limits, serve: Serve) -> None:
    """Answer commands until the runner closes its end."""
    die_with_parent()
    if jail is not None:
        jail.shed_privileges()
    for name in WARM_MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children share these pages, so the collector must not write to them
    current: int | None = None
    while command := control.recv(1):
        if command == FORK:
            current = _fork(control, jail=jail, limits=limits, serve=serve)
        elif command == REAP and current is not None:
            with suppress(ProcessLookupError):
                os.kill(current, signal.SIGKILL)
            _, status, usage = os.wait4(current, 0)
            current = None
            control.sendall(_ENDING.pack(status, usage.ru_utime + usage.ru_stime))


def request_child(control: socket.socket) -> Birth:
    """Runner's side: a fresh child."""
    control.sendall(FORK)
    message, descriptors, _, _ = socket.recv_fds(control, _PID.size, 2)
    if len(message) != _PID.size or len(descriptors) != 2:  # noqa: PLR2004  # one pipe each way
        raise SystemExit("the fork server is gone")
    return Birth(*_PID.unpack(message), *descriptors)


def cpu_time_s(pid: int) -> float:
    """CPU time of a process so far, without /proc; what clock_getcpuclockid(3) does on Linux."""
    try:
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0.0


def reap_child(control: socket.socket) -> Ending:
    """Runner's side: kill the current child and say how it had ended."""
    control.sendall(REAP)
    data = control.recv(_ENDING.size, socket.MSG_WAITALL)
    if len(data) != _ENDING.size:
        raise SystemExit("the fork server is gone")
    return Ending(*_ENDING.unpack(data))


def _fork(control: socket.socket, *, jail: Jail | None, limits: Limits, serve: Serve) -> int:
    request_read, request_write = os.pipe()
    reply_read, reply_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_child(request_read, reply_write, jail=jail, limits=limits, serve=serve)
    socket.send_fds(control, [_PID.pack(pid)], [request_write, reply_read])
    for descriptor in (request_read, request_write, reply_read, reply_write):
        os.close(descriptor)
    return pid


def _become_child(
    request_fd: int, reply_fd: int, *, jail: Jail | None, limits: Limits, serve: Serve
) -> NoReturn:
    try:
        # Both are above 4: descriptors 0 to 2 are /dev/null, the control socket has a number too.
        request_fd, reply_fd = os.dup(request_fd), os.dup(reply_fd)
        if jail is None:
            apply_limits(limits)
            layers: tuple[str, ...] = ()
        else:
            layers = jail.enter(limits)
        os.dup2(request_fd, _REQUEST_FD)
        os.dup2(reply_fd, _REPLY_FD)
        os.closerange(_FIRST_FREE_FD, max(limits.n_files, 64))
        random.seed(0)
        if jail is None or tuple(sorted(layers)) == LAYERS:
            serve(_REQUEST_FD, _REPLY_FD, layers)
    finally:
        os._exit(0)
