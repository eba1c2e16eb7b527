"""An upstream that says what a test tells it to, and misbehaves on demand; a server of its own.

A request chooses by its `model`: `<behaviour>` or `<behaviour>:<script>`, where a script names the
candidates. Run as a program it serves until it is killed.
"""

import asyncio
import gzip
import json
import math
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.serving.stub_documents import (
    MESSAGES,
    chat_events,
    choice_of,
    data,
    event,
    response_document,
    usage_of,
)

Handler = Callable[[Request], Awaitable[Response]]


def tolerant(handler: Handler) -> Handler:
    """What cannot be read is the client's error."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as wrong:
            return error(400, f"cannot be read: {type(wrong).__name__}")

    return handle


@dataclass
class Seen:
    """What an upstream was asked."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    n_open: int = 0
    n_cancelled: int = 0


class Stub:
    """The application, and a record of what it was asked."""

    def __init__(self, messages: Mapping[str, dict[str, Any]] = MESSAGES) -> None:
        self.seen = Seen()
        self.messages = dict(messages)
        self.n_asked = 0
        self.breaks_at = math.inf
        """Number of candidates after which it breaks."""
        routes = [
            Route("/v1/chat/completions", tolerant(self.chat), methods=["POST"]),
            Route("/v1/completions", tolerant(self.completions), methods=["POST"]),
            Route("/v1/responses", tolerant(self.responses), methods=["POST"]),
            Route("/v1/embeddings", tolerant(self.embeddings), methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
        ]
        self.app = Starlette(routes=routes)

    async def chat(self, request: Request) -> Response:
        body, behaviour, script = await self._read(request)
        odd = await self._misbehave(behaviour, body, request)
        if odd is not None:
            return odd
        choices = self._choices(
            script, self._n(behaviour, body), with_logprobs=body.get("logprobs")
        )
        if body.get("stream"):
            wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            events = chat_events(choices, behaviour, wants_usage=wants_usage)
            return self._stream(events, behaviour)
        document = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model"),
            "choices": choices,
            "usage": usage_of(len(choices)),
            "system_fingerprint": "fp_1",
            "x_unknown": {"kept": True},
        }
        return self._json(document, request, behaviour)

    async def completions(self, request: Request) -> Response:
        body, behaviour, script = await self._read(request)
        odd = await self._misbehave(behaviour, body, request)
        if odd is not None:
            return odd
        texts = [
            str(choice["message"].get("content"))
            for choice in self._choices(script, self._n(behaviour, body))
        ]
        choices = [
            {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}
            for index, text in enumerate(texts)
        ]
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"]}
        if body.get("stream"):
            events = [data({**head, "choices": [choice]}) for choice in choices]
            return self._stream([*events, b"data: [DONE]\n\n"], behaviour)
        return self._json(
            {**head, "choices": choices, "usage": usage_of(len(choices))}, request, behaviour
        )

    async def responses(self, request: Request) -> Response:
        body, behaviour, script = await self._read(request)
        odd = await self._misbehave(behaviour, body, request)
        if odd is not None:
            return odd
        message = self._choices(script, 1)[0]["message"]
        document = response_document(message, model=str(body.get("model")))
        if body.get("stream"):
            begun = {**document, "status": "in_progress", "output": []}
            events = [
                event("response.created", response=begun, sequence_number=0),
                event("response.completed", response=document, sequence_number=1),
            ]
            return self._stream(events, behaviour)
        return self._json(document, request, behaviour)

    async def embeddings(self, request: Request) -> Response:
        await self._read(request)
        item = {"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}
        return self._json({"object": "list", "data": [item], "model": "e"}, request, "plain")

    async def models(self, request: Request) -> Response:
        self.seen.headers.append(dict(request.headers))
        model = {"id": "plain", "object": "model", "created": 1, "owned_by": "us"}
        return self._json({"object": "list", "data": [model]}, request, "plain")

    async def _read(self, request: Request) -> tuple[dict[str, Any], str, list[str]]:
        body = json.loads(await request.body())
        self.seen.bodies.append(body)
        self.seen.headers.append(dict(request.headers))
        behaviour, _, script = str(body.get("model", "plain")).partition(":")
        return body, behaviour, (script or "good").split("+")

    async def _misbehave(  # noqa: PLR0911  # one return a way of misbehaving
        self, behaviour: str, body: dict[str, Any], request: Request
    ) -> Response | None:
        n = body.get("n") or 1
        if behaviour == "refuses_n" and n > 1:
            return error(400, "n is not supported", param="n")
        if behaviour == "refuses_n_silently":
            body["n"] = 1
        if behaviour == "limited":
            return error(429, "slow down", headers={"retry-after": "7"})
        if behaviour == "broken" or self.n_asked >= self.breaks_at:
            return error(500, "we broke")
        if behaviour == "wrong":
            return error(400, "messages: unknown role", param="messages")
        if behaviour == "garbage":
            return Response(b"<html>\xff not JSON", media_type="text/html")
        if behaviour == "redirects":
            return Response(b"", status_code=307, headers={"location": "http://192.0.2.1/"})
        if behaviour == "freezes":
            await self._freeze(request)
        if behaviour == "slow":
            await asyncio.sleep(0.05)
        return None

    async def _freeze(self, request: Request) -> None:
        self.seen.n_open += 1
        try:
            while not await request.is_disconnected():  # noqa: ASYNC110  # it has no event
                await asyncio.sleep(0.01)
        finally:
            self.seen.n_open -= 1
            self.seen.n_cancelled += 1

    @staticmethod
    def _n(behaviour: str, body: dict[str, Any]) -> int:
        return 1 if behaviour == "refuses_n_silently" else int(body.get("n") or 1)

    def _choices(
        self, script: Sequence[str], n: int, *, with_logprobs: Any = None
    ) -> list[dict[str, Any]]:
        names = [script[(self.n_asked + place) % len(script)] for place in range(n)]
        self.n_asked += n
        return [
            choice_of(self.messages[name], place, with_logprobs=bool(with_logprobs))
            for place, name in enumerate(names)
        ]

    def _stream(self, events: Sequence[bytes], behaviour: str) -> Response:
        async def parts() -> Any:
            for number, one in enumerate(events):
                if behaviour == "stalls" and number:
                    await asyncio.sleep(3600)
                if behaviour == "drips":
                    await asyncio.sleep(0.005)
                if behaviour == "early_close" and number == 2:
                    raise ConnectionAbortedError
                yield one

        return StreamingResponse(parts(), media_type="text/event-stream")

    @staticmethod
    def _json(document: Any, request: Request, behaviour: str) -> Response:
        content = json.dumps(document, indent=1, ensure_ascii=False).encode()
        headers = {"x-request-id": "req_1", "x-ratelimit-remaining-requests": "99"}
        if behaviour == "zipped" and "gzip" in request.headers.get("accept-encoding", ""):
            content = gzip.compress(content, mtime=0)
            headers["content-encoding"] = "gzip"
        return Response(content, media_type="application/json", headers=headers)


def error(
    status: int, message: str, *, param: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    body = {"error": {"message": message, "type": "upstream", "param": param, "code": None}}
    return Response(
        json.dumps(body), status_code=status, media_type="application/json", headers=headers
    )


if __name__ == "__main__":
    uvicorn.run(
        Stub().app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False
    )
