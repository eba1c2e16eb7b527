"""Frames on file descriptors: length, kind and number, then the payload.

The number of a request comes back with its answer, so that an answer too many is noticed.

Free of dependencies: the same module runs outside and inside the box.
"""

import os
import select
import struct
import time
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("!IBI")
"""Bytes of payload, kind, number."""
_CHUNK_BYTES: Final = 1 << 16


class Frame(NamedTuple):
    """One message."""

    kind: int
    payload: bytes
    number: int = 0

    def pack(self) -> bytes:
        """The bytes to send."""
        return HEADER.pack(len(self.payload), self.kind, self.number) + self.payload


class ClosedError(Exception):
    """The other side closed the pipe, or died."""


class DeadlineError(Exception):
    """The other side did not answer in time."""


class GarbageError(Exception):
    """The other side sent something that is not a frame, or a longer one than allowed."""


def write_frame(fd: int, frame: Frame, *, deadline: float | None = None) -> None:
    """Write one frame; with a deadline the descriptor must be non-blocking."""
    data = memoryview(frame.pack())
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            wait(fd, select.POLLOUT, deadline)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedError from error


def read_frame(fd: int, *, limit_bytes: int, deadline: float | None = None) -> Frame:
    """Read one frame; bytes after it are garbage, for nobody here speaks unasked."""
    data = _read(fd, _CHUNK_BYTES, deadline)
    while len(data) < HEADER.size:
        data += _read(fd, _CHUNK_BYTES, deadline)
    n_bytes, kind, number = HEADER.unpack_from(data)
    if n_bytes > limit_bytes:
        raise GarbageError
    n_left = HEADER.size + n_bytes - len(data)
    parts = [data[HEADER.size :]]
    while n_left > 0:
        part = _read(fd, n_left, deadline)
        parts.append(part)
        n_left -= len(part)
    if n_left:
        raise GarbageError
    return Frame(kind, parts[0] if len(parts) == 1 else b"".join(parts), number)


def has_pending(fd: int) -> bool:
    """Whether unread bytes wait in the pipe; the end of the stream does not count."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))


def _read(fd: int, n_bytes: int, deadline: float | None) -> bytes:
    if deadline is not None:
        wait(fd, select.POLLIN, deadline)
    try:
        data = os.read(fd, n_bytes)
    except ConnectionResetError as error:
        raise ClosedError from error
    if not data:
        raise ClosedError
    return data


def wait(fd: int, event: int, deadline: float | None) -> None:
    """Wait until a descriptor is ready.

    Raises:
        DeadlineError: the time has come and it is not.
    """
    poll = select.poll()
    poll.register(fd, event)
    while True:
        left_s = None if deadline is None else deadline - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise DeadlineError
        if poll.poll(None if left_s is None else left_s * 1000 + 1):
            return
