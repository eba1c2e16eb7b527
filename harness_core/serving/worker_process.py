"""One scoring process as the proxy sees it: started, asked, and gone at some time."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Sequence
from itertools import count
from typing import Any, Self

from harness_core.serving.frames import SIZE, Frame, decode, encode


class WorkerGone(Exception):
    """The process ended, or what it says is no answer."""


class WorkerProcess:
    """A process with a socket to it."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self.gone = asyncio.create_task(self._read())
        """Done when the process is gone."""

    @classmethod
    async def start(cls, command: Sequence[str]) -> Self:
        """Start a process that takes its end of the socket as its standard input.

        Raises:
            OSError: it cannot be started.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.to_thread(
                lambda: subprocess.Popen(  # noqa: S603  # our own program
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL
                )
            )
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            # A process that was started all the same finds nobody there, and ends.
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def ask(self, head: dict[str, Any], content: bytes = b"") -> Frame:
        """Send a frame and wait for its answer.

        Raises:
            WorkerGone: there will be none.
        """
        number = next(self._numbers)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            if self.gone.done():
                raise WorkerGone
            self._writer.write(encode(Frame({**head, "id": number}, content)))
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def end(self, *, patience_s: float) -> int:
        """Let it end by itself, for so long, and make sure that it has ended; its exit code."""
        self._writer.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if patience_s:
                await asyncio.to_thread(self._process.wait, patience_s)
        self._process.kill()
        code = await asyncio.to_thread(self._process.wait)
        self.gone.cancel()
        return code

    async def _read(self) -> None:
        try:
            while True:
                (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
                frame = decode(await self._reader.readexactly(size))
                answer = self._waiting.get(frame.head.get("id", -1))
                if answer is not None and not answer.done():
                    answer.set_result(frame)
        except (OSError, EOFError, ValueError):
            return
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(WorkerGone())
