"""Entries on their way into the decision log, and other work that goes on after an answer."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from harness_core.serving.judging import DecisionSink
from harness_core.serving.metrics import ProxyMetrics
from harness_core.trajectories.decision_log import LogEntry

_MAX_WAITING: Final = 10_000
_PATIENCE_S: Final = 1.0
"""A disk that takes longer must not hold an agent up."""
_LOG = logging.getLogger("harness")


class Recorder:
    """Writes entries in a thread of its own; that it cannot never fails a request."""

    def __init__(self, sink: DecisionSink | None, metrics: ProxyMetrics) -> None:
        self._sink = sink
        self._metrics = metrics
        self._slots = threading.BoundedSemaphore(_MAX_WAITING)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="log")
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, make: Callable[[], LogEntry]) -> Future[None] | None:
        """Write an entry, which is made by the writer too; None if it is not written."""
        if self._sink is None:
            return None
        if not self._slots.acquire(blocking=False):
            self._metrics.log_records.labels(result="dropped").inc()
            return None
        try:
            return self._writer.submit(self._write, self._sink, make)
        except RuntimeError:  # it was closed
            self._slots.release()
            self._metrics.log_records.labels(result="dropped").inc()
            return None

    async def keep(self, make: Callable[[], LogEntry]) -> None:
        """Write an entry and wait until the log has it, but no longer than an answer may wait.

        Whoever is then told the id of a decision can report what came of it, whatever happens to
        this process.
        """
        writing = self.put(make)
        if writing is not None:
            await asyncio.wait({asyncio.wrap_future(writing)}, timeout=_PATIENCE_S)

    def afterwards(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something go on while the client has its answer already."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self, *, timeout_s: float) -> None:
        """Finish what was begun, as far as the time goes, and close the log."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
        sink = self._sink
        await asyncio.to_thread(self._writer.shutdown)
        if sink is not None:
            await asyncio.to_thread(sink.close)

    def _write(self, sink: DecisionSink, make: Callable[[], LogEntry]) -> None:
        try:
            sink.append(make())
            self._metrics.log_records.labels(result="written").inc()
        except Exception as error:  # noqa: BLE001  # the log must not fail an agent
            self._metrics.log_records.labels(result="failed").inc()
            _LOG.warning("proxy: a decision was not logged: %s", type(error).__name__)
        finally:
            self._slots.release()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.warning("proxy: after an answer: %s", type(task.exception()).__name__)
