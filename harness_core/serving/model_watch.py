"""Which model is in use: looked up again and again, opened aside, swapped without a pause."""

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor

from harness_core.serving.deciding import Decider
from harness_core.serving.metrics import ProxyMetrics
from harness_core.serving.selector import Locate

_LOG = logging.getLogger("harness")


class ModelWatch:
    """Keeps the model of whoever decides up to date."""

    def __init__(
        self, decider: Decider, metrics: ProxyMetrics, *, locate: Locate, poll_s: float
    ) -> None:
        self._decider = decider
        self._metrics = metrics
        self._locate = locate
        self._poll_s = poll_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._poked = asyncio.Event()
        self._seen: str | None = None
        """Version that was tried last: a damaged one is not tried again and again."""

    def poke(self) -> None:
        """Look now."""
        in_use = self._decider.in_use
        self._seen = None if in_use is None else in_use.version
        self._poked.set()

    async def refresh(self) -> None:
        """Look for another model and use it; whatever fails, the present one stays."""
        try:
            loop = asyncio.get_running_loop()
            located = await loop.run_in_executor(self._thread, self._locate)
            if located is None or located.version == self._seen:
                return
            self._seen = located.version
            await self._decider.open(located)
        except Exception as error:  # noqa: BLE001  # a bad model must not end what serves
            self._metrics.model_loads.labels(result="failed").inc()
            _LOG.warning("proxy: the model cannot be opened: %s", error)
            return
        self._metrics.model_loads.labels(result="opened").inc()
        _LOG.info("proxy: model %s is in use", located.version)

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
