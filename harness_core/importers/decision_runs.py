"""Logged requests as runs: which belong together, and the trajectory that they tell."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness_core.importers.base import ImportContext
from harness_core.importers.decision_marks import mark_of, policy_of
from harness_core.importers.decision_requests import Request, RequestAgent, RequestItem
from harness_core.importers.rejects import UnreadableError
from harness_core.trajectories.decision_log import LoggedOutcome, LoggedReview, settled
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Candidate,
    JsonObject,
    Outcome,
    Step,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import ActionKind

IMPORTER: Final = "decisions"
_DECIDING: Final = ("approve", "choose", "correct")

_End = tuple[str | None, str, str]
"""Session, task, and digest of the actions so far."""

Outcomes = Mapping[str, Sequence[LoggedOutcome]]
Reviews = Mapping[str, Sequence[LoggedReview]]


def runs_of(requests: Iterable[Request]) -> list[list[Request]]:
    """Requests that belong to one run, in the order of time; runs in the order of their first.

    A request goes on with the run whose steps its history begins with. One that tells no history
    at all is taken at the word of its session.
    """
    runs: list[list[Request]] = []
    by_end: dict[_End, list[Request]] = {}
    of_session: dict[str, list[Request]] = {}
    for request in sorted(requests, key=_when):
        session = request.decision.session_id
        run = _continued(request, by_end)
        if request.state.history is None and session in of_session:
            last = of_session[session]
            run = last if last[0].task.task_id == request.task.task_id else None
        if run is None:
            run = []
            runs.append(run)
        if run:
            by_end.pop(_end_of(run), None)
        run.append(request)
        by_end[_end_of(run)] = run
        if session is not None:
            of_session[session] = run
    return runs


def told_run(
    run: Sequence[Request], outcomes: Outcomes, reviews: Reviews, context: ImportContext
) -> Trajectory | None:
    """What the agent did; None if nothing was answered and nothing done before."""
    steps = _steps(run)
    if not steps:
        return None
    reported = [settled(outcomes.get(item.decision.decision_id, ())) for item in run]
    known = [item for item in reported if item is not None]
    return _trajectory(
        run[0],
        steps,
        policy=policy_of(item.decision for item in run),
        marks=[
            mark_of(item.decision, reviews.get(item.decision.decision_id, ()), outcome)
            for item, outcome in zip(run, reported, strict=True)
        ],
        outcome=Outcome(success=known[-1].success, score=known[-1].score) if known else Outcome(),
        is_over=bool(known),
        context=context,
    )


def reviewed_run(
    request: Request, reviews: Sequence[LoggedReview], outcomes: Outcomes, context: ImportContext
) -> Iterator[Trajectory]:
    """The run as a person wanted it to go on, if they wanted anything else than what was done."""
    for review in reviews:
        if review.verdict == "appeal":
            context.warn("D-APPEAL")
    deciding = [item for item in reviews if item.verdict in _DECIDING]
    if not deciding:
        return
    last = max(deciding, key=lambda item: (item.reviewed_at, item.review_id))
    wanted = _wanted(request, last)
    answered = request.decision.answered_index
    if answered is not None and wanted.chosen_index == answered:
        return
    before = [_told_step(request, number, item) for number, item in enumerate(request.history)]
    # What was reported came of the person's choice only if nothing else was answered before it.
    reported = (
        None if answered is not None else settled(outcomes.get(request.decision.decision_id, ()))
    )
    is_attempt = wanted.action.kind is ActionKind.CODE
    success = True if is_attempt else None
    yield _trajectory(
        request,
        [*before, wanted.model_copy(update={"index": len(before)})],
        policy="human",
        marks=[mark_of(request.decision, [last], reported)],
        outcome=Outcome(success=success)
        if reported is None
        else Outcome(success=reported.success, score=reported.score),
        is_over=True,
        context=context,
        extra={"review": last.verdict},
    )


def _trajectory(
    first: Request,
    steps: Sequence[Step],
    *,
    policy: str,
    marks: Sequence[JsonObject],
    outcome: Outcome,
    is_over: bool,
    context: ImportContext,
    extra: Mapping[str, Any] | None = None,
) -> Trajectory:
    agent = first.state.agent or RequestAgent()
    session = first.decision.session_id
    return Trajectory(
        task=first.task,
        agent=Agent(
            name=agent.name or "unknown", version=agent.version or "", model=agent.model or ""
        ),
        steps=tuple(steps),
        outcome=outcome,
        terminated=is_over,
        truncated=not is_over,
        provenance=context.provenance(IMPORTER, first.record),
        extra={
            "controller": {"policy": policy, "decisions": list(marks)},
            **({"session_id": session} if session else {}),
            **(extra or {}),
        },
    )


def _when(request: Request) -> tuple[Any, str]:
    return request.decision.decided_at, request.decision.decision_id


def _continued(request: Request, by_end: Mapping[_End, list[Request]]) -> list[Request] | None:
    """The longest run that a request tells as its history."""
    told = [request.action(item) for item in request.history]
    for length in range(len(told), 0, -1):
        run = by_end.get(_end(request, told[:length]))
        if run is not None:
            return run
    return None


def _end_of(run: Sequence[Request]) -> _End:
    return _end(run[0], [step.action for step in _steps(run)])


def _end(request: Request, actions: Sequence[Action]) -> _End:
    """What two requests agree in if one goes on from the other."""
    digest = hashlib.sha256()
    for action in actions:
        digest.update(f"{action.kind}:{len(action.text)}:{action.text}".encode())
    return request.decision.session_id, request.task.task_id, digest.hexdigest()


def _steps(run: Sequence[Request]) -> list[Step]:
    """What was done, with what came back as later requests of the run tell it."""
    steps: list[Step] = []
    for request in run:
        for number, item in enumerate(request.history):
            if number < len(steps):
                steps[number] = _with_result(steps[number], item)
            else:
                steps.append(_told_step(request, number, item))
        index = request.decision.answered_index
        if index is not None:
            steps.append(_decided_step(request, len(steps), index))
    return steps


def _with_result(step: Step, item: RequestItem) -> Step:
    told = {"result": item.result, "is_error": item.is_error}
    return step.model_copy(update={key: value for key, value in told.items() if value is not None})


def _told_step(request: Request, index: int, item: RequestItem) -> Step:
    """A step that the log has no decision of."""
    return Step(
        index=index,
        observation=item.observation or "",
        thought=item.thought or "",
        action=request.action(item),
        result=item.result or "",
        is_error=item.is_error,
    )


def _decided_step(request: Request, index: int, chosen: int) -> Step:
    decision, item = request.decision, request.candidates[chosen]
    sure = decision.propensity == 1
    candidates = tuple(
        Candidate(
            action=request.action(other),
            # Of the others it is known only if they had no chance.
            propensity=decision.propensity if place == chosen else 0.0 if sure else None,
        )
        for place, other in enumerate(request.candidates)
    )
    return _told_step(request, index, item).model_copy(
        update={
            "usage": Usage(**decision.usage.model_dump()),
            "candidates": candidates,
            "chosen_index": chosen,
            "propensity": decision.propensity,
            "decision_id": decision.decision_id,
        }
    )


def _wanted(request: Request, review: LoggedReview) -> Step:
    """The step that a person wanted; it counts as well done."""
    candidates = list(request.candidates)
    chosen = review.chosen_index
    if review.verdict == "correct":
        kind = candidates[0].kind if candidates else None
        candidates.append(RequestItem(kind=kind, text=review.correction or ""))
        chosen = len(candidates) - 1
    elif chosen is None:
        given = (request.decision.decision or {}).get("chosen_index")
        chosen = request.decision.answered_index if given is None else given
    if not isinstance(chosen, int) or not 0 <= chosen < len(candidates):
        raise UnreadableError("D-REVIEW", "names no candidate", field="chosen_index")
    return _told_step(request, 0, candidates[chosen]).model_copy(
        update={
            "candidates": tuple(Candidate(action=request.action(item)) for item in candidates),
            "chosen_index": chosen,
            "decision_id": request.decision.decision_id,
            "logged_reward": 1.0,
        }
    )
