"""Importer `lats`: tree search over programs (LATS), and depth-first search.

Kept are the first program of a search and the one handed in, each with what tests written by the
model, and the examples of the prompt, said of it. These tests become model-written checks of the
task. A row without an outcome has no program either; such rows are left out and counted as
`A-NO-LABEL`.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import Field

from harness_core.importers.base import (
    ImportContext,
    Item,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.framing import read_records
from harness_core.importers.programming import ProgrammingTasks
from harness_core.importers.reflexion_rows import ReflexionRow, attempt_of, task_of
from harness_core.importers.rejects import UnreadableError


class _Row(ReflexionRow):
    implementations: list[str] = Field(default_factory=list)
    test_feedback: list[str] = Field(default_factory=list)


class LatsImporter:
    """Reads one file a run."""

    name: Final = "lats"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines."""
        return has_suffix(path, ".jsonl")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Rows of Reflexion with the programs of a search and the running accuracy of the file."""
        del path
        keys = (b'"entry_point"', b'"implementations"', b'"test_feedback"', b'"acc"')
        return 0.9 if all(key in head for key in keys) and b'"given_tests"' not in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Attempts first; the checks of a task are gathered from all runs."""
        tasks = ProgrammingTasks(context, "A-TASK-CONFLICT")

        def build(record: RawRecord) -> Iterator[Item]:
            yield from _items(record, context, tasks)

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _items(record: RawRecord, context: ImportContext, tasks: ProgrammingTasks) -> Iterator[Item]:
    row = _Row.model_validate(record.value)
    if row.is_solved is None:
        context.warn("A-NO-LABEL")
        return
    if not row.implementations:
        raise UnreadableError("A-NO-STEPS", "no program was written", field="implementations")
    task = task_of(row, record, context)
    tasks.add(task)
    tasks.add_written(task.task_id, row.test_feedback)
    answered = itertools.zip_longest(row.implementations, row.test_feedback, fillvalue="")
    programs = itertools.islice(answered, len(row.implementations))
    yield attempt_of(row, task, programs, record, context, importer=LatsImporter.name)
