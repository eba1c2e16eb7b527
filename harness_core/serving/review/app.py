"""The review server as an application: which parts it has, and what all of them share."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness_core.serving.review.blind_pages import BlindRoutes
from harness_core.serving.review.blind_study import Study
from harness_core.serving.review.desk import Desk
from harness_core.serving.review.pages import REVIEWER_COOKIE, Pages, address, clean_name
from harness_core.serving.review.protection import LoopbackOnly, Tokens, read_form
from harness_core.serving.review.review_pages import ReviewRoutes


def make_app(*, desk: Desk | None = None, study: Study | None = None, reviewer: str) -> ASGIApp:
    """The application: review of a log, a blind study, or both.

    Args:
        desk: where reviews go; None for a server that only judges blindly.
        study: a prepared study; None for none.
        reviewer: whose name reviews carry unless the browser says another one.
    """
    sections: dict[str, str] = {}
    if desk is not None:
        sections |= {"/": "Queue", "/summary": "Summary"}
    if study is not None:
        sections |= {"/blind": "Blind"}
    tokens = Tokens()
    pages = Pages(tokens=tokens, reviewer=reviewer, sections=sections)
    routes = [Route("/reviewer", _NameRoute(pages, tokens).change, methods=["POST"])]
    if desk is not None:
        routes += ReviewRoutes(desk, pages, tokens).routes()
    else:
        routes.append(Route("/", _to_blind))
    if study is not None:
        routes += BlindRoutes(study, pages, tokens).routes()
    failures = {HTTPException: _failure_page(pages), 500: _failure_page(pages)}
    # Outside of everything, so that the page of a failure is protected as well.
    return LoopbackOnly(Starlette(routes=routes, exception_handlers=failures))


class _NameRoute:
    """Who sits before the browser."""

    def __init__(self, pages: Pages, tokens: Tokens) -> None:
        self._pages = pages
        self._tokens = tokens

    async def change(self, request: Request) -> Response:
        """Remember the name in a cookie."""
        form = await read_form(request)
        if not self._tokens.accepts(request, form):
            raise HTTPException(403, "This form was older than the server; go back and reload.")
        response = RedirectResponse(address("/", done="name"), 303)
        name = clean_name(form.get("name", ""))
        response.set_cookie(REVIEWER_COOKIE, quote(name), httponly=True, samesite="strict")
        return response


async def _to_blind(_: Request) -> Response:
    return RedirectResponse("/blind", 303)


def _failure_page(pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def show(request: Request, error: Exception) -> Response:
        status, words = 500, "The server failed; its terminal says why. Nothing was written."
        if isinstance(error, HTTPException):
            status, words = error.status_code, error.detail
        return pages.render(request, "failure.html.jinja", status=status, words=words)

    return show
