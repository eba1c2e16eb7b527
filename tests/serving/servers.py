"""Real servers in threads of a test, each on a port of its own."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn


@contextlib.contextmanager
def served(app: Any, **options: Any) -> Iterator[str]:
    """A real server in a thread; gives its address."""
    settings = {"host": "127.0.0.1", "port": 0, "log_level": "critical", "lifespan": "auto"}
    config = uvicorn.Config(app, **{**settings, **options})
    with running(config) as address:
        yield address


class _Alert(uvicorn.Server):
    """Looks a hundred times a second whether it should end."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)


@contextlib.contextmanager
def running(config: uvicorn.Config) -> Iterator[str]:
    server = _Alert(config)
    # With its protocol named, asyncio switches the delay of small parts off.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind((config.host, config.port))
    sock.listen(512)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    for _ in range(2000):
        if server.started or not thread.is_alive():
            break
        threading.Event().wait(0.005)
    assert server.started
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=15)
        sock.close()
