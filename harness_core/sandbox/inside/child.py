"""One candidate or test process as the runner sees it: questions, answers, deadline, end.

An answer counts if it comes in time, carries the number of its question and is of a kind that the
question allows. A process that says anything else has tampered, and is ended on the spot.
"""

import os
import select
import socket
import time
from typing import Final

from harness_core.sandbox.inside import messages
from harness_core.sandbox.inside.framing import (
    ClosedError,
    DeadlineError,
    Frame,
    GarbageError,
    has_pending,
    read_frame,
    wait,
    write_frame,
)
from harness_core.sandbox.inside.zygote import Ending, cpu_time_s, reap_child, request_child

_MAX_EXTENSIONS: Final = 3
_COMPUTING_SHARE: Final = 0.1
_SHORTEST_WAIT_S: Final = 0.01
_LISTENERS: Final = frozenset({messages.LOADED, messages.VALUE, messages.RAISED, messages.NOT_DATA})
"""After these answers a candidate waits for the next question."""


class SlowCallError(Exception):
    """One call used more CPU time than a call may."""


class Child:
    """One candidate or test process, with its deadline and the frames it may send."""

    def __init__(
        self,
        control: socket.socket,
        *,
        wall_s: float,
        cpu_s: float,
        limit_bytes: int,
        output_bytes: int,
    ) -> None:
        self._control = control
        self._pid, self._request_fd, self._reply_fd = request_child(control)
        os.set_blocking(self._request_fd, False)
        self._wall_s = wall_s
        self._deadline = time.monotonic() + wall_s
        self._n_extensions = _MAX_EXTENSIONS
        self._cpu_seen_s = 0.0
        self._cpu_s = cpu_s
        self._limit_bytes = limit_bytes
        self._bytes_left = output_bytes
        self._is_listening = False
        self.is_alive = True
        self.spent_s = 0.0
        """CPU time of its whole life, once it has ended."""

    def exchange(self, kind: int, payload: bytes, *, cpu_s: float | None = None) -> Frame:
        """Send one frame and wait for one; a process that misbehaves is ended on the spot.

        With `cpu_s`, so is one that uses more CPU time for this answer.
        """
        try:
            number = self._ask(kind, payload)
            frame = self._hear(kind, number, cpu_s)
        except SlowCallError:
            self._reap()
            return Frame(messages.TIMEOUT, messages.SLOW_CALL)
        except DeadlineError:
            self._reap()
            return Frame(messages.TIMEOUT, b"wall")
        except GarbageError:
            self._reap()
            return Frame(messages.TAMPERED, b"")
        except ClosedError:
            return self._death()
        self._is_listening = frame.kind in _LISTENERS
        return frame

    def end(self) -> bool:
        """Kill it; False if it had answered more than it was asked."""
        is_clean = not has_pending(self._reply_fd)
        if self._is_listening and is_clean:
            is_clean = self.exchange(messages.END, b"").kind != messages.TAMPERED
        if self.is_alive:
            self._reap()
        return is_clean

    def _ask(self, kind: int, payload: bytes) -> int:
        if has_pending(self._reply_fd):  # an answer to a question that was not asked yet
            raise GarbageError
        number = int.from_bytes(os.urandom(4), "big")
        write_frame(self._request_fd, Frame(kind, payload, number), deadline=self._deadline)
        return number

    def _hear(self, kind: int, number: int, cpu_s: float | None) -> Frame:
        if cpu_s is not None:
            self._wait_for_call(cpu_s)
        while True:
            try:
                wait(self._reply_fd, select.POLLIN, self._deadline)
                break
            except DeadlineError:
                if not self._is_starved():
                    raise
        frame = read_frame(self._reply_fd, limit_bytes=self._limit_bytes, deadline=self._deadline)
        if frame.number != number or frame.kind not in messages.ANSWERS[kind]:
            raise GarbageError
        self._bytes_left -= len(frame.payload)
        if self._bytes_left < 0:  # reading it all would cost the grader more than it the candidate
            raise ClosedError
        return frame

    def _wait_for_call(self, cpu_s: float) -> None:
        """Until there is an answer or the process is out of time; a call may not take too much."""
        limit_s = cpu_time_s(self._pid) + cpu_s
        left_s = cpu_s
        while (now := time.monotonic()) < self._deadline:
            try:
                wait(self._reply_fd, select.POLLIN, min(self._deadline, now + left_s))
            except DeadlineError:
                left_s = max(limit_s - cpu_time_s(self._pid), 0.0)
                if not left_s:
                    raise SlowCallError from None
                left_s = max(left_s, _SHORTEST_WAIT_S)
            else:
                return

    def _is_starved(self) -> bool:
        """Whether it computes on a busy machine; it gets more wall time, its CPU limit decides."""
        seen_s, self._cpu_seen_s = self._cpu_seen_s, cpu_time_s(self._pid)
        if self._cpu_seen_s - seen_s < _COMPUTING_SHARE * self._wall_s or not self._n_extensions:
            return False
        self._n_extensions -= 1
        self._deadline += self._wall_s
        return True

    def _death(self) -> Frame:
        # A pipe can be closed by a process that lives on, so it is killed in any case.
        ending = self._reap()
        if ending.is_out_of_time(self._cpu_s):
            return Frame(messages.TIMEOUT, b"cpu")
        return Frame(messages.DIED, b"")

    def _reap(self) -> Ending:
        self.is_alive = False
        os.close(self._request_fd)
        os.close(self._reply_fd)
        ending = reap_child(self._control)
        self.spent_s = ending.cpu_s
        return ending
