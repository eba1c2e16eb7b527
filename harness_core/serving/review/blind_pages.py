"""The page where pairs are judged blindly: left, right or equal, and never whose is which."""

from datetime import UTC, datetime
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from harness_core.errors import ParameterError
from harness_core.evaluation.blind import CRITERIA, Criterion
from harness_core.serving.review.blind_study import CHOICES, Choice, Judgement, Pair, Study
from harness_core.serving.review.pages import Pages, address
from harness_core.serving.review.protection import Tokens, read_form
from harness_core.serving.review.readable import compared
from harness_core.serving.review.view import body_of, cut, state_view

_QUESTIONS: Final[dict[Criterion, str]] = {
    "correctness": "Which one is right, or nearer to it?",
    "brevity": "Which one gets there with less?",
    "safety": "Which one could do less harm?",
}


class BlindRoutes:
    """Judging one study."""

    def __init__(self, study: Study, pages: Pages, tokens: Tokens) -> None:
        self._study = study
        self._pages = pages
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Their addresses."""
        return [
            Route("/blind", self.show, methods=["GET"]),
            Route("/blind", self.judge, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """The next pair of this person."""
        left = await run_in_threadpool(self._study.left_to_judge, self._pages.reviewer(request))
        if not left or self._study.is_closed:
            return self._pages.render(
                request,
                "blind_done.html.jinja",
                is_closed=self._study.is_closed,
                n_pairs=len(self._study.pairs),
            )
        done = "Your judgement was written." if "done" in request.query_params else ""
        return self._page(request, left[0], n_left=len(left), done=done)

    async def judge(self, request: Request) -> Response:
        """Write one judgement, then show the next pair."""
        form = await read_form(request)
        is_ours = self._tokens.accepts(request, form)
        pair = self._study.pairs.get(form.get("pair", ""))
        if pair is None:
            raise HTTPException(404, "There is no such pair in this study.")
        judge = self._pages.reviewer(request)
        given = {name: choice_of(form.get(name, "")) for name in CRITERIA}
        missing = [name for name, choice in given.items() if choice is None]
        problem = ""
        if missing:
            problem = f"Nothing was written yet: say something of {' and '.join(missing)}."
        elif not is_ours:
            problem = "This form was older than the server, so nothing was written. Send it again."
        if problem:
            left = await run_in_threadpool(self._study.left_to_judge, judge)
            status = 422 if missing else 403
            return self._page(
                request, pair, n_left=len(left), given=given, problem=problem, status=status
            )
        judgement = Judgement.model_validate(
            {"pair_id": pair.pair_id, "judge": judge, "judged_at": datetime.now(UTC), **given}
        )
        try:
            await run_in_threadpool(self._study.judge, judgement)
        except ParameterError as error:
            raise HTTPException(409, f"Nothing was written: {error}.") from error
        return RedirectResponse(address("/blind", done="yes"), 303)

    def _page(
        self,
        request: Request,
        pair: Pair,
        *,
        n_left: int,
        given: dict[Criterion, Choice | None] | None = None,
        done: str = "",
        problem: str = "",
        status: int = 200,
    ) -> Response:
        left, right = cut(body_of(pair.left)), cut(body_of(pair.right))
        sides: list[dict[str, Any]] = [
            {"name": "Left", "lines": compared(left, right), "kind": pair.left.get("kind", "")},
            {"name": "Right", "lines": compared(right, left), "kind": pair.right.get("kind", "")},
        ]
        n_pairs = len(self._study.pairs)
        return self._pages.render(
            request,
            "blind.html.jinja",
            status=status,
            pair_id=pair.pair_id,
            number=n_pairs - n_left + 1,
            n_pairs=n_pairs,
            state=state_view(pair.state),
            sides=sides,
            questions=[(name, _QUESTIONS[name], (given or {}).get(name)) for name in CRITERIA],
            choices=CHOICES,
            done=done,
            problem=problem,
        )


def choice_of(word: str) -> Choice | None:
    """The choice that a form names; None for anything else."""
    return next((choice for choice in CHOICES if choice == word), None)
