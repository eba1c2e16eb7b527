"""Importer `classeval`: whole classes written by models, and the unit tests of each class.

A source folder holds files of predictions (a JSON list; one record is a task and the texts that a
model wrote for it), the tasks alone (`*_data.json`), and, where somebody ran the tests,
`labels.jsonl`. The files may lie in a tar archive, which is read where it lies. Predictions repeat
their task, some an older version of it: what the file of tasks says counts. One text is one
trajectory of one step; the program is cut out of it as the labels were made.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import Field

from harness_core.importers.archive import members
from harness_core.importers.assertions import parse
from harness_core.importers.base import (
    ImportContext,
    Item,
    LogRecord,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.framing import printable, read_pieces, read_records
from harness_core.importers.inflating import chunks
from harness_core.importers.rejects import Reject, UnreadableError, rejected
from harness_core.importers.tasks import TaskBook
from harness_core.importers.unit_tests import doctest_checks, imported_modules, single_tests
from harness_core.tables import file_digest
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_LABELS: Final = "labels.jsonl"
_TASKS: Final = "_data.json"
_PREDICTIONS: Final = ".json"
_KINDS: Final = (_LABELS, _TASKS, _PREDICTIONS)
"""Ends of file names, the first that fits."""
_FAMILY: Final = "classeval"
_FENCE: Final = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_MODEL: Final = re.compile(r"^(.+?)_(?:\d+_c|class|method|holistic|H|I|C)_")
"""What follows the model in the name of a file is the way it was asked."""


class _Row(LogRecord):
    task_id: str
    skeleton: str
    test: str
    solution_code: str
    class_name: str
    import_statement: list[str] = Field(default_factory=list)
    predict: list[str] | None = None


class _Labels(LogRecord):
    task_id: str
    model: str
    passed_tests: list[int]
    total_tests: list[int]


@dataclass(frozen=True, slots=True)
class _Joined:
    """What was read so far: labels by task and file of predictions, and the tasks."""

    context: ImportContext
    labels: dict[tuple[str, str], _Labels] = field(default_factory=dict)
    known: dict[str, _Row] = field(default_factory=dict)
    """Tasks as the file of tasks has them."""
    tasks: TaskBook = field(default_factory=TaskBook)
    made: dict[str, TaskSpec] = field(default_factory=dict)
    """By all that is said of a task: every file of predictions says it again."""

    def note_labels(self, record: RawRecord) -> tuple[Item, ...]:
        labels = _Labels.model_validate(record.value)
        self.labels[labels.task_id, labels.model] = labels
        return ()

    def note_task(self, record: RawRecord) -> Iterator[Item]:
        row = _Row.model_validate(record.value)
        self.known.setdefault(row.task_id, row)
        return self.build(record)

    def build(self, record: RawRecord) -> Iterator[Item]:
        row = _Row.model_validate(record.value)
        if row.predict is None:
            return
        if not row.predict:
            raise UnreadableError("E-NO-STEPS", "no program was written", field="predict")
        run = PurePosixPath(record.path).name.partition(".json")[0]
        labels = self.labels.get((row.task_id, run))
        if labels is None and self.labels:
            # Whoever ran the tests could not make the task's own solution pass them.
            self.context.warn("E-NO-LABEL")
            return
        if labels is not None and not (
            len(row.predict) == len(labels.passed_tests) == len(labels.total_tests)
        ):
            reason = f"{len(row.predict)} programs, but {len(labels.passed_tests)} labels"
            raise UnreadableError("E-LABELS", reason, field="predict")
        task = self._task(row)
        if self.tasks.add(task):
            self.context.warn("E-TASK-CONFLICT")
        if not task.hidden_checks:
            self.context.warn("E-PACKAGES")
        provenance = self.context.provenance(ClassevalImporter.name, record)
        yield from _attempts(row, task, run, labels, provenance)

    def _task(self, row: _Row) -> TaskSpec:
        known = self.known.get(row.task_id, row)
        if (known.test, known.solution_code) != (row.test, row.solution_code):
            self.context.warn("E-TASK-VERSION")
        said = known.model_dump_json(exclude={"predict"})
        if said not in self.made:
            self.made[said] = _task(known, self.context)
        return self.made[said]


class ClassevalImporter:
    """Reads predictions, tasks and labels, also from an archive."""

    name: Final = "classeval"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON lists, archives of them, and the labels."""
        return has_suffix(path, ".tar", *_KINDS)

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Tasks come with the names of their test classes."""
        del path
        keys = (b'"skeleton"', b'"test_classes"', b'"class_name"', b'"import_statement"')
        return 0.95 if all(key in head for key in keys) else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Labels, then tasks, then attempts, then the tasks of these attempts."""
        joined = _Joined(context)
        files = log_files(folder, self)
        order: tuple[tuple[str, Callable[[RawRecord], Iterable[Item]]], ...] = (
            (_LABELS, joined.note_labels),
            (_TASKS, joined.note_task),
            (_PREDICTIONS, joined.build),
        )
        for kind, step in order:
            for path in files:
                for record in _records(folder, path, context, kind):
                    yield from build_items(record, context, step)
        yield from joined.tasks


def _records(
    folder: Path, path: PurePosixPath, context: ImportContext, kind: str
) -> Iterator[RawRecord | Reject]:
    """The records of a file if it is of a kind; of an archive, those of its files that are."""
    if not has_suffix(path, ".tar"):
        if _kind_of(path) == kind:
            yield from read_records(folder, path, context)
        return
    file = folder / path
    try:
        for member in members(chunks(file)):
            if _kind_of(member.path) == kind:
                yield from read_pieces(
                    member.content, path / member.path, context, digest=lambda: file_digest(file)
                )
    except UnreadableError as error:
        if kind == _PREDICTIONS:  # an archive is read once a kind, and is one reject
            context.tally.n_records += 1
            yield rejected(
                error, b"", source=context.source, path=printable(path), byte_offset=0, line=1
            )


def _kind_of(path: PurePosixPath) -> str | None:
    return next((kind for kind in _KINDS if has_suffix(path, kind)), None)


def _task(row: _Row, context: ImportContext) -> TaskSpec:
    """The task; without checks where they need packages, since a box has the standard library."""
    imports = row.import_statement
    modules = imported_modules([*imports, row.solution_code, row.test])
    is_bare = modules <= sys.stdlib_module_names
    examples = doctest_checks(
        row.skeleton, row.class_name, imports, limit=context.config.max_generated_checks
    )
    return TaskSpec(
        task_id=row.task_id,
        source=context.source,
        family=_FAMILY,
        description=row.skeleton,
        language=Language.PYTHON,
        entry_point=row.class_name,
        visible_checks=examples if is_bare else (),
        hidden_checks=single_tests(row.test, imports) if is_bare else (),
        reference=_program(row.solution_code, row),
    )


def _attempts(
    row: _Row, task: TaskSpec, run: str, labels: _Labels | None, provenance: Provenance
) -> Iterator[Trajectory]:
    reference = TaskRef(task_id=task.task_id, family=_FAMILY, description=task.description)
    agent = _agent(run)
    for index, text in enumerate(row.predict or ()):
        program = _program(_code(text, row.class_name), row)
        yield Trajectory(
            task=reference,
            agent=agent,
            steps=(Step(index=0, action=Action(kind=ActionKind.CODE, text=program)),),
            outcome=Outcome() if labels is None else _outcome(labels, index),
            terminated=True,
            truncated=False,
            provenance=provenance,
            # Equal programs are separate draws, so they must not become one trajectory.
            extra={"run": run, "sample": index},
        )


def _outcome(labels: _Labels, index: int) -> Outcome:
    n_passed, n_total = labels.passed_tests[index], labels.total_tests[index]
    return Outcome(
        success=0 < n_total == n_passed,
        score=n_passed / n_total if n_total else None,
        n_tests_passed=n_passed,
        n_tests_total=n_total,
    )


def _program(code: str, row: _Row) -> str:
    """The class under the imports that the task gives, as the tests were run."""
    own = frozenset(code.split("\n"))
    return "\n".join([*(item for item in row.import_statement if item not in own), code])


def _code(text: str, class_name: str) -> str:
    """The first fenced block with the class, else all from the last `class NAME`.

    Its end is cut off until it parses. A text without the class is no solution; what it has of
    code stays, so that it fails for what it is.
    """
    start = re.compile(rf"^class\s+{re.escape(class_name)}\b", re.MULTILINE)
    blocks = [match.group(1) for match in _FENCE.finditer(text)]
    fenced = next(filter(start.search, blocks), None)
    if fenced is not None:
        return _parsing_part(fenced)
    starts = [match.start() for match in start.finditer(text)]
    return _parsing_part(text[starts[-1] :]) if starts else next(iter(blocks), text)


def _parsing_part(code: str) -> str:
    lines = code.split("\n")
    while lines and parse("\n".join(lines)) is None:
        lines.pop()
    return "\n".join(lines) or code


def _agent(run: str) -> Agent:
    """`GPT-4_100_c_5.json` is GPT-4; `GPT-3.5-Turbo_class_H_t0.2.json` is GPT-3.5-Turbo."""
    match = _MODEL.match(run)
    model = match.group(1) if match else run
    return Agent(name=model, model=model)
