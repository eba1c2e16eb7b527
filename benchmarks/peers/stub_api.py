"""An upstream of known speed: each candidate takes the same time, and the answer says how long.

Run as `python -m benchmarks.peers.stub_api PORT CANDIDATES_FILE SECONDS`. The file holds a list of
texts, which are given one after the other. All candidates of a call are made side by side.
"""

import asyncio
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SECONDS: Final = "x-stub-seconds"
"""Header with the time from the whole request to the answer, in seconds."""


def stub_app(texts: list[str], seconds: float) -> Starlette:
    """The application; `seconds` is what a candidate takes."""
    serial = count()

    async def answer(request: Request) -> Response:
        body: dict[str, Any] = orjson.loads(await request.body())
        began = time.perf_counter()
        if seconds:
            await asyncio.sleep(seconds)
        choices = []
        for index in range(int(body.get("n") or 1)):
            number = next(serial)
            # A comment makes every text new to every cache.
            text = f"```python\n{texts[number % len(texts)]}# {number}\n```"
            message = {"role": "assistant", "content": text}
            choices.append({"index": index, "message": message, "finish_reason": "stop"})
        tokens = 64 * len(choices)
        document = {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", "stub"),
            "choices": choices,
            "usage": {
                "prompt_tokens": 64,
                "completion_tokens": tokens,
                "total_tokens": 64 + tokens,
            },
        }
        spent = time.perf_counter() - began
        return Response(
            orjson.dumps(document),
            media_type="application/json",
            headers={SECONDS: f"{spent:.6f}"},
        )

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])


def main() -> None:
    """Serve until killed."""
    port, file, seconds = sys.argv[1:]
    app = stub_app(orjson.loads(Path(file).read_bytes()), float(seconds))
    uvicorn.run(app, port=int(port), log_level="critical", access_log=False, timeout_keep_alive=75)


if __name__ == "__main__":
    main()
