"""Decisions in a process of its own, so that scoring never takes the event loop's interpreter.

The process is watched over: when it dies, or hangs, another one is started and opens the same
model; until then there are no decisions, and the proxy fails open. What waits is kept here, one
decision at a time goes over, so that those that somebody waits for overtake those of shadow.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson
from pydantic import ValidationError

from harness_core.controller.decision import Decision
from harness_core.errors import ModelError
from harness_core.serving.deciding import Answered, Failure, InUse, Wish
from harness_core.serving.frames import Frame
from harness_core.serving.selector import Located
from harness_core.serving.worker_process import WorkerGone, WorkerProcess

HANG_S: Final = 90.0
"""After which a decision is given up for good, with the process that makes it."""
OPEN_S: Final = 180.0
"""Time to start the process and to open a model."""
_PAUSES_S: Final = (0.05, 30.0)
"""Before another start: at first, and at most, for it doubles each time."""
_SETTLED_S: Final = 60.0
"""A process that lived so long is no reason to be careful with the next one."""
_LOG = logging.getLogger("harness")


@dataclass(slots=True, eq=False)
class _Job:
    price: float | None
    content: bytes
    answer: "asyncio.Future[Answered | Failure]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def settle(self, result: Answered | Failure) -> None:
        if not self.answer.done():
            self.answer.set_result(result)


class ProcessDecider:
    """Implements `Decider`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        max_waiting: int,
        hang_s: float = HANG_S,
        note_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is started before the first model is to be opened.

        Args:
            command: starts a program that runs a `worker.Worker` on its standard input.
            max_waiting: decisions that are being made or wait for it.
            hang_s: after which a process that does not answer is ended.
            note_end: called whenever a process ended unasked.
        """
        self._command = tuple(command)
        self._max_waiting = max_waiting
        self._hang_s = hang_s
        self._note_end = note_end
        self._located: Located | None = None
        self._in_use: InUse | None = None
        self._worker: asyncio.Future[WorkerProcess] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._urgent: deque[_Job] = deque()
        self._later: deque[_Job] = deque()
        self._n_sent = 0
        self._arrived = asyncio.Event()

    @property
    def in_use(self) -> InUse | None:
        """See `Decider.in_use`."""
        return self._in_use

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none that is ready."""
        worker = self._worker
        is_there = worker is not None and worker.done() and worker.exception() is None
        return worker.result().pid if worker is not None and is_there else None

    async def open(self, located: Located) -> None:
        """See `Decider.open`."""
        try:
            async with asyncio.timeout(OPEN_S):
                self._in_use = await _open(await self._present(), located)
        except TimeoutError as error:
            raise ModelError(f"{located.folder}: it could not be opened in time") from error
        except WorkerGone as error:
            raise ModelError(f"{located.folder}: the scoring process died of it") from error
        self._located = located

    async def decide(self, wish: Wish) -> Answered | Failure:
        """See `Decider.decide`."""
        if self._in_use is None:
            return "no_model" if self._located is None else "scorer_error"
        if len(self._urgent) + len(self._later) + self._n_sent >= self._max_waiting:
            if not (wish.is_urgent and self._later):
                return "busy"
            self._later.popleft().settle("busy")
        try:
            asked = {**wish.question._asdict(), "goal": wish.goal}
            job = _Job(wish.price, orjson.dumps(asked))
        except TypeError:  # a number that is too large for JSON as others read it
            return "bad_state"
        waiting = self._urgent if wish.is_urgent else self._later
        waiting.append(job)
        self._arrived.set()
        try:
            return await job.answer
        finally:
            with contextlib.suppress(ValueError):
                waiting.remove(job)

    async def close(self) -> None:
        """See `Decider.close`."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def _present(self) -> WorkerProcess:
        """The process that there is, or the next one."""
        if self._watch is None:
            self._worker = asyncio.get_running_loop().create_future()
            self._watch = asyncio.create_task(self._watch_over())
        assert self._worker is not None
        return await asyncio.shield(self._worker)

    async def _watch_over(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = _PAUSES_S[0]
        while True:
            began = loop.time()
            try:
                worker = await WorkerProcess.start(self._command)
            except OSError as error:
                _LOG.warning("proxy: no scoring process: %s", error)
                self._tell_those_who_wait()
            else:
                await self._live_with(worker)
            self._note_end()
            if loop.time() - began > _SETTLED_S:
                pause_s = _PAUSES_S[0]
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSES_S[1])

    async def _live_with(self, worker: WorkerProcess) -> None:
        """Use a process until it is gone; whoever waited for it is told."""
        patience_s = 0.0
        assert self._worker is not None
        try:
            await self._open_again(worker)
            self._worker.set_result(worker)
            await self._feed(worker)
        except Exception as error:  # noqa: BLE001  # whatever it was, another one is started
            _LOG.warning("proxy: the scoring process is given up: %s", type(error).__name__)
        except asyncio.CancelledError:
            patience_s = 1.0
            raise
        finally:
            self._in_use = None
            self._tell_those_who_wait()
            await worker.end(patience_s=patience_s)

    async def _open_again(self, worker: WorkerProcess) -> None:
        if self._located is None:
            return
        try:
            async with asyncio.timeout(OPEN_S):
                self._in_use = await _open(worker, self._located)
        except ModelError as error:
            _LOG.warning("proxy: the model cannot be opened again: %s", error)

    def _tell_those_who_wait(self) -> None:
        for job in (*self._urgent, *self._later):
            job.settle("scorer_error")
        assert self._worker is not None
        if not self._worker.done():
            self._worker.set_exception(WorkerGone())
            self._worker.exception()  # whether anybody waits or not
        self._worker = asyncio.get_running_loop().create_future()

    async def _feed(self, worker: WorkerProcess) -> None:
        while True:
            job = await self._next(worker)
            self._n_sent = 1
            try:
                async with asyncio.timeout(self._hang_s):
                    answer = await worker.ask({"do": "decide", "price": job.price}, job.content)
                job.settle(_read(answer))
            finally:
                self._n_sent = 0
                job.settle("scorer_error")

    async def _next(self, worker: WorkerProcess) -> _Job:
        while True:
            waiting = self._urgent or self._later
            if waiting:
                return waiting.popleft()
            self._arrived.clear()
            arrived = asyncio.create_task(self._arrived.wait())
            await asyncio.wait({arrived, worker.gone}, return_when=asyncio.FIRST_COMPLETED)
            arrived.cancel()
            if worker.gone.done():
                raise WorkerGone


async def _open(worker: WorkerProcess, located: Located) -> InUse:
    head = {"do": "open", "version": located.version, "folder": str(located.folder)}
    answer = (await worker.ask(head)).head
    if "failure" in answer:
        raise ModelError(answer["failure"])
    return InUse(located.version, answer["k_max"])


def _read(answer: Frame) -> Answered | Failure:
    failure: Failure | None = answer.head.get("failure")
    if failure is not None:
        return failure
    try:
        decision = Decision.model_validate_json(answer.content)
    except ValidationError:
        return "scorer_error"
    return Answered(decision, bool(answer.head["wants_more"]))
