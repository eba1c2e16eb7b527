"""Importer `atif`: Agent Trajectory Interchange Format, v1.0 to v1.8.

Paths and addresses inside documents are kept and never opened. Embedded trajectories of sub-agents
stay inside their document.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import Field

from harness_core.importers.atif_document import read_document, write_atif
from harness_core.importers.atif_residue import is_own
from harness_core.importers.base import (
    ImportContext,
    Item,
    LogRecord,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.framing import read_records
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import TaskBook
from harness_core.trajectories.schema import JsonObject, TaskSpec, Trajectory
from harness_core.trajectories.vocabulary import ActionKind, Language

__all__ = ["AtifImporter", "read_document", "write_atif"]

_VERSION: Final = re.compile(r"(ATIF-v)?1\.[0-8]")


class _Content(LogRecord):
    text: str | None = None


class _ToolCall(LogRecord):
    tool_call_id: str
    function_name: str
    arguments: JsonObject


class _Result(LogRecord):
    source_call_id: str | None = None
    content: str | list[_Content] | None = None


class _Observation(LogRecord):
    results: list[_Result]


class _Metrics(LogRecord):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None


class _Step(LogRecord):
    step_id: int
    source: str = Field(pattern="^(system|user|agent)$")
    message: str | list[_Content]
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    extra: JsonObject | None = None


class _Agent(LogRecord):
    name: str
    version: str
    model_name: str | None = None


class _Document(LogRecord):
    schema_version: str
    agent: _Agent
    steps: list[_Step] = Field(min_length=1)
    subagent_trajectories: list[Any] | None = None
    extra: JsonObject | None = None


class AtifImporter:
    """Reads ATIF documents; `write_atif` writes them."""

    name: Final = "atif"

    def reads(self, path: PurePosixPath) -> bool:
        """Documents, not the chat exports that lie beside some of them."""
        return has_suffix(path, ".json", ".jsonl") and ".traces." not in path.name

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """A document names its format."""
        del path
        if b'"schema_version"' not in head:
            return 0.0
        return 0.95 if b'"ATIF-v' in head else 0.6 * (b'"step_id"' in head)

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """One document, one trajectory."""
        tasks = TaskBook()

        def build(record: RawRecord) -> Iterator[Item]:
            _check(_Document.model_validate(record.value), record.value, context)
            trajectory = read_document(record.value, context.provenance(self.name, record))
            tasks.add(_task(trajectory, context))
            yield trajectory

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _check(document: _Document, raw: JsonObject, context: ImportContext) -> None:
    version = _VERSION.fullmatch(document.schema_version)
    if version is None:
        reason = f"unknown version {document.schema_version[:40]!r}; v1.0 to v1.8 are read"
        raise UnreadableError("A-VERSION", reason, field="schema_version")
    if version.group(1) is None:
        context.warn("A-BARE-VERSION")
    if [step.step_id for step in document.steps] != list(range(1, len(document.steps) + 1)):
        raise UnreadableError("A-STEP-ID", "step ids must run 1, 2, 3, …", field="steps")
    if not any(map(is_own, raw["steps"])):
        raise UnreadableError("A-NO-STEPS", "the agent did nothing of its own", field="steps")
    if any(map(_has_stray_result, document.steps)):
        context.warn("A-CALL-ID")
    if document.subagent_trajectories:
        context.warn("A-SUBAGENT")


def _has_stray_result(step: _Step) -> bool:
    """Whether a result answers a call that its step does not hold."""
    known = {call.tool_call_id for call in step.tool_calls or ()}
    results = step.observation.results if step.observation else ()
    return any(result.source_call_id not in known | {None} for result in results)


def _task(trajectory: Trajectory, context: ImportContext) -> TaskSpec:
    kinds = {step.action.kind for step in trajectory.steps}
    language = Language.TEXT
    if ActionKind.TOOL_CALL in kinds:
        language = Language.TOOLS
    elif ActionKind.CODE in kinds:
        language = Language.PYTHON
    return TaskSpec(**trajectory.task.model_dump(), source=context.source, language=language)
