"""Importer `native`: the JSON of the article, one object a run, and what we add to it.

    problem_id, problem_description, initial_state, reward, terminal,
    action_sequence: [{thought, code_generated, test_executed}]

Optional keys of a run: `family`, `language` (`python` where code was generated), `entry_point`,
`visible_checks`, `generated_checks`, `hidden_checks`, `reference`, `agent {name, version, model}`,
`truncated`, `success`, `run` (keeps equal runs apart). Of an action: `kind` (`code` where code was
generated, else `message`), `arguments` (of a tool call), `observation` (seen before acting),
`result` (what came back), `is_error`, `reward`, `propensity`, `decision_id`, `chosen_index`,
`usage {prompt_tokens, completion_tokens, cost_usd}`, and
`candidates [{code_generated, arguments, propensity}]`.

A log may claim what it likes: `reward` becomes the score only where it is one (in [0, 1]), success
is unknown unless the key `success` says it, and a bare claim in `test_executed` (`true` or
`"passed"`) goes to `extra`. Keys that we do not know are kept in `extra` too, and counted.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from harness_core.importers.base import (
    ImportContext,
    Item,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.chat import canonical_json
from harness_core.importers.framing import read_records
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import TaskBook, canonical_task_id, family_of
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Candidate,
    FiniteFloat,
    JsonObject,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind, Language

_CLAIMS: Final = frozenset(
    {"true", "false", "pass", "passed", "fail", "failed", "ok", "success", "error", "yes", "no"}
)
_Word = Annotated[str, Field(min_length=1)]


class _Open(BaseModel):
    """Strict about known keys; unknown ones stay at hand in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class _Candidate(_Open):
    code_generated: str = ""
    arguments: JsonObject = Field(default_factory=dict)
    propensity: float | None = None


class _Action(_Open):
    thought: str | None = None
    code_generated: str | None = None
    test_executed: Any = None
    kind: Annotated[ActionKind, Field(strict=False)] | None = None
    arguments: JsonObject = Field(default_factory=dict)
    observation: str | None = None
    result: str | None = None
    is_error: bool | None = None
    reward: FiniteFloat | None = None
    propensity: float | None = None
    usage: Usage | None = None
    candidates: list[_Candidate] = Field(default_factory=list)
    chosen_index: int | None = None
    decision_id: str | None = None


class _Agent(_Open):
    name: _Word = "unknown"
    version: str | None = None
    model: str | None = None


class _Run(_Open):
    problem_id: str | int
    problem_description: str
    initial_state: Any = None
    action_sequence: list[_Action]
    reward: FiniteFloat | None = None
    terminal: bool | None = None
    truncated: bool | None = None
    success: bool | None = None
    run: int | str | None = None
    family: _Word | None = None
    language: Annotated[Language, Field(strict=False)] | None = None
    entry_point: str | None = None
    visible_checks: list[_Word] = Field(default_factory=list)
    generated_checks: list[_Word] = Field(default_factory=list)
    hidden_checks: list[_Word] = Field(default_factory=list)
    reference: str | None = None
    agent: _Agent = _Agent()


class NativeImporter:
    """Reads the article's JSON, as JSON Lines, an array, or one object."""

    name: Final = "native"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines or documents."""
        return has_suffix(path, ".jsonl", ".json", ".ndjson")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """The keys of the article."""
        del path
        if b'"action_sequence"' in head and b'"problem_id"' in head:
            return 0.95
        return 0.5 if b'"problem_id"' in head and b'"problem_description"' in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Runs in the order of the files, then the tasks."""
        tasks = TaskBook()

        def build(record: RawRecord) -> Iterator[Item]:
            run = _Run.model_validate(record.value)
            trajectory = _trajectory(run, record, context)
            if conflicts := tasks.add(_task(run, trajectory.task, context)):
                reason = f"differs from an earlier run of {trajectory.task.task_id}"
                raise UnreadableError("N-TASK-CONFLICT", reason, field=conflicts[0])
            yield trajectory

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _trajectory(run: _Run, record: RawRecord, context: ImportContext) -> Trajectory:
    task_id = canonical_task_id(str(run.problem_id))
    state = run.initial_state
    terminated, truncated = _end(run)
    extra = _extra(run)
    if "unknown" in extra:
        context.warn("N-UNKNOWN-KEY")
    is_score = run.reward is not None and 0 <= run.reward <= 1
    return Trajectory(
        task=TaskRef(
            task_id=task_id,
            family=run.family or family_of(task_id, default="general"),
            description=run.problem_description,
            initial_state=_as_text(state),
        ),
        agent=Agent(
            name=run.agent.name, version=run.agent.version or "", model=run.agent.model or ""
        ),
        steps=tuple(_step(index, action) for index, action in enumerate(run.action_sequence)),
        outcome=Outcome(success=run.success, score=run.reward if is_score else None),
        terminated=terminated,
        truncated=truncated,
        provenance=context.provenance(NativeImporter.name, record),
        extra=extra,
    )


def _end(run: _Run) -> tuple[bool, bool]:
    """Terminated and truncated. A log that says neither is taken to have ended by itself."""
    if run.terminal and run.truncated:
        raise UnreadableError("N-END", "the run is both terminal and truncated", field="truncated")
    truncated = run.truncated if run.truncated is not None else run.terminal is False
    return not truncated, truncated


def _step(index: int, action: _Action) -> Step:
    code = action.code_generated or ""
    kind = action.kind or (ActionKind.CODE if code else ActionKind.MESSAGE)
    text = "" if kind in INTERVENTIONS else code
    candidates = tuple(
        Candidate(
            action=Action(kind=kind, text=item.code_generated, arguments=item.arguments),
            propensity=item.propensity,
        )
        for item in action.candidates
    )
    return Step(
        index=index,
        observation=action.observation or "",
        thought=action.thought or "",
        action=Action(kind=kind, text=text, arguments=action.arguments),
        result=_result(action),
        is_error=action.is_error,
        usage=action.usage or Usage(),
        logged_reward=action.reward,
        candidates=candidates,
        chosen_index=_chosen(index, action) if candidates else None,
        propensity=action.propensity,
        decision_id=action.decision_id,
    )


def _chosen(index: int, action: _Action) -> int:
    """Which candidate was taken; a log that does not say is asked for its text."""
    if action.chosen_index is not None:
        return action.chosen_index
    texts = [item.code_generated for item in action.candidates]
    if action.code_generated not in texts:
        where = f"action_sequence.{index}.candidates"
        raise UnreadableError("N-CANDIDATES", "the code generated is not among them", field=where)
    return texts.index(action.code_generated)


def _result(action: _Action) -> str:
    """What came back: the text feedback, and what the executed test says beyond a bare claim."""
    told = [] if _is_claim(action) else _told(action.test_executed)
    return "\n".join(dict.fromkeys(filter(None, [*told, action.result or ""])))


def _told(test: Any) -> list[str]:
    if isinstance(test, list):
        return [text for item in test for text in _told(item)]
    if isinstance(test, dict):
        counts = [test.get("passed"), test.get("total")]
        head = "{} of {} tests passed".format(*counts) if None not in counts else ""
        return [head, _as_text(test.get("output"))]
    return [_as_text(test)]


def _is_claim(action: _Action) -> bool:
    test = action.test_executed
    return isinstance(test, bool) or (isinstance(test, str) and test.strip().lower() in _CLAIMS)


def _extra(run: _Run) -> JsonObject:
    extra: JsonObject = {} if run.run is None else {"run": run.run}
    claims = {
        str(index): action.test_executed
        for index, action in enumerate(run.action_sequence)
        if _is_claim(action)
    }
    if claims:
        extra["claims"] = claims
    if run.reward is not None and not 0 <= run.reward <= 1:
        extra["logged_reward"] = run.reward
    unknown: JsonObject = dict(run.model_extra or {})
    for index, action in enumerate(run.action_sequence):
        if action.model_extra:
            unknown[f"action_sequence.{index}"] = dict(action.model_extra)
    if unknown:
        extra["unknown"] = unknown
    return extra


def _task(run: _Run, task: TaskRef, context: ImportContext) -> TaskSpec:
    has_code = any(action.code_generated for action in run.action_sequence)
    return TaskSpec(
        **task.model_dump(),
        source=context.source,
        language=run.language or (Language.PYTHON if has_code else Language.TEXT),
        entry_point=run.entry_point,
        visible_checks=tuple(run.visible_checks),
        generated_checks=tuple(run.generated_checks[: context.config.max_generated_checks]),
        hidden_checks=tuple(run.hidden_checks),
        reference=run.reference,
    )


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value)
