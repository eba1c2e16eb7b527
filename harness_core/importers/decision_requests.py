"""One logged request, checked: its state, its candidates and its task."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from harness_core.importers.base import ImportContext, LogRecord, RawRecord
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import canonical_task_id, digest_of, family_of
from harness_core.trajectories.decision_log import LoggedDecision
from harness_core.trajectories.schema import Action, JsonObject, TaskRef, TaskSpec
from harness_core.trajectories.vocabulary import ActionKind, Language

_KINDS: Final = {Language.PYTHON: ActionKind.CODE, Language.TOOLS: ActionKind.TOOL_CALL}


class RequestAgent(LogRecord):
    """Who asked."""

    name: str | None = None
    version: str | None = None
    model: str | None = None


class RequestItem(LogRecord):
    """A candidate, or an earlier action."""

    kind: Annotated[ActionKind, Field(strict=False)] | None = None
    text: str | None = None
    arguments: JsonObject | None = None
    thought: str | None = None
    observation: str | None = None
    result: str | None = None
    is_error: bool | None = None


class RequestState(LogRecord):
    """What of a state becomes part of a trajectory; see `features.runtime.featurise_request`."""

    description: str | None = None
    initial_state: str | None = None
    task_id: str | int | None = None
    family: str | None = None
    language: Annotated[Language, Field(strict=False)] | None = None
    entry_point: str | None = None
    visible_checks: list[str] | None = None
    generated_checks: list[str] | None = None
    agent: RequestAgent | None = None
    history: list[RequestItem] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One logged decision, its state and candidates checked."""

    decision: LoggedDecision
    record: RawRecord
    state: RequestState
    candidates: tuple[RequestItem, ...]
    task: TaskRef

    @property
    def language(self) -> Language:
        """What the answers are written in."""
        return self.state.language or Language.TEXT

    @property
    def history(self) -> list[RequestItem]:
        """What was done before."""
        return self.state.history or []

    def action(self, item: RequestItem) -> Action:
        """The action of a candidate or of an earlier step."""
        kind = item.kind or _KINDS.get(self.language, ActionKind.MESSAGE)
        return Action(kind=kind, text=item.text or "", arguments=item.arguments or {})


def read_request(decision: LoggedDecision, record: RawRecord) -> Request:
    """Check what a decision was asked.

    Raises:
        UnreadableError: the candidate that was answered is none of them.
        pydantic.ValidationError: state or candidates have another shape.
    """
    state = RequestState.model_validate(decision.state)
    candidates = tuple(map(RequestItem.model_validate, decision.candidates))
    if decision.answered_index is not None and decision.answered_index >= len(candidates):
        raise UnreadableError("D-ANSWERED", "names no candidate", field="answered_index")
    return Request(
        decision=decision, record=record, state=state, candidates=candidates, task=_task(state)
    )


def task_of(request: Request, context: ImportContext) -> TaskSpec:
    """The task as far as the request tells it; it never tells hidden checks."""
    checks = request.state.generated_checks or []
    return TaskSpec(
        **request.task.model_dump(),
        source=context.source,
        language=request.language,
        entry_point=request.state.entry_point,
        visible_checks=tuple(request.state.visible_checks or ()),
        generated_checks=tuple(checks[: context.config.max_generated_checks]),
    )


def _task(state: RequestState) -> TaskRef:
    description, initial = state.description or "", state.initial_state or ""
    if state.task_id is None or state.task_id == "":
        task_id = f"decision/{digest_of(description + initial)}"
    else:
        task_id = canonical_task_id(str(state.task_id))
    # The proxy names conversations as the importer of chats does.
    default = "chat" if task_id.startswith("chat/") else "general"
    return TaskRef(
        task_id=task_id,
        family=state.family or family_of(task_id, default=default),
        description=description,
        initial_state=initial,
    )
