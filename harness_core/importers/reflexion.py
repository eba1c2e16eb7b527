"""Importer `reflexion`: agents that reflect on failed tests before they try again, and baselines.

Only the program handed in at last is kept, so an attempt has one step. Two kinds of row are no
attempts, and are counted: `R-TESTS`, where a run wrote tests instead of a program (they become
model-written checks), and `R-CENSORED`, all rows of a file that dropped the programs of just those
rows that failed: there, having a program at all says that it passed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from harness_core.importers.base import (
    ImportContext,
    Item,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.framing import read_records
from harness_core.importers.programming import ProgrammingTasks, whole_program
from harness_core.importers.reflexion_rows import ReflexionRow, attempt_of, task_of
from harness_core.importers.rejects import Reject
from harness_core.trajectories.vocabulary import Language


class _Row(ReflexionRow):
    solution: str | list[str]


class ReflexionImporter:
    """Reads one file a run."""

    name: Final = "reflexion"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines."""
        return has_suffix(path, ".jsonl")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """These keys, and none of those that debugging or searching agents add."""
        del path
        keys = (b'"entry_point"', b'"test"', b'"solution"', b'"is_solved"')
        others = (b'"given_tests"', b'"implementations"')
        is_alike = all(key in head for key in keys) and not any(key in head for key in others)
        return 0.8 if is_alike else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Attempts first; the checks of a task are gathered from all runs."""
        tasks = ProgrammingTasks(context, "R-TASK-CONFLICT")
        for path in log_files(folder, self):
            records = list(read_records(folder, path, context))
            is_censored = _lost_what_failed(records)

            def build(record: RawRecord, *, is_censored: bool = is_censored) -> Iterator[Item]:
                yield from _items(record, context, tasks, is_censored=is_censored)

            for record in records:
                yield from build_items(record, context, build)
        yield from tasks


def _items(
    record: RawRecord, context: ImportContext, tasks: ProgrammingTasks, *, is_censored: bool
) -> Iterator[Item]:
    row = _Row.model_validate(record.value)
    task = task_of(row, record, context)
    if isinstance(row.solution, list):
        context.warn("R-TESTS")
        tasks.add_written(task.task_id, row.solution)
        return
    if is_censored:
        context.warn("R-CENSORED")
        return
    tasks.add(task)
    program = row.solution
    if task.language is Language.PYTHON:
        program = whole_program(row.prompt, program, task.entry_point or "")
    yield attempt_of(row, task, [(program, "")], record, context, importer=ReflexionImporter.name)


def _lost_what_failed(records: Sequence[RawRecord | Reject]) -> bool:
    values = [record.value for record in records if isinstance(record, RawRecord)]
    failed = [
        value for value in values if isinstance(value, dict) and value.get("is_solved") is False
    ]
    return bool(failed) and not any(value.get("solution") for value in failed)
