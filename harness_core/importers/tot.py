"""Importer `tot`: the Game of 24 by direct answer, by chain of thought and by tree of thought.

A file is a JSON list of puzzles `{idx, ys}` with the final texts and, in `infos` or `accs`, which
of them are right. A text of the first two kinds is a trajectory of one step. A tree (`steps`) is
one trajectory for each text that was left at its end: the lines on the way there, each among all
the lines proposed for that state. What the model thought each state was worth is what came back.

Whether a text is right could be computed, since the rule of the game is known to the player. That
is left to the outcome: the checks of a task run programs, and a line of arithmetic is none. The
numbers of a puzzle stand in files of trees only, which give them to the others. Crosswords, whose
files do not say what was asked, are passed over.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import Field, ValidationError

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
from harness_core.importers.tasks import TaskBook
from harness_core.trajectories.schema import (
    Action,
    Agent,
    Candidate,
    FiniteFloat,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_FAMILY: Final = "game24"
_RULE: Final = "Use numbers and basic arithmetic operations (+ - * /) to obtain 24."
_RUN: Final = re.compile(
    r"(?P<model>.+?)_[\d.]+_(?:naive_)?(?P<name>.+?)(?:_sample_\d+)?_start\d+_end\d+\.json"
)


class _Info(LogRecord):
    r: int = Field(ge=0, le=1)


class _Level(LogRecord):
    """One level of a tree: texts so far, texts with one line more, and what each is worth."""

    x: str
    ys: list[str]
    new_ys: list[str]
    values: list[FiniteFloat]


class _Row(LogRecord):
    idx: int
    ys: list[str]
    infos: list[_Info] | None = None
    accs: list[bool] | None = None
    steps: list[_Level] = Field(default_factory=list)

    @property
    def is_right(self) -> list[bool]:
        """One flag a final text."""
        return self.accs or [info.r == 1 for info in self.infos or ()]


class TotImporter:
    """Reads the logs of tree of thought on the Game of 24."""

    name: Final = "tot"

    def reads(self, path: PurePosixPath) -> bool:
        """One JSON list a run."""
        return has_suffix(path, ".json")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Puzzles have these keys; trees say what each state is worth before them."""
        del path
        is_tree = b'"select_new_ys"' in head and b'"values"' in head
        is_list = b'"ys"' in head and (b'"usage_so_far"' in head or b"(left: " in head)
        return 0.9 if is_tree or is_list else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Every attempt, then the puzzles."""
        records = [
            record
            for path in log_files(folder, self)
            for record in read_records(folder, path, context)
        ]
        numbers = dict(filter(None, map(_numbers_of, records)))
        tasks = TaskBook()

        def build(record: RawRecord) -> Iterator[Item]:
            if _is_crossword(record.value):
                context.warn("W-CROSSWORD")
            else:
                yield from _items(record, context, tasks, numbers)

        for record in records:
            yield from build_items(record, context, build)
        yield from tasks


def _numbers_of(record: RawRecord | Reject) -> tuple[int, str] | None:
    """A puzzle and its numbers, where a record tells both."""
    try:
        row = None if isinstance(record, Reject) else _Row.model_validate(record.value)
    except ValidationError:
        return None
    return (row.idx, row.steps[0].x) if row and row.steps else None


def _is_crossword(value: Any) -> bool:
    """A crossword is judged by letters and words; its trees are lists of single steps."""
    match value:
        case {"infos": [{"r_letter": _}, *_]} | [{"total_step": _}, *_]:
            return True
    return False


def _items(
    record: RawRecord, context: ImportContext, tasks: TaskBook, numbers: Mapping[int, str]
) -> Iterator[Item]:
    row = _Row.model_validate(record.value)
    is_right = row.is_right
    if len(is_right) != len(row.ys):
        reason = f"{len(row.ys)} texts, but {len(is_right)} labels"
        raise UnreadableError("W-LABELS", reason, field="ys")
    if not row.ys:
        raise UnreadableError("W-NO-STEPS", "no text was written", field="ys")
    if row.idx not in numbers:
        context.warn("W-NO-NUMBERS")
    asked = f"Input: {numbers[row.idx]}" if row.idx in numbers else f"Puzzle {row.idx}"
    task = TaskRef(task_id=f"{_FAMILY}/{row.idx}", family=_FAMILY, description=f"{_RULE}\n{asked}")
    tasks.add(TaskSpec(**task.model_dump(), source=context.source, language=Language.TEXT))
    agent = _agent(record.path)
    provenance = context.provenance(TotImporter.name, record)
    for index, text in enumerate(row.ys):
        yield Trajectory(
            task=task,
            agent=agent,
            steps=_path(text, row.steps) if row.steps else (_step(0, text),),
            outcome=Outcome(success=is_right[index]),
            terminated=True,
            truncated=False,
            provenance=provenance,
            # Equal texts are separate draws, so they must not become one trajectory.
            extra={"sample": index},
        )


def _path(text: str, levels: Sequence[_Level]) -> tuple[Step, ...]:
    """The steps to a final text, found from its end."""
    steps: list[Step] = []
    for index in reversed(range(len(levels))):
        level = levels[index]
        worth = dict(zip(reversed(level.new_ys), reversed(level.values), strict=True))
        before = max((item for item in level.ys if text.startswith(item)), key=len, default=None)
        if before is None or text not in worth:
            raise UnreadableError("W-PATH", "a text that no proposal led to", field="steps")
        proposed = list(dict.fromkeys(item for item in level.new_ys if item.startswith(before)))
        steps.append(
            _step(
                index,
                _line(text, before),
                result=f"value {worth[text]:g}",
                proposed=[_line(item, before) for item in proposed],
                chosen_index=proposed.index(text),
            )
        )
        text = before
    return tuple(reversed(steps))


def _line(text: str, before: str) -> str:
    return text[len(before) :].strip("\n")


def _step(
    index: int,
    text: str,
    *,
    result: str = "",
    proposed: Sequence[str] = (),
    chosen_index: int | None = None,
) -> Step:
    return Step(
        index=index,
        action=_message(text),
        result=result,
        candidates=tuple(Candidate(action=_message(item)) for item in proposed),
        chosen_index=chosen_index,
    )


def _message(text: str) -> Action:
    return Action(kind=ActionKind.MESSAGE, text=text)


def _agent(path: str) -> Agent:
    """`gpt-4_0.7_naive_cot_sample_100_start900_end1000.json` is agent `cot` with gpt-4."""
    name = PurePosixPath(path).name
    match = _RUN.match(name)
    if match is None:
        return Agent(name=name.split(".json")[0])
    return Agent(name=match["name"], model=match["model"])
