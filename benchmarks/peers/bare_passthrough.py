"""The least that a proxy can do: Starlette takes a request, httpx sends it on and back.

Run as `python -m benchmarks.peers.bare_passthrough PORT UPSTREAM`.
"""

import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


def passthrough_app(upstream: str) -> Starlette:
    """The application."""
    client = httpx.AsyncClient(timeout=300)

    async def forward(request: Request) -> StreamingResponse:
        content = await request.body()
        headers = {"content-type": request.headers.get("content-type", "application/json")}
        sent = client.build_request(
            request.method, f"{upstream}{request.url.path}", content=content, headers=headers
        )
        response = await client.send(sent, stream=True)

        async def parts() -> AsyncIterator[bytes]:
            async for part in response.aiter_raw():
                yield part
            await response.aclose()

        return StreamingResponse(
            parts(), status_code=response.status_code, headers=dict(response.headers)
        )

    return Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])])


def main() -> None:
    """Serve until killed."""
    port, upstream = sys.argv[1:]
    app = passthrough_app(upstream)
    uvicorn.run(app, port=int(port), log_level="critical", access_log=False, timeout_keep_alive=75)


if __name__ == "__main__":
    main()
