"""A trace of MLflow, checked: its spans with their values parsed, and what feedback says."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pydantic import Field

from harness_core.importers.base import LogRecord
from harness_core.importers.chat import Message, canonical_json
from harness_core.importers.framing import parse_json
from harness_core.importers.rejects import UnreadableError
from harness_core.trajectories.schema import JsonObject, Outcome, Usage

MODELS: Final = ("CHAT_MODEL", "LLM")
TOOL: Final = "TOOL"

_YES: Final = frozenset({"yes", "true", "pass", "passed", "correct"})
_NO: Final = frozenset({"no", "false", "fail", "failed", "incorrect"})
_SOURCES: Final = ("HUMAN", "CODE", "LLM_JUDGE")


class _Source(LogRecord):
    source_type: str = ""


class _Feedback(LogRecord):
    value: Any = None


class Assessment(LogRecord):
    """Feedback on a trace; an expectation has none and does not count."""

    assessment_name: str
    source: _Source = _Source()
    feedback: _Feedback | None = None
    create_time: str = ""
    last_update_time: str = ""
    valid: bool = True


class _Info(LogRecord):
    trace_id: str = Field(min_length=1)
    state: str = ""
    trace_metadata: dict[str, str] = Field(default_factory=dict)
    tags: dict[str, str] = Field(default_factory=dict)
    assessments: list[Assessment] = Field(default_factory=list)


class _Status(LogRecord):
    code: str = ""


class RawSpan(LogRecord):
    """One span as it is stored."""

    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    start_time_unix_nano: int = 0
    status: _Status = _Status()
    attributes: JsonObject = Field(default_factory=dict)


class _Data(LogRecord):
    spans: list[RawSpan]


class LoggedTrace(LogRecord):
    """One trace."""

    info: _Info
    data: _Data


class _Call(LogRecord):
    """What a model was given; other keys than these are no part of a trajectory."""

    messages: list[Message] | None = None
    model: str | None = None


class _Choice(LogRecord):
    message: Message


class ParsedSpan(NamedTuple):
    """One span with its values parsed."""

    name: str
    kind: str
    inputs: Any
    outputs: Any
    usage: JsonObject
    model: str
    failed: bool


def outermost(spans: list[RawSpan]) -> Iterator[RawSpan]:
    """Without calls of models below calls of models: frameworks wrap one in the other."""
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        above, parent = {span.span_id}, by_id.get(span.parent_span_id or "")
        while parent is not None and parent.span_id not in above:
            above.add(parent.span_id)
            if _kind(parent) in MODELS:
                break
            parent = by_id.get(parent.parent_span_id or "")
        else:
            parent = None
        if parent is None:
            yield span


def _kind(span: RawSpan) -> str:
    return str(span.attributes.get("mlflow.spanType", "")).strip('"')


def parsed_span(span: RawSpan, max_depth: int) -> ParsedSpan:
    """The span with its values parsed; what is no JSON stays a text."""

    def value(name: str) -> Any:
        """Attributes are JSON in a string."""
        text = span.attributes.get(name)
        if not isinstance(text, str):
            return text
        try:
            return parse_json(text.encode(), max_depth=max_depth)
        except UnreadableError:
            return text

    usage, model = value("mlflow.chat.tokenUsage"), value("mlflow.llm.model")
    inputs, outputs = value("mlflow.spanInputs"), value("mlflow.spanOutputs")
    if not isinstance(usage, dict):
        usage = outputs.get("usage") if isinstance(outputs, dict) else None
    if not isinstance(model, str):
        said = inputs.get("model") if isinstance(inputs, dict) else None
        model = said if isinstance(said, str) else ""
    return ParsedSpan(
        name=span.name,
        kind=_kind(span),
        inputs=inputs,
        outputs=outputs,
        usage=usage if isinstance(usage, dict) else {},
        model=model,
        failed=span.status.code.endswith("ERROR"),
    )


def messages_of(inputs: Any) -> list[Message]:
    """What a model was given: messages, or one text."""
    if isinstance(inputs, dict) and "messages" in inputs:
        return _Call.model_validate(inputs).messages or []
    if isinstance(inputs, dict) and isinstance(inputs.get("prompt"), str):
        inputs = inputs["prompt"]
    return [Message(role="user", content=text_of(inputs))]


def choices_of(outputs: Any) -> list[Message]:
    """What a model said: choices, one message, or one text."""
    if isinstance(outputs, dict) and outputs.get("choices"):
        return [_Choice.model_validate(item).message for item in outputs["choices"]]
    if isinstance(outputs, dict) and "role" in outputs:
        return [Message.model_validate(outputs)]
    return [Message(role="assistant", content=text_of(outputs))]


def usage_of(span: ParsedSpan) -> Usage:
    """Tokens under the names of MLflow or of the API."""

    def count(*names: str) -> int | None:
        found = [span.usage.get(name) for name in names]
        return next((n for n in found if type(n) is int and n >= 0), None)

    return Usage(
        prompt_tokens=count("input_tokens", "prompt_tokens"),
        completion_tokens=count("output_tokens", "completion_tokens"),
    )


def outcome_of(assessments: list[Assessment]) -> Outcome:
    """What counts of the feedback: people first, then code, then judges, each the latest."""
    said = [item for item in assessments if item.valid and item.feedback is not None]
    said.sort(key=lambda item: item.last_update_time or item.create_time, reverse=True)
    said.sort(key=lambda item: _rank(item.source.source_type))
    values = [item.feedback.value for item in said if item.feedback is not None]
    verdicts = [verdict for value in values if (verdict := _verdict(value)) is not None]
    scores = [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    ]
    return Outcome(success=verdicts[0] if verdicts else None, score=scores[0] if scores else None)


def _verdict(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def _rank(source: str) -> int:
    return _SOURCES.index(source) if source in _SOURCES else len(_SOURCES)


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value)
