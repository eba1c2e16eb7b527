"""Importer `gsm8k_solutions`: worked answers of several systems to questions of GSM8K.

A line is a question with `ground_truth` and, under the name of each system, its `solution` and
whether that `is_correct`. One solution is one trajectory of one step. Its last line `A: 10.0` is
written `#### 10`, with the mark of the data set itself: by it the answer is found and
compared with others.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import ConfigDict, Field

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
from harness_core.importers.tasks import gsm8k_id
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

_FAMILY: Final = "gsm8k"
_LAST_LINE: Final = re.compile(r"^A:\s*(?P<number>-?[\d,]*\.?\d+)\s*\Z", re.MULTILINE)


class _Solution(LogRecord):
    solution: str
    is_correct: bool


class _Row(LogRecord):
    model_config = ConfigDict(extra="allow")

    question: str = Field(min_length=1)
    ground_truth: str
    """Hidden, and not kept: what is right stands in `is_correct`."""
    __pydantic_extra__: dict[str, _Solution] = Field(init=False)
    """By system."""


class Gsm8kSolutionsImporter:
    """Reads the example solutions of GSM8K."""

    name: Final = "gsm8k_solutions"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines, a question each."""
        return has_suffix(path, ".jsonl")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Questions come with the truth and with what was made of them."""
        del path
        keys = (b'"question"', b'"ground_truth"', b'"is_correct"', b'"solution"')
        return 0.95 if all(key in head for key in keys) else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Each question with its solutions."""

        def build(record: RawRecord) -> Iterator[Item]:
            yield from _items(record, context)

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)


def _items(record: RawRecord, context: ImportContext) -> Iterator[Item]:
    row = _Row.model_validate(record.value)
    solutions = row.__pydantic_extra__
    if not solutions:
        raise UnreadableError("S-NO-STEPS", "no system has answered")
    task = TaskRef(task_id=gsm8k_id(row.question), family=_FAMILY, description=row.question)
    yield TaskSpec(**task.model_dump(), source=context.source, language=Language.TEXT)
    provenance = context.provenance(Gsm8kSolutionsImporter.name, record)
    for system, solved in solutions.items():
        action = Action(kind=ActionKind.MESSAGE, text=_marked(solved.solution))
        yield Trajectory(
            task=task,
            agent=_agent(system),
            steps=(Step(index=0, action=action),),
            outcome=Outcome(success=solved.is_correct),
            terminated=True,
            truncated=False,
            provenance=provenance,
        )


def _marked(solution: str) -> str:
    return _LAST_LINE.sub(lambda match: f"#### {_plain(match['number'])}", solution)


def _plain(number: str) -> str:
    """One spelling a number: `1,200.50` is 1200.5."""
    number = number.replace(",", "")
    return number.rstrip("0").removesuffix(".") if "." in number else number


def _agent(system: str) -> Agent:
    """`175b_verification` is method `verification` of model `175b`."""
    model, _, method = system.partition("_")
    return Agent(name=method or model, model=model)
