"""What protects a local page: the host it is asked for, its headers, and the origin of its forms.

A page on the loopback interface can be reached by every page that the browser shows. So a request
must name a loopback host (no name of somebody else that resolves to us), forms carry a token that
only our own pages know, and no page of ours runs or loads anything but its own.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "harness_review"
MAX_FORM_BYTES: Final = 4 << 20
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_FORM: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 20
_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    # The origin of a form is only sent along where the address may be.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class LoopbackOnly:
    """Refuses requests for other hosts; gives every answer its headers and every page a nonce."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
            "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = policy
                headers.update(_HEADERS)
            await send(message)

        if host_of(Headers(scope=scope).get("host", "")) not in _LOOPBACK:
            refusal = PlainTextResponse("This page answers to loopback names only.\n", 400)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


class Tokens:
    """Tokens of forms, bound to a cookie; known to this process only."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def token(self, cookie: str) -> str:
        """The token that forms of this cookie's owner carry."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def accepts(self, request: Request, form: Mapping[str, str]) -> bool:
        """Whether the form was made by a page of this process for the same browser.

        Raises:
            HTTPException: the form says itself that it comes from elsewhere (403).
        """
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise HTTPException(403, "This form came from another page.")
        if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            raise HTTPException(403, "This form came from another page.")
        cookie = cookie_of(request)
        given = form.get("token", "").encode()
        return cookie is not None and hmac.compare_digest(given, self.token(cookie).encode())


def host_of(header: str) -> str:
    """The name in a `Host` header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def cookie_of(request: Request) -> str | None:
    """Our cookie, if the browser sent one that we could have set."""
    jar = SimpleCookie()
    try:
        jar.load(request.headers.get("cookie", ""))
    except CookieError:
        return None
    value = jar[COOKIE].value if COOKIE in jar else ""
    return value if 16 <= len(value) <= 64 and value.isascii() else None  # noqa: PLR2004  # of ours


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name; line ends as the person typed them.

    Raises:
        HTTPException: it is no form (415), too large (413), or not UTF-8 (400).
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        raise HTTPException(415, "Only plain forms are taken.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413, f"More than {MAX_FORM_BYTES >> 20} MiB in one form.")
    try:
        fields = parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_MAX_FIELDS,
            errors="strict",
        )
    except ValueError as error:
        raise HTTPException(400, "The form is not UTF-8 text.") from error
    # Browsers send every line end of a text area as two characters.
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}
