"""Which model is in use: looked up again and again, opened aside, swapped without a pause."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from harness_core.serving.metrics import ProxyMetrics
from harness_core.serving.scorer import OpenModel, Scorer

_LOG = logging.getLogger("harness")


class Located(NamedTuple):
    """A model folder; another model has another version."""

    version: str
    folder: Path


Locate = Callable[[], Located | None]
"""Says which model is to be used, cheaply; None for none."""
OpenFolder = Callable[[Located], OpenModel]


class ModelWatch:
    """Keeps a scorer's model up to date."""

    def __init__(
        self,
        scorer: Scorer,
        metrics: ProxyMetrics,
        *,
        locate: Locate,
        open_folder: OpenFolder,
        poll_s: float,
    ) -> None:
        self._scorer = scorer
        self._metrics = metrics
        self._locate = locate
        self._open_folder = open_folder
        self._poll_s = poll_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._poked = asyncio.Event()
        self._seen: str | None = None
        """Version that was tried last: a damaged one is not tried again and again."""

    def poke(self) -> None:
        """Look now."""
        self._seen = None if self._scorer.model is None else self._scorer.model.version
        self._poked.set()

    async def refresh(self) -> None:
        """Look for another model and use it; whatever fails, the present one stays."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._refresh)

    async def run(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._poked.wait()
            self._poked.clear()
            await self.refresh()

    def close(self) -> None:
        """Stop looking."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _refresh(self) -> None:
        try:
            located = self._locate()
            if located is None or located.version == self._seen:
                return
            self._seen = located.version
            model = self._open_folder(located)
        except Exception as error:  # noqa: BLE001  # a bad model must not end what serves
            self._metrics.model_loads.labels(result="failed").inc()
            _LOG.warning("proxy: the model cannot be opened: %s", error)
            return
        self._metrics.model_loads.labels(result="opened").inc()
        self._scorer.swap(model)
        _LOG.info("proxy: model %s is in use", model.version)
