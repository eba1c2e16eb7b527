"""Importer `cruxeval`: what does a function return, and on which input does it return that?

A source folder holds the functions (JSON Lines: `code, input, output, id`) and files of answers
(one object with `raw_generations` and `raw_scored_generations`, both from id to a list). Input and
output of a function are two variants of one problem. An answer is an expression; it is imported as
a message, and the task has no checks, for a reason each:

- input: `f(<answer>) == <output>` holds nothing that is not told to the agent. Whoever may run it
  needs no critic, and as a feature it would be the label itself.
- output: running `f(<input>)` gives the answer away, which the agent had to find by thought.

So selection has the text of an answer and how often it was given. Outcomes are those of the file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import orjson

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
from harness_core.importers.rejects import Reject, UnreadableError
from harness_core.importers.tasks import variant_of
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_FUNCTIONS: Final = ".jsonl"
_ANSWERS: Final = ".json"
_NAME: Final = re.compile(r"^(?:sample_scored_)?(.+?)_temp(\d+(?:\.\d+)?)_(input|output)\.json")


class _Function(LogRecord):
    id: str
    code: str
    input: str
    output: str


class _Run(NamedTuple):
    model: str
    temperature: str
    asked: str


class _Answers(LogRecord):
    id: str
    answers: list[str]
    passed: list[bool] | None


class CruxevalImporter:
    """Reads functions and answers."""

    name: Final = "cruxeval"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines of functions, one JSON object a run."""
        return has_suffix(path, _FUNCTIONS, _ANSWERS)

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Answers are unmistakable; functions have four everyday keys."""
        if has_suffix(path, _ANSWERS):
            return 0.95 if b'"raw_generations"' in head else 0.0
        keys = (b'"code"', b'"input"', b'"output"', b'"id"', b"def f(")
        return 0.6 if all(key in head for key in keys) else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Functions first, then the answers, task by task."""
        functions: dict[str, _Function] = {}

        def note(record: RawRecord) -> tuple[Item, ...]:
            function = _Function.model_validate(record.value)
            functions[function.id] = function
            return ()

        def build(record: RawRecord) -> Iterator[Item]:
            yield from _items(record, context, functions)

        files = log_files(folder, self)
        for path in (path for path in files if has_suffix(path, _FUNCTIONS)):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, note)
        for path in (path for path in files if has_suffix(path, _ANSWERS)):
            for record in read_records(folder, path, context):
                for part in _by_task(record, context):
                    yield from build_items(part, context, build)


def _by_task(record: RawRecord | Reject, context: ImportContext) -> Iterator[RawRecord | Reject]:
    """The answers of a run, one record a task. The two maps need not have the same order."""
    value = record.value if isinstance(record, RawRecord) else None
    answers = value.get("raw_generations") if isinstance(value, dict) else None
    if isinstance(record, Reject) or not isinstance(value, dict) or not isinstance(answers, dict):
        yield record
        return
    scores = value.get("raw_scored_generations")
    passed = scores if isinstance(scores, dict) else {}
    context.tally.n_records += len(answers) - 1
    for number, (key, texts) in enumerate(answers.items(), start=1):
        part = {"id": key, "answers": texts, "passed": passed.get(key)}
        yield replace(record, value=part, raw=orjson.dumps(part), line=number, key=key)


def _items(
    record: RawRecord, context: ImportContext, functions: Mapping[str, _Function]
) -> Iterator[Item]:
    row = _Answers.model_validate(record.value)
    run = _run(record.path)
    function = functions.get(row.id)
    if function is None:
        raise UnreadableError("X-TASK", "no function has this id", field="id")
    if not row.answers:
        raise UnreadableError("X-NO-STEPS", "no answer was given", field="answers")
    if row.passed is not None and len(row.passed) != len(row.answers):
        reason = f"{len(row.answers)} answers, but {len(row.passed)} scores"
        raise UnreadableError("X-LABELS", reason, field="passed")
    task = _task(function, run.asked)
    yield TaskSpec(**task.model_dump(), source=context.source, language=Language.TEXT)
    provenance = context.provenance(CruxevalImporter.name, record)
    for index, answer in enumerate(row.answers):
        yield Trajectory(
            task=task,
            agent=Agent(name=run.model, model=run.model),
            steps=(Step(index=0, action=Action(kind=ActionKind.MESSAGE, text=answer)),),
            outcome=Outcome(success=None if row.passed is None else row.passed[index]),
            terminated=True,
            truncated=False,
            provenance=provenance,
            # Equal answers are separate draws, so they must not become one trajectory.
            extra={"temperature": run.temperature, "sample": index},
        )


def _task(function: _Function, asked: str) -> TaskRef:
    """The task as it was put: the function, and an assert with a gap."""
    given = {"input": function.input, "output": function.output} | {asked: "??"}
    number = function.id.removeprefix("sample_")
    return TaskRef(
        task_id=variant_of(f"cruxeval/{number}", asked),
        family=f"cruxeval-{asked}",
        description=f"{function.code}\n\nassert f({given['input']}) == {given['output']}",
    )


def _run(path: str) -> _Run:
    """`sample_scored_toy-7b_temp0.2_input.json` tells the model and what was asked for."""
    match = _NAME.match(PurePosixPath(path).name)
    if match is None:
        raise UnreadableError("X-NAME", "names no model, temperature and `input` or `output`")
    return _Run(match.group(1), match.group(2), match.group(3))
