"""Importer `intercode`: agents in a shell, a database, a Python session or a capture-the-flag game.

A file is an object from index to attempt (`{meta, logs}` in plan-and-solve runs, with that object
in `logs`). Observation i answers action i; `rewards[i]` is the graded, hidden reward of turn i. A
run that used up its turns is truncated, whatever it reached.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson
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
from harness_core.importers.framing import Layout, read_records
from harness_core.importers.rejects import Reject, UnreadableError
from harness_core.importers.tasks import TaskBook
from harness_core.trajectories.schema import (
    Action,
    Agent,
    FiniteFloat,
    JsonObject,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_PREFIX: Final = re.compile(r"^ic_(?:bash|sql|python|ctf)_")
_FILE_SYSTEM: Final = re.compile(r"_?(fs_\d+)")
_MODEL: Final = re.compile(
    r"(?:^|(?<=multiturn_))(gpt-[\d.]+|[a-z]+-[a-z]+-\d+|starchat|vicuna)[-_]"
)
_LANGUAGES: Final = {
    "ic_sql": Language.SQL,
    "ic_bash": Language.SHELL,
    "ic_python": Language.PYTHON,
    "ic_ctf": Language.SHELL,
}


class _History(LogRecord):
    actions: list[str]
    observations: list[Any]
    rewards: list[FiniteFloat | None]
    valid_action: list[bool | None] = Field(default_factory=list)
    thoughts: list[str] = Field(default_factory=list)
    steps: list[str] = Field(default_factory=list)


class _Summary(LogRecord):
    max_reward: FiniteFloat
    turns_taken: int | None = None
    turns_max: int | None = None


class _Attempt(LogRecord):
    environment: str
    dataset: str
    task_id: int
    query: str
    turn_history: _History
    summary: _Summary
    hardness: str | None = None


class IntercodeImporter:
    """Reads the experiment logs of InterCode."""

    name: Final = "intercode"

    def reads(self, path: PurePosixPath) -> bool:
        """One JSON object a run."""
        return has_suffix(path, ".json")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Attempts have parallel lists in `turn_history`."""
        del path
        return 0.95 if b'"turn_history"' in head and b'"environment"' in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Every attempt of every file, then the tasks."""
        tasks = TaskBook()

        def build(record: RawRecord) -> Iterator[Item]:
            yield from _items(record, context, tasks)

        for path in log_files(folder, self):
            for record in _attempts(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _attempts(
    folder: Path, path: PurePosixPath, context: ImportContext
) -> Iterator[RawRecord | Reject]:
    """The attempts of a file, also where they lie one level deeper."""
    for record in read_records(folder, path, context, layout=Layout.MEMBERS):
        if isinstance(record, Reject):
            yield record
        elif record.key == "logs" and isinstance(record.value, dict):
            context.tally.n_records += len(record.value) - 1
            for number, (key, value) in enumerate(record.value.items(), start=1):
                yield replace(record, value=value, raw=orjson.dumps(value), line=number, key=key)
        elif record.key == "meta":
            context.tally.n_records -= 1
        else:
            yield record


def _items(record: RawRecord, context: ImportContext, tasks: TaskBook) -> Iterator[Item]:
    attempt = _Attempt.model_validate(record.value)
    history, summary = attempt.turn_history, attempt.summary
    if not history.actions:
        raise UnreadableError("I-NO-STEPS", "no action was taken", field="turn_history.actions")
    if len(history.observations) != len(history.actions):
        context.warn("I-LENGTH")
    task = _task(attempt)
    tasks.add(TaskSpec(**task.model_dump(), source=context.source, language=_language(attempt)))
    is_cut = summary.turns_max is not None and (summary.turns_taken or 0) >= summary.turns_max
    yield Trajectory(
        task=task,
        agent=_agent(PurePosixPath(record.path)),
        steps=tuple(_steps(history)),
        outcome=Outcome(
            success=summary.max_reward == 1,
            score=summary.max_reward if 0 <= summary.max_reward <= 1 else None,
        ),
        terminated=not is_cut,
        truncated=is_cut,
        provenance=context.provenance(IntercodeImporter.name, record),
        extra=_extra(attempt),
    )


def _steps(history: _History) -> Iterator[Step]:
    thoughts = history.thoughts or history.steps
    for index, text in enumerate(history.actions):
        is_valid = _at(history.valid_action, index)
        is_submit = text.strip() == "submit"
        yield Step(
            index=index,
            thought=_at(thoughts, index) or "",
            action=Action(kind=ActionKind.SUBMIT)
            if is_submit
            else Action(kind=ActionKind.CODE, text=text),
            result=_text(_at(history.observations, index)),
            is_error=None if is_valid is None else not is_valid,
            logged_reward=_at(history.rewards, index),
        )


def _task(attempt: _Attempt) -> TaskRef:
    """Canonical ids; the four file systems of `bash` number their tasks separately."""
    state = ""
    match attempt.environment:
        case "ic_sql":
            task_id, family = f"intercode-sql/{attempt.task_id}", attempt.hardness or "sql"
        case "ic_bash":
            state = _file_system(attempt.dataset)
            task_id, family = f"intercode-bash/{state}/{attempt.task_id}", f"bash-{state}"
        case "ic_python":
            task_id, family = f"mbpp/{attempt.task_id + 1}", "mbpp"
        case "ic_ctf":
            task_id, family = f"intercode-ctf/{attempt.task_id}", "ctf"
        case other:
            raise UnreadableError("I-ENVIRONMENT", f"unknown: {other[:40]}", field="environment")
    return TaskRef(task_id=task_id, family=family, description=attempt.query, initial_state=state)


def _language(attempt: _Attempt) -> Language:
    return _LANGUAGES[attempt.environment]


def _file_system(dataset: str) -> str:
    match = _FILE_SYSTEM.search(dataset)
    if match is None:
        raise UnreadableError("I-DATASET", "names none of the file systems fs_k", field="dataset")
    return match.group(1)


def _agent(path: PurePosixPath) -> Agent:
    """The model is named in the file or else by the folder; the rest of the name is the strategy.

    `ic_sql_multiturn_gpt-3.5_10_turns_handicap.json` is agent `multiturn_10_turns_handicap`.
    """
    name = _PREFIX.sub("", path.name.split(".json")[0])
    strategy = _FILE_SYSTEM.sub("", name)
    match = _MODEL.search(strategy)
    if match is None:
        return Agent(name=strategy, model=path.parent.name)
    return Agent(name=strategy.replace(match.group(), "", 1), model=match.group(1))


def _extra(attempt: _Attempt) -> JsonObject:
    """Oddities. Turns carry out the plan in order, so a longer plan was not carried out."""
    history = attempt.turn_history
    n_missing = len(history.actions) - len(history.observations)
    extra: JsonObject = {"n_observations_missing": n_missing} if n_missing > 0 else {}
    if len(history.steps) > len(history.actions):
        extra["plan"] = history.steps
    return extra


def _at(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
