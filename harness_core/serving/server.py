"""The process around the application: its socket, its limits on connections, its end."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness_core.serving.config import ProxyConfig, check_bind

_SWITCH_S: Final = 0.00005
"""How long a thread that decides may keep the event loop waiting."""
_CLOSE_S: Final = 2.5
"""Of the time to drain, what is kept for the decision log."""
_MAX_CONNECTIONS: Final = 2048


def serve(app: Starlette, config: ProxyConfig, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was begun, in bounded time.

    Args:
        app: of the proxy.
        config: of the proxy.
        announce: is told the address once requests are taken.

    Raises:
        ParameterError: others could connect without keys or in the clear.
    """
    check_bind(config)
    sys.setswitchinterval(_SWITCH_S)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn drains first and then raises the signal once more, for whoever was there before.
        signal.signal(number, lambda *_: None)
    _AnnouncedServer(server_config(app, config), announce).run()


def server_config(app: Starlette, config: ProxyConfig) -> uvicorn.Config:
    """How uvicorn is to serve a proxy."""
    limits = config.limits

    class Protocol(_ImpatientProtocol):
        header_s = limits.body_s

    return uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
        h11_max_incomplete_event_size=limits.max_header_bytes,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, int(limits.drain_s - _CLOSE_S)),
    )


class _AnnouncedServer(uvicorn.Server):
    """Says where it listens: with port 0 nobody else knows."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            name = f"[{host}]" if ":" in host else host
            self._announce(f"{scheme}://{name}:{port}")


class _ImpatientProtocol(H11Protocol):
    """Closes connections whose request does not arrive in time, byte by byte as it may be."""

    header_s = 60.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in its base
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timer = self.loop.call_later(self.header_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._timer.cancel()
        elif self._timer.cancelled() and (self.cycle is None or self.cycle.response_complete):
            # The beginning of a request; the time runs from its first byte.
            self._timer = self.loop.call_later(self.header_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
