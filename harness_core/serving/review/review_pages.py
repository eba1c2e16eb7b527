"""Queue, decisions and summary: the pages of review, and what their forms do."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from harness_core.errors import DecisionLogError
from harness_core.serving.review.desk import (
    VERDICTS,
    AlreadyReviewed,
    Answer,
    Desk,
    Verdict,
    WrongAnswer,
)
from harness_core.serving.review.pages import Pages, address
from harness_core.serving.review.protection import Tokens, read_form
from harness_core.serving.review.queue import CAUSES, Cause, ReviewItem
from harness_core.serving.review.readable import visible
from harness_core.serving.review.rule_words import rule_in_words
from harness_core.serving.review.view import (
    CAUSE_NAMES,
    body_of,
    decision_view,
    review_view,
    when,
)
from harness_core.trajectories.decision_log import LoggedReview

_DONE: Final[Mapping[str, str]] = {
    "approve": "Approved.",
    "choose": "Your choice was written.",
    "correct": "Your correction was written.",
    "reject": "Rejected: no candidate is right.",
    "appeal": "The appeal was written.",
    "appeal_open": "The appeal was written. The request itself still waits for a verdict.",
    "name": "Your name was changed.",
}
_MAX_LISTED: Final = 200
_STALE: Final = (
    "This form was older than the server, so nothing was written. What you had typed is below: "
    "look at it and send it again."
)


class ReviewRoutes:
    """Queue, decisions and summary."""

    def __init__(self, desk: Desk, pages: Pages, tokens: Tokens) -> None:
        self._desk = desk
        self._pages = pages
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Their addresses."""
        return [
            Route("/", self.queue),
            Route("/decision", self.show, methods=["GET"]),
            Route("/decision", self.answer, methods=["POST"]),
            Route("/candidate", self.candidate),
            Route("/summary", self.summary),
        ]

    async def queue(self, request: Request) -> Response:
        """What waits, oldest first."""
        cause = _cause(request)
        backlog = await run_in_threadpool(self._desk.backlog)
        found = backlog.waiting_for(cause)
        return self._pages.render(
            request,
            "queue.html.jinja",
            cause=cause,
            rows=[_row(item) for item in found[:_MAX_LISTED]],
            n_waiting=len(found),
            causes=[(one, CAUSE_NAMES[one], len(backlog.waiting_for(one))) for one in CAUSES],
            n_all=len(backlog.waiting),
            n_settled=len(backlog.items) - len(backlog.waiting),
            n_items=len(backlog.items),
            n_decisions=backlog.n_decisions,
            n_unreadable=backlog.n_unreadable,
            done=_DONE.get(request.query_params.get("done", ""), ""),
        )

    async def show(self, request: Request) -> Response:
        """One decision, or what was said of it."""
        item = await self._item(request)
        backlog = self._desk.latest
        earlier = backlog.reviews.get(item.decision_id, ())
        if item.decision_id not in backlog.waiting and "again" not in request.query_params:
            return self._already(request, item, earlier, {})
        start = request.query_params.get("from", "")
        candidates = item.logged.candidates
        is_known = start.isdecimal() and len(start) < 6 and int(start) < len(candidates)  # noqa: PLR2004
        draft = body_of(candidates[int(start)]) if is_known else ""
        done = _DONE.get(request.query_params.get("done", ""), "")
        return self._page(request, item, draft=draft, done=done)

    async def answer(self, request: Request) -> Response:
        """Write what a form says, then show the next decision."""
        form = await read_form(request)
        is_ours = self._tokens.accepts(request, form)
        item = await self._item(request)
        draft, note = form.get("correction", ""), form.get("note", "")
        if not is_ours:
            return self._page(request, item, draft=draft, note=note, problem=_STALE, status=403)
        try:
            answer = self._answer(request, form)
            await run_in_threadpool(
                self._desk.submit, item, answer, second_opinion=form.get("second") == "yes"
            )
        except WrongAnswer as error:
            return self._page(request, item, draft=draft, note=note, problem=str(error), status=422)
        except AlreadyReviewed as error:
            return self._already(request, item, error.reviews, form, status=409)
        except DecisionLogError as error:
            problem = f"Nothing was written: {error}"
            return self._page(request, item, draft=draft, note=note, problem=problem, status=503)
        return await self._go_on(request, item, answer.verdict)

    async def candidate(self, request: Request) -> Response:
        """The whole text of one candidate, as plain text."""
        item = await self._item(request)
        number = request.query_params.get("number", "")
        if not number.isdecimal() or not 0 < int(number) <= len(item.logged.candidates):
            raise HTTPException(404, "There is no such candidate.")
        return PlainTextResponse(visible(body_of(item.logged.candidates[int(number) - 1])))

    async def summary(self, request: Request) -> Response:
        """Progress, and false positives of the filter by rule."""
        backlog = await run_in_threadpool(self._desk.backlog)
        verdicts = [one.verdict for reviews in backlog.reviews.values() for one in reviews]
        people = [one.reviewer for reviews in backlog.reviews.values() for one in reviews]
        return self._pages.render(
            request,
            "summary.html.jinja",
            rules=[(one, rule_in_words(one.rule)) for one in backlog.rule_counts()],
            verdicts=[(name, verdicts.count(name)) for name in VERDICTS],
            people=sorted({(name, people.count(name)) for name in people}, key=lambda one: -one[1]),
            n_waiting=len(backlog.waiting),
            n_items=len(backlog.items),
            n_decisions=backlog.n_decisions,
        )

    async def _go_on(self, request: Request, item: ReviewItem, verdict: Verdict) -> Response:
        cause = _cause(request)
        is_open = item.decision_id in self._desk.latest.waiting
        if is_open:
            to = address("/decision", id=item.decision_id, why=cause, done="appeal_open")
            return RedirectResponse(to, 303)
        after = request.query_params.get("next", "")
        waiting = self._desk.latest.waiting
        following = waiting.get(after) or self._desk.latest.after(item.decision_id, cause)
        if following is None:
            return RedirectResponse(address("/", why=cause, done=verdict), 303)
        to = address("/decision", id=following.decision_id, why=cause, done=verdict)
        return RedirectResponse(to, 303)

    def _answer(self, request: Request, form: Mapping[str, str]) -> Answer:
        action, _, number = form.get("action", "").partition(":")
        verdict = next((one for one in VERDICTS if one == action), None)
        if verdict is None or (number and not (number.isascii() and number.isdecimal())):
            raise WrongAnswer("The form did not say what to do.")
        return Answer(
            verdict=verdict,
            reviewer=self._pages.reviewer(request),
            chosen_index=int(number[:6]) if number else None,
            correction=form.get("correction"),
            note=form.get("note", "").strip(),
        )

    async def _item(self, request: Request) -> ReviewItem:
        decision_id = request.query_params.get("id", "")
        item = await run_in_threadpool(self._desk.find, decision_id)
        if item is None:
            raise HTTPException(404, "No decision of this id needs a person.")
        return item

    def _page(
        self,
        request: Request,
        item: ReviewItem,
        *,
        draft: str = "",
        note: str = "",
        done: str = "",
        problem: str = "",
        status: int = 200,
    ) -> Response:
        cause = _cause(request)
        following = self._desk.latest.after(item.decision_id, cause)
        backlog = self._desk.latest
        next_id = None
        if following is not None and following.decision_id != item.decision_id:
            next_id = following.decision_id
        return self._pages.render(
            request,
            "decision.html.jinja",
            status=status,
            cause=cause,
            next_id=next_id,
            n_waiting=len(backlog.waiting_for(cause)),
            reviews=[review_view(one) for one in backlog.reviews.get(item.decision_id, ())],
            draft=draft,
            note=note,
            done=done,
            problem=problem,
            is_settled=item.decision_id not in backlog.waiting,
            **decision_view(item),
        )

    def _already(
        self,
        request: Request,
        item: ReviewItem,
        reviews: Sequence[LoggedReview],
        form: Mapping[str, str],
        *,
        status: int = 200,
    ) -> Response:
        following = self._desk.latest.after(item.decision_id, _cause(request))
        return self._pages.render(
            request,
            "already.html.jinja",
            status=status,
            id=item.decision_id,
            cause=_cause(request),
            reviews=[review_view(one) for one in reviews],
            form=form,
            sent=_sent(form),
            next_id=None if following is None else following.decision_id,
        )


def _cause(request: Request) -> Cause | None:
    asked = request.query_params.get("why")
    return next((cause for cause in CAUSES if cause == asked), None)


def _row(item: ReviewItem) -> dict[str, Any]:
    state = item.logged.state
    first = str(state.get("description") or state.get("task_id") or "").strip().split("\n")[0]
    return {
        "id": item.decision_id,
        "at": when(item.logged.decided_at),
        "title": first[:140] or item.decision_id,
        "n_candidates": len(item.logged.candidates),
        "causes": [CAUSE_NAMES[cause] for cause in item.causes],
    }


def _sent(form: Mapping[str, str]) -> str:
    action, _, number = form.get("action", "").partition(":")
    return {
        "approve": "approve the suggestion",
        "choose": f"choose candidate {int(number) + 1 if number.isdecimal() else '?'}",
        "correct": "write a correction",
        "appeal": f"appeal candidate {int(number) + 1 if number.isdecimal() else '?'}",
        "reject": "reject every candidate",
    }.get(action, "")
