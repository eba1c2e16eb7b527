"""One request from its first byte to its last: let in, passed on or ranked, answered, recorded."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import httpx
import orjson
from starlette.datastructures import Headers
from starlette.types import Message as Event
from starlette.types import Receive, Scope, Send

from harness_core.serving.auth import Keys
from harness_core.serving.config import ProxyConfig
from harness_core.serving.knobs import BODY_KEY, Knobs, read_knobs
from harness_core.serving.limits import Admission
from harness_core.serving.metrics import ProxyMetrics
from harness_core.serving.recorder import Recorder
from harness_core.serving.refusals import Refusal
from harness_core.serving.relay import ClientGone, pass_on, read_body, while_connected
from harness_core.serving.scorer import Scorer
from harness_core.serving.upstream import Call, RawHeaders, Upstream, passed_on
from harness_core.trajectories.schema import JsonObject

DECISION_ID: Final = b"x-controller-decision-id"
REASON: Final = b"x-harness-reason"
USAGE: Final = b"x-harness-usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all requests share."""

    config: ProxyConfig
    keys: Keys
    admission: Admission
    upstream: Upstream
    scorer: Scorer
    recorder: Recorder
    metrics: ProxyMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, read."""

    call: Call
    body: JsonObject | None
    """The JSON object of the body, if it is one."""
    knobs: Knobs
    send: Send


class Endpoint:
    """Serves one path; what is done with a request that was let in is for subclasses to say."""

    def __init__(self, services: Services, path: str) -> None:
        self._services = services
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        services, headers = self._services, Headers(scope=scope)
        status = _Status(send)
        mode = "off"
        try:
            with ExitStack() as stack:
                self._let_in(headers, scope, stack)
                knobs = self._knobs(headers)
                mode = knobs.mode
                content = await read_body(receive, services.config.limits)
                call = Call(
                    method=scope["method"],
                    path=scope["path"],
                    query=scope["query_string"].decode("latin-1"),
                    headers=scope["headers"],
                    content=content,
                )
                await while_connected(receive, self._serve(call, knobs, status))
        except Refusal as refusal:
            if not status.has_begun:
                await refusal(scope, receive, status)
        except (ClientGone, TimeoutError):
            # Nobody listens; an answer that was begun is cut off when we return.
            status.code = status.code or 499
        count = services.metrics.requests
        count.labels(route=self._path, mode=mode, status=str(status.code or 500)).inc()

    async def serve(self, asked: Asked) -> None:
        """Answer a request that was let in: here, by passing it on."""
        await self.relay(asked, headers=(), keep=None)

    async def relay(
        self, asked: Asked, *, headers: RawHeaders, keep: "Kept | None"
    ) -> httpx.Response | None:
        """Pass a request on, and its answer back; return the answer's head if all of it came."""
        services = self._services
        async with services.upstream.open(asked.call) as response:
            ending = await pass_on(
                response,
                asked.send,
                headers=headers,
                limits=services.config.limits,
                keep=None if keep is None else keep.add,
            )
        if ending != "complete":
            services.metrics.odd_streams.labels(oddity=ending).inc()
            return None
        return response

    def _knobs(self, headers: Headers) -> Knobs:
        return read_knobs(headers, self._services.config)

    async def _serve(self, call: Call, knobs: Knobs, send: Send) -> None:
        body = self._read(call.content)
        await self.serve(Asked(call=call, body=body, knobs=knobs, send=send))

    def _read(self, content: bytes) -> JsonObject | None:
        del content
        return None

    def _let_in(self, headers: Headers, scope: Scope, stack: ExitStack) -> None:
        services = self._services
        limits = services.config.limits
        n_bytes = sum(len(name) + len(value) for name, value in scope["headers"])
        if n_bytes > limits.max_header_bytes:
            raise Refusal(431, "headers_too_large", "The headers are too long.")
        client = scope.get("client")
        who = services.keys.identify(headers, address=client[0] if client else "")
        stack.enter_context(services.admission.admitted(who))
        gauge = services.metrics.in_flight
        gauge.inc()
        stack.callback(gauge.dec)


class Kept:
    """A copy of an answer that is passed on, up to a length."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._parts: list[bytes] = []
        self.n_bytes = 0
        """Of the answer so far, with its encoding."""

    def add(self, part: bytes) -> None:
        """Keep a part; one that is too long makes the copy worthless."""
        self.n_bytes += len(part)
        self._left -= len(part)
        if self._left < 0:
            self._parts.clear()
        else:
            self._parts.append(part)

    def content(self, response: httpx.Response) -> bytes | None:
        """The whole answer without its encoding; None if it was too long or cannot be decoded."""
        if self._left < 0:
            return None
        kind = response.headers.get("content-encoding")
        headers = {} if kind is None else {"content-encoding": kind}
        try:
            return httpx.Response(200, headers=headers, content=b"".join(self._parts)).content
        except httpx.DecodingError:
            return None


class _Status:
    """A `send` that remembers the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.code = 0
        self.has_begun = False

    async def __call__(self, message: Event) -> None:
        if message["type"] == "http.response.start":
            self.code = message["status"]
            self.has_begun = True
        await self._send(message)


def read_object(content: bytes) -> JsonObject | None:
    """The JSON object of a body, if it is one."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def without_harness(call: Call, body: Mapping[str, Any] | None) -> Call:
    """A call as the upstream may see it, untouched where there was nothing of ours in it."""
    if body is None or BODY_KEY not in body:
        return call
    return call.asking({key: value for key, value in body.items() if key != BODY_KEY})


def plain_headers(headers: RawHeaders) -> RawHeaders:
    """Headers of an answer that was read whole and is passed on without its encoding."""
    dropped = (b"content-length", b"content-encoding")
    return [(name, value) for name, value in passed_on(headers) if name not in dropped]
