"""A pool of boxes behind the `Sandbox` protocol.

Each worker is one thread that owns its boxes for as long as the pool lives: bubblewrap dies with
the thread that started it. A box that breaks is replaced and its job tried once more in a fresh
one; a job that breaks two boxes is a candidate that died, not an error of ours.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from harness_core.errors import HarnessError, SandboxError
from harness_core.sandbox.box import Box, BoxError
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.conversation import died_check, died_program, run_check, run_program
from harness_core.sandbox.precheck import unloadable
from harness_core.sandbox.protocol import CheckJob, ProgramJob
from harness_core.sandbox.result import CheckRun, ProgramRun

_N_TRIES: Final = 2
_Result = TypeVar("_Result")


class Boxes:
    """The boxes of one worker: one for candidates and, once it is needed, one for tests."""

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self._is_closed = False
        self._open: dict[str, Box] = {}

    @property
    def candidate(self) -> Box:
        """The box where programs run."""
        return self._get("candidate")

    @property
    def test(self) -> Box:
        """The box where test sources run; no candidate code ever does."""
        return self._get("test")

    def kill(self) -> None:
        """End them all; the next use starts fresh ones."""
        while self._open:
            self._open.popitem()[1].kill()

    def interrupt(self) -> None:
        """Kill the boxes from another thread; whoever waits for one gets a `BoxError`."""
        self._is_closed = True
        for box in list(self._open.values()):
            box.interrupt()

    def _get(self, role: str) -> Box:
        if self._is_closed:
            raise SandboxError("the sandbox was closed while it worked")
        if role not in self._open:
            self._open[role] = Box(self.config)
        return self._open[role]


@dataclass(slots=True)
class _Batch(Generic[_Result]):
    """Jobs of one call; workers take indices from a shared counter."""

    work: Callable[[Boxes, int], _Result]
    give_up: Callable[[int], _Result]
    results: list[_Result | None]
    n_left: int
    error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, index: int, result: _Result | None, error: BaseException | None) -> None:
        with self.lock:
            self.results[index] = result
            self.error = self.error or error
            self.n_left -= 1
            if not self.n_left:
                self.done.set()


class BoxPool:
    """Implements `Sandbox` with `config.n_workers` threads."""

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.trusted = config.backend != "unsafe_local"
        self.layers: tuple[str, ...] = ()
        self._queue: queue.SimpleQueue[tuple[_Batch[Any], int] | None] = queue.SimpleQueue()
        self._is_closed = False
        self._boxes = [Boxes(config) for _ in range(config.n_workers)]
        self._workers = [
            threading.Thread(target=self._serve, args=(boxes,), name="sandbox", daemon=True)
            for boxes in self._boxes
        ]
        for worker in self._workers:
            worker.start()
        try:
            (self.layers,) = self._run_batch(
                1, lambda boxes, _: boxes.candidate.layers, give_up=lambda _: ()
            )
        except BaseException:
            self.close()
            raise

    def run_programs(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        """Run programs on their calls; see `Sandbox`."""
        known = [self._known(job) for job in jobs]
        wanted = [job for job, run in zip(jobs, known, strict=True) if run is None]
        runs = self._run_batch(
            len(wanted),
            lambda boxes, index: run_program(boxes.candidate, wanted[index], self.config),
            give_up=lambda index: died_program(wanted[index], self.layers),
        )
        ran = iter(runs)
        return [next(ran) if run is None else run for run in known]

    def run_checks(self, jobs: Sequence[CheckJob]) -> list[CheckRun]:
        """Run test sources against programs; see `Sandbox`."""
        return self._run_batch(
            len(jobs),
            lambda boxes, index: run_check(boxes.candidate, boxes.test, jobs[index], self.config),
            give_up=lambda _: died_check(self.layers),
        )

    def close(self) -> None:
        """End every process of the pool; closing twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        for _ in self._workers:
            self._queue.put(None)
        for boxes in self._boxes:
            boxes.interrupt()
        for worker in self._workers:
            worker.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _known(self, job: ProgramJob) -> ProgramRun | None:
        # The Python of a container image may be another one, and take what ours does not.
        return None if self.config.backend == "docker" else unloadable(job, self.layers)

    def _run_batch(
        self,
        n_jobs: int,
        work: Callable[[Boxes, int], _Result],
        *,
        give_up: Callable[[int], _Result],
    ) -> list[_Result]:
        if self._is_closed:
            raise SandboxError("the sandbox is closed; open another one")
        if not n_jobs:
            return []
        results: list[_Result | None] = [None] * n_jobs
        batch = _Batch(work=work, give_up=give_up, results=results, n_left=n_jobs)
        for index in range(n_jobs):
            self._queue.put((batch, index))
        batch.done.wait()
        if batch.error is not None:
            raise batch.error
        return [result for result in results if result is not None]

    def _serve(self, boxes: Boxes) -> None:
        try:
            while (item := self._queue.get()) is not None:
                batch, index = item
                if self._is_closed or batch.error is not None:
                    batch.finish(index, None, SandboxError("the sandbox was closed"))
                    continue
                try:
                    batch.finish(index, _try(boxes, batch, index), None)
                except Exception as error:  # noqa: BLE001  # raised again in the caller's thread
                    boxes.kill()
                    batch.finish(index, None, error)
        finally:
            boxes.kill()


def _try(boxes: Boxes, batch: _Batch[_Result], index: int) -> _Result:
    for _ in range(_N_TRIES):
        try:
            return batch.work(boxes, index)
        except BoxError:
            boxes.kill()
        except HarnessError:
            raise
    return batch.give_up(index)
