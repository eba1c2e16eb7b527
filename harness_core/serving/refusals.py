"""Answers of the proxy itself when something is refused or broke, in the shape of OpenAI's API."""

from collections.abc import Mapping
from typing import Final

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from harness_core.errors import HarnessError

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    502: "upstream_error",
    503: "overloaded_error",
    504: "upstream_error",
}


class Refusal(HarnessError):
    """A request that is answered by us; `status` and `code` say why."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with it."""
        await self.response(scope, receive, send)

    @property
    def response(self) -> Response:
        """The answer."""
        error = {
            "message": str(self),
            "type": _TYPES.get(self.status, "server_error"),
            "param": self.param,
            "code": self.code,
        }
        return Response(
            orjson.dumps({"error": error}),
            status_code=self.status,
            headers={**self.headers, "content-type": "application/json"},
        )


def busy(status: int, code: str, message: str, *, after_s: float) -> Refusal:
    """A refusal that ends by itself: ask again after so many seconds."""
    return Refusal(status, code, message, headers={"retry-after": str(max(1, round(after_s)))})
