"""An upstream that says what a test tells it to, and misbehaves on demand; a server of its own.

A request chooses by its `model`: `<behaviour>` or `<behaviour>:<script>`, where a script names the
candidates. Run as a program it serves until it is killed.
"""

import asyncio
import contextlib
import gzip
import json
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

GOOD = "```python\ndef add(a, b):\n    return a + b\n```"
LONG = "```python\ndef add(a, b):\n    total = a\n    total = total + b\n    return total\n```"
BAD = "```python\nimport os\n\n\ndef add(a, b):\n    os.system('id')\n    return a + b\n```"
TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
DENIED_CALL = {
    "id": "call_2",
    "type": "function",
    "function": {"name": "write_file", "arguments": '{"path": "/root/.ssh/authorized_keys"}'},
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}

MESSAGES: dict[str, dict[str, Any]] = {
    "good": {"role": "assistant", "content": GOOD, "refusal": None},
    "long": {"role": "assistant", "content": LONG, "refusal": None},
    "bad": {"role": "assistant", "content": BAD, "refusal": None},
    "words": {"role": "assistant", "content": "It is 4, « naïvement » 🙂.", "annotations": []},
    "empty": {"role": "assistant", "content": ""},
    "refusal": {"role": "assistant", "content": None, "refusal": "I cannot help with that."},
    "reasoning": {"role": "assistant", "content": "4", "reasoning_content": "2 and 2 …"},
    "unknown": {"role": "assistant", "content": "4", "x_vendor": {"depth": [1, 2]}},
    "tool": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
    "denied": {"role": "assistant", "content": None, "tool_calls": [DENIED_CALL]},
    "two_tools": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL, DENIED_CALL]},
}
"""Candidates by name; `a+b` in a script is a list of them, taken in turn."""
ODD_STREAMS = ("stop_on_tools", "empty_choices", "no_done", "lost_tool_delta", "early_close")
"""What streams in the wild do wrong."""


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
        if behaviour == "broken":
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


def choice_of(message: dict[str, Any], index: int, *, with_logprobs: bool) -> dict[str, Any]:
    token = {"token": "4", "logprob": -0.1, "bytes": [52], "top_logprobs": []}
    return {
        "index": index,
        "message": message,
        "logprobs": {"content": [token], "refusal": None} if with_logprobs else None,
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }


def usage_of(n: int) -> dict[str, int]:
    return {
        "prompt_tokens": USAGE["prompt_tokens"],
        "completion_tokens": USAGE["completion_tokens"] * n,
        "total_tokens": USAGE["prompt_tokens"] + USAGE["completion_tokens"] * n,
    }


def chat_events(
    choices: Sequence[dict[str, Any]], behaviour: str, *, wants_usage: bool
) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(index: int, delta: dict[str, Any], finish: str | None = None, **rest: Any) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": finish, **rest}
        return data({**head, "choices": [choice]})

    events = [data({**head, "choices": []})] if behaviour == "empty_choices" else []
    for choice in choices:
        index, message = choice["index"], choice["message"]
        events.append(chunk(index, {"role": "assistant", "content": ""}))
        for key in ("reasoning_content", "content", "refusal"):
            text = message.get(key) or ""
            pieces = [text[at : at + 9] for at in range(0, len(text), 9)]
            events += [chunk(index, {key: piece}, logprobs=choice["logprobs"]) for piece in pieces]
        for place, call in enumerate(message.get("tool_calls") or ()):
            arguments = call["function"]["arguments"]
            begun = {**call, "index": place, "function": {**call["function"], "arguments": ""}}
            if behaviour != "lost_tool_delta":
                events.append(chunk(index, {"tool_calls": [begun]}))
            events += [
                chunk(index, {"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
                for piece in (arguments[:5], arguments[5:])
            ]
        finish = "stop" if behaviour == "stop_on_tools" else choice["finish_reason"]
        events.append(chunk(index, {}, finish))
    if wants_usage:
        events.append(data({**head, "choices": [], "usage": usage_of(len(choices))}))
    return events if behaviour == "no_done" else [*events, b"data: [DONE]\n\n"]


def response_document(message: dict[str, Any], *, model: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for place, call in enumerate(message.get("tool_calls") or ())
    ]
    if message.get("content"):
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        output.append({**item, "content": [text]})
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 11,
            "output_tokens": 7,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def data(payload: Any) -> bytes:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def event(name: str, **payload: Any) -> bytes:
    return f"event: {name}\n".encode() + data({"type": name, **payload})


def error(
    status: int, message: str, *, param: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    body = {"error": {"message": message, "type": "upstream", "param": param, "code": None}}
    return Response(
        json.dumps(body), status_code=status, media_type="application/json", headers=headers
    )


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


if __name__ == "__main__":
    uvicorn.run(
        Stub().app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False
    )
