"""Importer `openai_chat`: logs of chat completions, and plain conversations.

One record is `{"messages": [...]}`, a whole conversation, or one call of the API: `{"request":
{"messages", "model"}, "response": {"choices", "usage", "model"}}`, also without the two wrappers.
One assistant turn is one step; a response with several choices holds the candidates of its step.
A call whose conversation went on in a later record of the source is not told twice: it becomes a
step of the longer conversation and brings its candidates and usage along.

Optional keys, at the top or in `metadata`: `task_id` (else a digest of the user's first message),
`family`, `agent`, `chosen_index`, and the outcome: `success` (bool), `score` (in [0, 1]) or
`outcome` (either, or an object of both).
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import Field

from harness_core.importers.base import (
    ImportContext,
    Item,
    LogRecord,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.chat import (
    Conversation,
    Message,
    action_of,
    canonical_json,
    joined,
    take_apart,
    thought_of,
)
from harness_core.importers.framing import read_records
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import TaskBook, canonical_task_id, family_of
from harness_core.trajectories.schema import (
    Agent,
    Candidate,
    JsonObject,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import Language

_ID_CHARS: Final = 12


class _Choice(LogRecord):
    message: Message
    finish_reason: str | None = None


class _Tokens(LogRecord):
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)


class _Request(LogRecord):
    messages: list[Message]
    model: str | None = None


class _Response(LogRecord):
    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None
    usage: _Tokens | None = None


class _Flat(LogRecord):
    messages: list[Message] | None = None
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Tokens | None = None
    request: _Request | None = None
    response: _Response | None = None
    metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One record: messages, and the choices of the last turn if it is one call of the API."""

    record: RawRecord
    messages: list[Message]
    choices: list[_Choice]
    chosen: int
    usage: Usage
    model: str
    labels: JsonObject
    """Optional keys, from the top and from `metadata`."""

    def ends(self) -> list[str]:
        """Digest of the whole conversation, one for each choice that it may have ended with."""
        if not self.choices:
            return _digests(self.messages)[-1:]
        return [_digests([*self.messages, choice.message])[-1] for choice in self.choices]

    def beginnings(self) -> list[str]:
        """Digests of all conversations that this one continues."""
        digests = _digests(self.messages)
        return digests if self.choices else digests[:-1]

    @property
    def conversation(self) -> list[Message]:
        chosen = [self.choices[self.chosen].message] if self.choices else []
        return [*self.messages, *chosen]


class OpenaiChatImporter:
    """Reads chat completions and conversations."""

    name: Final = "openai_chat"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines or documents."""
        return has_suffix(path, ".jsonl", ".json", ".ndjson")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Messages with roles; other formats have them too, so it is never very sure."""
        del path
        has_messages = b'"messages"' in head and b'"role"' in head
        return 0.7 if has_messages and b'"content"' in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """All calls are read before the first is told: a later one may continue it."""
        calls: list[_Call] = []

        def note(record: RawRecord) -> tuple[Item, ...]:
            calls.append(_call(record))
            return ()

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, note)
        yield from _tell(calls, context)


def _tell(calls: Sequence[_Call], context: ImportContext) -> Iterator[Item]:
    tasks = TaskBook()
    continued = {digest for call in calls for digest in call.beginnings()}
    # Digest of a conversation that went on → the call that made its last turn.
    earlier = {end: call for call in calls for end in call.ends() if end in continued}
    absorbed = {id(call) for call in earlier.values()}
    for call in calls:
        if id(call) in absorbed:
            context.warn("O-CONTINUED")
            continue

        def build(record: RawRecord, call: _Call = call) -> Iterator[Item]:
            yield _trajectory(call, record, earlier, tasks, context)

        yield from build_items(call.record, context, build)
    yield from tasks


def _call(record: RawRecord) -> _Call:
    flat = _Flat.model_validate(record.value)
    request = flat.request or _Request(messages=flat.messages or [], model=flat.model)
    response = flat.response
    if response is None and flat.choices:
        response = _Response(choices=flat.choices, model=flat.model, usage=flat.usage)
    labels = {**record.value, **(flat.metadata or {})}
    choices = response.choices if response else []
    chosen = labels.get("chosen_index", 0)
    if not isinstance(chosen, int) or (choices and not 0 <= chosen < len(choices)):
        raise UnreadableError("O-CHOSEN", "names none of the choices", field="chosen_index")
    if not choices and not any(item.role == "assistant" for item in request.messages):
        raise UnreadableError("O-NO-STEPS", "the assistant said nothing", field="messages")
    tokens = (response.usage if response else None) or _Tokens()
    return _Call(
        record=record,
        messages=request.messages,
        choices=choices,
        chosen=chosen,
        usage=Usage(**tokens.model_dump()),
        model=(response.model if response else None) or request.model or "",
        labels=labels,
    )


def _trajectory(
    call: _Call,
    record: RawRecord,
    earlier: dict[str, _Call],
    tasks: TaskBook,
    context: ImportContext,
) -> Trajectory:
    messages = call.conversation
    conversation = take_apart(messages)
    task = _task(call, conversation)
    has_tools = any(message.tool_calls for message in messages)
    language = Language.TOOLS if has_tools else Language.TEXT
    tasks.add(TaskSpec(**task.model_dump(), source=context.source, language=language))
    digests = _digests(messages)
    makers = {len(messages) - 1: call} if call.choices else {}
    makers |= {index: earlier[digest] for index, digest in enumerate(digests) if digest in earlier}
    is_cut = bool(call.choices) and call.choices[call.chosen].finish_reason == "length"
    agent = call.labels.get("agent")
    return Trajectory(
        task=task,
        agent=Agent(name=agent if isinstance(agent, str) and agent else "chat", model=call.model),
        steps=tuple(_steps(conversation, makers, context)),
        outcome=_outcome(call.labels),
        terminated=not is_cut,
        truncated=is_cut,
        provenance=context.provenance(OpenaiChatImporter.name, record),
    )


def _steps(
    conversation: Conversation, makers: dict[int, _Call], context: ImportContext
) -> Iterator[Step]:
    depth = context.config.max_depth
    for index, turn in enumerate(conversation.turns):
        action = action_of(turn.message, max_depth=depth)
        maker = makers.get(turn.n_before)
        choices = maker.choices if maker and len(maker.choices) > 1 else []
        actions = [action_of(choice.message, max_depth=depth) for choice in choices]
        yield Step(
            index=index,
            observation=joined(message.text for message in turn.seen),
            thought=thought_of(turn.message),
            action=action,
            result=turn.result,
            is_error=turn.is_error,
            usage=maker.usage if maker else Usage(),
            candidates=tuple(Candidate(action=item) for item in actions),
            chosen_index=actions.index(action) if actions else None,
        )


def _task(call: _Call, conversation: Conversation) -> TaskRef:
    given = call.labels.get("task_id")
    if isinstance(given, str | int) and not isinstance(given, bool) and str(given):
        task_id = canonical_task_id(str(given))
    else:
        task_id = chat_task_id(conversation.description)
    family = call.labels.get("family")
    return TaskRef(
        task_id=task_id,
        family=family if isinstance(family, str) and family else family_of(task_id, default="chat"),
        description=conversation.description,
        initial_state=conversation.system,
    )


def chat_task_id(description: str) -> str:
    """Name of a task that has none: the same first message, the same task."""
    digest = hashlib.sha256(description.encode()).hexdigest()
    return f"chat/{digest[:_ID_CHARS]}"


def _outcome(labels: JsonObject) -> Outcome:
    """What the log says of the end; only truth values and numbers in [0, 1] count."""
    outcome = labels.get("outcome")
    said = {**labels, **outcome} if isinstance(outcome, dict) else labels
    success = said.get("success", outcome)
    score = said.get("score", outcome)
    return Outcome(success=success if isinstance(success, bool) else None, score=_score(score))


def _score(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


def _digests(messages: Sequence[Message]) -> list[str]:
    """For each message, the digest of the conversation up to and with it."""
    digest = hashlib.sha256()
    digests = []
    for message in messages:
        calls = [item.function.model_dump() for item in message.tool_calls or ()]
        digest.update(canonical_json([message.role, message.text, calls]).encode() + b"\n")
        digests.append(digest.hexdigest())
    return digests
