"""The one upstream: requests go there and nowhere else, keys as well."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import httpx
import orjson

from harness_core.serving.config import ProxyConfig
from harness_core.serving.metrics import ProxyMetrics
from harness_core.serving.refusals import Refusal
from harness_core.trajectories.schema import JsonObject

HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"trailers transfer-encoding upgrade".split()
)
_NOT_SENT: Final = HOP_BY_HOP | {b"host", b"content-length", b"accept-encoding", b"expect"}
_READABLE: Final = ("gzip", "deflate")
"""Encodings that we can read too; the others are not offered to the upstream."""
_MAX_MODELS: Final = 256
_LOG = logging.getLogger("harness")

RawHeaders = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request for the upstream."""

    method: str
    path: str
    query: str
    headers: RawHeaders
    content: bytes

    def asking(self, body: JsonObject, *, number: int = 0) -> "Call":
        """The same with another body; calls beyond the first must not count as repetitions."""
        headers = [
            (
                name,
                value + f"-{number}".encode() if number and name == b"idempotency-key" else value,
            )
            for name, value in self.headers
        ]
        return replace(self, content=orjson.dumps(body), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that was read whole."""

    status: int
    headers: RawHeaders
    content: bytes
    """Without its encoding."""

    @property
    def is_ok(self) -> bool:
        """Whether the upstream did what it was asked."""
        return self.status < 300  # noqa: PLR2004  # the end of HTTP's successes

    @property
    def document(self) -> JsonObject | None:
        """Its JSON object, if it is one."""
        try:
            found = orjson.loads(self.content)
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None


class Upstream:
    """A client with a pool of connections to one server."""

    def __init__(
        self,
        config: ProxyConfig,
        metrics: ProxyMetrics,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._base = config.base
        self._limits = config.limits
        self._key = config.upstream_key
        self._drops_key = bool(config.keys)
        self._metrics = metrics
        self._refuses_n: OrderedDict[str, None] = OrderedDict()
        limits = config.limits
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(
                connect=limits.connect_s,
                read=limits.read_s,
                write=limits.read_s,
                pool=limits.read_s,
            ),
            # Shorter than what servers keep: nobody asks over a connection that is being closed.
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=128, keepalive_expiry=4.0
            ),
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    @asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[httpx.Response]:
        """Send a call; the answer's body is read by whoever asked.

        Raises:
            Refusal: the upstream cannot be reached, doesn't answer, or sends us elsewhere.
        """
        request = httpx.Request(
            call.method,
            self._base.url(call.path, call.query),
            headers=self._headers(call.headers),
            content=call.content,
            extensions={"timeout": self._client.timeout.as_dict()},
        )
        began = time.perf_counter()
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TimeoutException as error:
            self._metrics.upstream_calls.labels(status="error").inc()
            raise Refusal(504, "upstream_timeout", "The upstream did not answer.") from error
        except httpx.HTTPError as error:
            self._metrics.upstream_calls.labels(status="error").inc()
            _LOG.warning("proxy: the upstream cannot be asked: %s", type(error).__name__)
            raise Refusal(502, "upstream_unreachable", "The upstream cannot be asked.") from error
        self._metrics.upstream_seconds.observe(time.perf_counter() - began)
        self._metrics.upstream_calls.labels(status=str(response.status_code)).inc()
        try:
            if response.is_redirect:
                raise Refusal(502, "upstream_redirects", "The upstream sends us elsewhere.")
            yield response
        finally:
            await response.aclose()

    async def ask(self, call: Call) -> Reply:
        """Send a call and read its whole answer.

        Raises:
            Refusal: as for `open`, or the answer breaks off or is too long.
        """
        async with self.open(call) as response:
            parts, n_bytes = [], 0
            try:
                async for part in response.aiter_bytes():
                    parts.append(part)
                    n_bytes += len(part)
                    if n_bytes > self._limits.max_reply_bytes:
                        raise Refusal(502, "reply_too_long", "The upstream's answer is too long.")
            except httpx.TimeoutException as error:
                raise Refusal(504, "upstream_timeout", "The upstream stopped answering.") from error
            except httpx.HTTPError as error:
                raise Refusal(502, "upstream_broke_off", "The upstream broke off.") from error
            return Reply(
                status=response.status_code, headers=response.headers.raw, content=b"".join(parts)
            )

    async def ask_all(self, calls: Sequence[Call]) -> list[Reply | Refusal]:
        """Send calls side by side; whoever gives up cancels them all."""

        async def one(call: Call) -> Reply | Refusal:
            try:
                return await self.ask(call)
            except Refusal as refusal:
                return refusal

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(call)) for call in calls]
        return [task.result() for task in tasks]

    def refuses_n(self, model: str) -> bool:
        """Whether several candidates of a model have to be asked for one by one."""
        return model in self._refuses_n

    def note_refusal(self, model: str) -> None:
        """Remember that."""
        self._refuses_n[model] = None
        if len(self._refuses_n) > _MAX_MODELS:
            self._refuses_n.popitem(last=False)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _headers(self, given: RawHeaders) -> list[tuple[bytes, bytes]]:
        named = _named_by_connection(given)
        kept = [
            (name, value)
            for name, value in given
            if name not in _NOT_SENT
            and name not in named
            and not name.startswith(b"x-harness-")
            and not (name == b"authorization" and (self._drops_key or self._key is not None))
        ]
        if self._key is not None:
            kept.append((b"authorization", b"Bearer " + self._key.get_secret_value().encode()))
        return [*kept, (b"accept-encoding", _readable(given))]


def _named_by_connection(headers: RawHeaders) -> set[bytes]:
    """Headers that are for one hop because `Connection` says so."""
    values = (value for name, value in headers if name == b"connection")
    return {part.strip().lower() for value in values for part in value.split(b",")}


def _readable(headers: RawHeaders) -> bytes:
    offered = b",".join(value for name, value in headers if name == b"accept-encoding").decode(
        "latin-1"
    )
    kept = [one for one in _READABLE if one in offered]
    return ", ".join(kept or ["identity"]).encode()


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers of an answer that the client gets too."""
    return [(name.lower(), value) for name, value in headers if name.lower() not in HOP_BY_HOP]
