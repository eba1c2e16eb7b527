"""Importer `mlflow_traces`: what MLflow recorded of an agent, one trace a line.

A line is a trace as `mlflow.search_traces` gives it (`Trace.to_dict`, or its JSON). Each call of a
model (span type `CHAT_MODEL` or `LLM`) is a step; several choices are its candidates, the first one
taken. The tools called before the next one (span type `TOOL`) are its result; without them, what
the next call was told. A tool that nobody asked a model for is a step of its own. Feedback is the
outcome: what people say first, then code, then judges, each time what was said last.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from harness_core.importers.base import (
    ImportContext,
    Item,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.chat import Message, action_of, joined, thought_of, tool_action
from harness_core.importers.framing import read_records
from harness_core.importers.mlflow_spans import (
    MODELS,
    TOOL,
    LoggedTrace,
    ParsedSpan,
    choices_of,
    messages_of,
    outcome_of,
    outermost,
    parsed_span,
    text_of,
    usage_of,
)
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import TaskBook, canonical_task_id, digest_of, family_of
from harness_core.trajectories.schema import (
    Agent,
    Candidate,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language


class MlflowTracesImporter:
    """Reads traces that MLflow recorded."""

    name: Final = "mlflow_traces"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines or documents."""
        return has_suffix(path, ".jsonl", ".json", ".ndjson")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """The keys of MLflow's attributes."""
        del path
        return 0.96 if b'"spans"' in head and b'"mlflow.spanType"' in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Traces in the order of the files, then the tasks."""
        tasks = TaskBook()

        def build(record: RawRecord) -> Iterator[Item]:
            trace = LoggedTrace.model_validate(record.value)
            trajectory = _trajectory(trace, record, context)
            has_tools = any(step.action.kind is ActionKind.TOOL_CALL for step in trajectory.steps)
            language = Language.TOOLS if has_tools else Language.TEXT
            tasks.add(
                TaskSpec(**trajectory.task.model_dump(), source=context.source, language=language)
            )
            yield trajectory

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _trajectory(trace: LoggedTrace, record: RawRecord, context: ImportContext) -> Trajectory:
    depth = context.config.max_depth
    raw = sorted(trace.data.spans, key=lambda span: (span.start_time_unix_nano, span.span_id))
    spans = [parsed_span(item, depth) for item in outermost(raw)]
    teller = _Teller(depth)
    for span in spans:
        if span.kind in MODELS:
            teller.add_call(span)
        elif span.kind == TOOL:
            teller.add_tool(span)
    if not teller.steps:
        reason = "no call of a model or tool; trace those too (span types CHAT_MODEL and TOOL)"
        raise UnreadableError("M-NO-STEPS", reason, field="data.spans")
    root = next((item for item in raw if not item.parent_span_id), raw[0])
    session = trace.info.trace_metadata.get("mlflow.trace.session")
    has_ended = trace.info.state == "OK"
    return Trajectory(
        task=_task(trace, teller, parsed_span(root, depth)),
        agent=Agent(name=root.name or "agent", model=teller.model),
        steps=tuple(teller.steps),
        outcome=outcome_of(trace.info.assessments),
        terminated=has_ended,
        truncated=not has_ended,
        provenance=context.provenance(MlflowTracesImporter.name, record),
        extra={
            "trace_id": trace.info.trace_id,
            **({"session_id": session} if session else {}),
        },
    )


class _Teller:
    """Steps, told span by span."""

    def __init__(self, max_depth: int) -> None:
        self._depth = max_depth
        self._n_seen = 0
        """Messages that a call before has been told, its own answer included."""
        self._is_open = False
        """Whether the last step is a call that may be waiting for what its tools say."""
        self.steps: list[Step] = []
        self.system = ""
        self.description = ""
        self.model = ""

    def add_call(self, span: ParsedSpan) -> None:
        """A call of a model."""
        messages = messages_of(span.inputs)
        said = [item for item in messages[self._n_seen :] if item.role != "assistant"]
        has_result = bool(self.steps) and self._is_open and bool(self.steps[-1].result)
        if has_result:
            # What the tools said is known from their own spans.
            said = [item for item in said if item.role != "tool"]
        told = [item.text for item in said]
        if not self.steps:
            self._open(messages)
            told = []
        elif self._is_open and not has_result:
            self._replace_last(result=joined(told))
            told = []
        choices = choices_of(span.outputs)
        actions = [action_of(choice, max_depth=self._depth) for choice in choices]
        self.steps.append(
            Step(
                index=len(self.steps),
                observation=joined(told),
                thought=thought_of(choices[0]),
                action=actions[0],
                usage=usage_of(span),
                candidates=tuple(Candidate(action=item) for item in actions)
                if len(actions) > 1
                else (),
                chosen_index=0 if len(actions) > 1 else None,
            )
        )
        self._n_seen = len(messages) + 1
        self._is_open = True
        self.model = self.model or span.model

    def add_tool(self, span: ParsedSpan) -> None:
        """A tool that was called, because the last call of a model asked for it or by itself."""
        result = text_of(span.outputs)
        if self._is_open:
            last = self.steps[-1]
            self._replace_last(
                result=joined(filter(None, (last.result, result))),
                is_error=bool(last.is_error) or span.failed,
            )
            return
        arguments = span.inputs if isinstance(span.inputs, dict) else {"input": span.inputs}
        action = tool_action([{"name": span.name, "arguments": arguments}])
        self.steps.append(
            Step(index=len(self.steps), action=action, result=result, is_error=span.failed)
        )

    def _open(self, messages: list[Message]) -> None:
        instructions = [item for item in messages if item.role in ("system", "developer")]
        asked = [item for item in messages if item.role not in ("system", "developer")]
        self.system = joined(item.text for item in instructions)
        self.description = asked[0].text if asked else ""

    def _replace_last(self, **changes: Any) -> None:
        self.steps[-1] = self.steps[-1].model_copy(update=changes)


def _task(trace: LoggedTrace, teller: _Teller, root: ParsedSpan) -> TaskRef:
    description = teller.description or text_of(root.inputs)
    named = trace.info.tags.get("task_id")
    task_id = canonical_task_id(named) if named else f"trace/{digest_of(description)}"
    return TaskRef(
        task_id=task_id,
        family=trace.info.tags.get("family") or family_of(task_id, default="general"),
        description=description,
        initial_state=teller.system,
    )
