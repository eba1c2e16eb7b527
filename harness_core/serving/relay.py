"""Answers on their way to the client: as they come from the upstream, or as we made them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Literal

import httpx
from starlette.types import Receive, Send

from harness_core.serving.config import ProxyLimits
from harness_core.serving.refusals import Refusal
from harness_core.serving.upstream import passed_on

Ending = Literal["complete", "broke_off"]
_EVENTS: Final = "text/event-stream"
_LAST: Final = {"connection": "close"}
"""What remains of a body that was not read is not the next request."""
_LENGTHS: Final = (b"content-length", b"content-encoding", b"content-type")


def is_event_stream(response: httpx.Response) -> bool:
    """Whether an answer comes piece by piece."""
    return str(response.headers.get("content-type", "")).startswith(_EVENTS)


async def pass_on(
    response: httpx.Response,
    send: Send,
    *,
    headers: Iterable[tuple[bytes, bytes]],
    limits: ProxyLimits,
    keep: Callable[[bytes], None] | None,
) -> Ending:
    """Give the client what the upstream sends, byte for byte, while it is being sent.

    Where the upstream breaks off the client's connection is cut as well: that nothing is missing
    must not be said by us. Returns whether the answer came to its end.
    """
    idle_s = limits.stream_idle_s if is_event_stream(response) else limits.read_s
    await send(
        {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": [*passed_on(response.headers.raw), *headers],
        }
    )
    parts = response.aiter_raw()
    while True:
        try:
            async with asyncio.timeout(idle_s):
                part = await anext(parts, None)
        except (httpx.HTTPError, TimeoutError):
            return "broke_off"
        if part is None:
            break
        if keep is not None:
            keep(part)
        async with asyncio.timeout(limits.stream_idle_s):
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return "complete"


async def send_made(
    send: Send,
    content: Sequence[bytes],
    *,
    headers: Sequence[tuple[bytes, bytes]],
    more: Iterable[tuple[bytes, bytes]],
    streamed: bool,
) -> None:
    """Send an answer that we made, with those headers of the upstream that still fit it."""
    kept = [(name, value) for name, value in passed_on(headers) if name not in _LENGTHS]
    kind = f"{_EVENTS}; charset=utf-8" if streamed else "application/json"
    own = [(b"content-type", kind.encode()), *more]
    if not streamed:
        whole = b"".join(content)
        content, own = [whole], [*own, (b"content-length", str(len(whole)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": [*kept, *own]})
    for part in content:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def read_body(receive: Receive, limits: ProxyLimits) -> bytes:
    """The whole body of a request.

    Raises:
        Refusal: it is too long, or comes too slowly.
        ClientGone: the client left.
    """
    parts, n_bytes = [], 0
    try:
        async with asyncio.timeout(limits.body_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                n_bytes += len(part)
                if n_bytes > limits.max_body_bytes:
                    limit = limits.max_body_bytes
                    raise Refusal(
                        413,
                        "request_too_large",
                        f"The body is over {limit} bytes.",
                        headers=_LAST,
                    )
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        late = "The body did not arrive in time."
        raise Refusal(408, "request_timeout", late, headers=_LAST) from error


class ClientGone(Exception):
    """Nobody is there any more to be answered."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do something for a client, and stop at once when it leaves.

    Raises:
        ClientGone: it left.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    await task


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
