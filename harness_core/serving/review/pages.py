"""Pages from templates: everything is escaped, and hidden characters are shown by their code."""

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from harness_core.evaluation.labels import percent
from harness_core.serving.review.protection import COOKIE, Tokens, cookie_of
from harness_core.serving.review.readable import visible

REVIEWER_COOKIE = "harness_reviewer"
MAX_NAME_CHARS = 80


class Pages:
    """Renders the pages of one server."""

    def __init__(self, *, tokens: Tokens, reviewer: str, sections: Mapping[str, str]) -> None:
        """Make the renderer.

        Args:
            tokens: of forms.
            reviewer: whose name reviews carry unless the browser says another one.
            sections: address → name of the parts that this server has.
        """
        self._tokens = tokens
        self._reviewer = reviewer
        self._sections = sections

    def reviewer(self, request: Request) -> str:
        """Who sits before this browser."""
        return clean_name(unquote(request.cookies.get(REVIEWER_COOKIE, ""))) or self._reviewer

    def render(self, request: Request, name: str, *, status: int = 200, **values: Any) -> Response:
        """A page; sets the cookie that its forms are bound to."""
        cookie = cookie_of(request)
        is_new = cookie is None
        if cookie is None:
            cookie = secrets.token_urlsafe(24)
        text = (
            environment()
            .get_template(name)
            .render(
                nonce=request.state.nonce,
                token=self._tokens.token(cookie),
                reviewer=self.reviewer(request),
                sections=self._sections,
                here=request.url.path,
                **values,
            )
        )
        response = HTMLResponse(text, status_code=status)
        if is_new:
            response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict")
        return response


def address(path: str, **query: str | int | None) -> str:
    """An address on this server; parameters that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def clean_name(name: str) -> str:
    """A name as it may stand in the log: one line, not too long."""
    return " ".join(str(visible(name)).split())[:MAX_NAME_CHARS]


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The template engine."""
    made = Environment(
        loader=PackageLoader("harness_core.serving.review", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    made.filters["percent"] = percent
    made.globals["address"] = address
    return made
