"""How much one client, and all of them together, may ask at a time."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from harness_core.serving.config import ProxyLimits
from harness_core.serving.refusals import busy

_MAX_CLIENTS: Final = 4096
"""Clients that are remembered; the one that was idle longest is forgotten."""
_BURST_S: Final = 10.0
_MINUTE: Final = 60.0


@dataclass(slots=True)
class _Client:
    tokens: float
    filled_at: float
    n_open: int = 0


class Admission:
    """Lets requests in, or refuses them. Used by one event loop only."""

    def __init__(self, limits: ProxyLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._per_s = limits.requests_per_minute / _MINUTE
        self._full = max(1.0, self._per_s * _BURST_S)
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self.n_open = 0

    @contextmanager
    def admitted(self, name: str) -> Iterator[None]:
        """Let a request of a client in for as long as the context lasts.

        Raises:
            Refusal: there are too many, of this client or of all.
        """
        client = self._client(name)
        if self.n_open >= self._limits.max_in_flight:
            raise busy(503, "overloaded", "The proxy is at its limit of requests.", after_s=1)
        if client.n_open >= self._limits.max_concurrent:
            raise busy(
                429, "too_many_concurrent", "Too many requests of this key at a time.", after_s=1
            )
        if client.tokens < 1:
            wait_s = (1 - client.tokens) / self._per_s
            raise busy(429, "rate_limit_exceeded", "Too many requests of this key.", after_s=wait_s)
        client.tokens -= 1
        client.n_open += 1
        self.n_open += 1
        try:
            yield
        finally:
            client.n_open -= 1
            self.n_open -= 1

    def _client(self, name: str) -> _Client:
        now = self._clock()
        client = self._clients.setdefault(name, _Client(tokens=self._full, filled_at=now))
        self._clients.move_to_end(name)
        client.tokens = min(self._full, client.tokens + (now - client.filled_at) * self._per_s)
        client.filled_at = now
        if len(self._clients) > _MAX_CLIENTS:
            idle = next((key for key, one in self._clients.items() if not one.n_open), None)
            if idle is not None and idle != name:
                del self._clients[idle]
        return client
