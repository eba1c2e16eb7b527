"""Decisions in threads of this process: what libraries and tests use where no process is wanted."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from harness_core.serving.deciding import Answered, Failure, InUse, Wish, decided
from harness_core.serving.selector import Located, OpenFolder, OpenModel

N_THREADS: Final = 2
CLOSE_S: Final = 30.0
"""How long a model that is no longer used may still be asked before it is closed all the same."""


class ThreadDecider:
    """Implements `Decider`. Deciding takes the interpreter from the event loop now and then."""

    def __init__(self, open_folder: OpenFolder, *, max_waiting: int) -> None:
        self._open_folder = open_folder
        self._model: OpenModel | None = None
        self._slots = threading.BoundedSemaphore(max_waiting)
        self._idle = threading.Condition()
        self._n_asking: Counter[str] = Counter()
        self._deciders = ThreadPoolExecutor(N_THREADS, thread_name_prefix="decide")

    @property
    def in_use(self) -> InUse | None:
        """See `Decider.in_use`."""
        model = self._model
        return None if model is None else InUse(model.version, model.k_max)

    async def open(self, located: Located) -> None:
        """See `Decider.open`."""
        await asyncio.to_thread(self._open, located)

    async def decide(self, wish: Wish) -> Answered | Failure:
        """See `Decider.decide`."""
        if self._model is None:
            return "no_model"
        if not self._slots.acquire(blocking=False):
            return "busy"
        try:
            future = self._deciders.submit(self._decide, wish)
        except RuntimeError:  # the pool was shut down
            self._slots.release()
            return "scorer_error"
        future.add_done_callback(lambda _: self._slots.release())
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """See `Decider.close`."""
        self._deciders.shutdown(wait=False, cancel_futures=True)
        model, self._model = self._model, None
        if model is not None:
            model.close()

    def _open(self, located: Located) -> None:
        """Close the old model once nobody asks it any more."""
        model = self._open_folder(located)
        with self._idle:
            old, self._model = self._model, model
            if old is not None:
                self._idle.wait_for(lambda: not self._n_asking[old.version], timeout=CLOSE_S)
        if old is not None:
            old.close()

    def _decide(self, wish: Wish) -> Answered | Failure:
        with self._asking() as model:
            return "no_model" if model is None else decided(model, wish)

    @contextmanager
    def _asking(self) -> Iterator[OpenModel | None]:
        """The model in use, which is not closed meanwhile."""
        with self._idle:
            model = self._model
            version = "" if model is None else model.version
            self._n_asking[version] += 1
        try:
            yield model
        finally:
            with self._idle:
                self._n_asking[version] -= 1
                if not self._n_asking[version]:
                    del self._n_asking[version]  # or one would stay of every model there was
                self._idle.notify_all()
