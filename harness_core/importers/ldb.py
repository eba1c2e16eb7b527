"""Importer `ldb`: a debugging agent that repairs a program until the visible tests pass.

Result files hold the programs it tried, in order, each with the visible asserts that failed. Seed
files hold the first programs of several models; each is an attempt of one step by agent `seed`.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import Field

from harness_core.importers.assertions import called_by, hidden_checks, top_level_names
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
from harness_core.importers.programming import ProgrammingTasks, whole_program
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import canonical_task_id, family_of
from harness_core.trajectories.schema import (
    Action,
    Agent,
    JsonObject,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_VARIANTS: Final = ("-line-level", "-function-level", "-seed")
_IMPORTS: Final = (
    "from typing import *\nimport math\nfrom heapq import *\nimport itertools\nimport re\n"
    "import typing\nimport heapq\n"
)
"""What the programs of result files start with. Seeds were run under the same imports."""


class _Row(LogRecord):
    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str
    given_tests: list[str] = Field(default_factory=list)
    generated_test: list[str] = Field(default_factory=list)
    solution: str | None = None
    implementations: list[str] | None = None
    test_feedback: list[list[str]] = Field(default_factory=list)
    token_nums: int | None = None
    is_passing: bool | None = None
    is_solved: bool | None = None


class LdbImporter:
    """Reads result and seed files."""

    name: Final = "ldb"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines, one file a run."""
        return has_suffix(path, ".jsonl")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """Result rows are unmistakable; seed rows have the same keys but for the repairs."""
        del path
        keys = (b'"entry_point"', b'"canonical_solution"', b'"given_tests"', b'"is_solved"')
        if not all(key in head for key in keys):
            return 0.0
        return 0.95 if b'"implementations"' in head and b'"test_feedback"' in head else 0.6

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """Attempts first; the model-written checks of a task are gathered from all runs."""
        tasks = ProgrammingTasks(context, "L-TASK-CONFLICT")

        def build(record: RawRecord) -> Iterator[Item]:
            row = _Row.model_validate(record.value)
            task = _task(row, context)
            tasks.add(task)
            tasks.add_written(task.task_id, row.generated_test)
            if row.implementations is not None or row.solution is not None:
                yield _trajectory(row, record, task, context)

        for path in log_files(folder, self):
            for record in read_records(folder, path, context):
                yield from build_items(record, context, build)
        yield from tasks


def _task(row: _Row, context: ImportContext) -> TaskSpec:
    task_id = canonical_task_id(row.task_id)
    solution = row.canonical_solution
    # Some tasks name a helper of the solution; what the tests call is what an answer must define.
    entry_point = called_by(row.given_tests, row.entry_point)
    is_whole = entry_point in top_level_names(solution)
    return TaskSpec(
        task_id=task_id,
        source=context.source,
        family=family_of(task_id, default="code"),
        description=row.prompt,
        language=Language.PYTHON,
        entry_point=entry_point,
        visible_checks=tuple(row.given_tests),
        hidden_checks=hidden_checks(row.test, entry_point),
        reference=solution if is_whole else row.prompt + solution,
    )


def _trajectory(row: _Row, record: RawRecord, task: TaskSpec, context: ImportContext) -> Trajectory:
    programs = row.implementations
    if programs is None:
        programs = [_seed_program(row)]
    if not programs:
        raise UnreadableError("L-NO-STEPS", "no program was written", field="implementations")
    is_seed = row.implementations is None
    is_over = is_seed or bool(row.is_passing)
    steps = tuple(
        Step(
            index=index,
            action=Action(kind=ActionKind.CODE, text=program),
            result="\n".join(row.test_feedback[index]) if index < len(row.test_feedback) else "",
            usage=Usage(completion_tokens=tokens),
        )
        for index, (program, tokens) in enumerate(
            zip(programs, _spread(row.token_nums, len(programs)), strict=True)
        )
    )
    extra: JsonObject = {} if is_seed else {"is_passing": row.is_passing}
    return Trajectory(
        task=TaskRef(task_id=task.task_id, family=task.family, description=row.prompt),
        agent=_agent(PurePosixPath(record.path), is_seed=is_seed),
        steps=steps,
        outcome=Outcome(success=row.is_solved),
        terminated=is_over,
        truncated=not is_over,
        provenance=context.provenance(LdbImporter.name, record),
        extra=extra,
    )


def _seed_program(row: _Row) -> str:
    return _IMPORTS + whole_program(row.prompt, row.solution or "", row.entry_point)


def _spread(total: int | None, n_steps: int) -> list[int | None]:
    """Tokens of the whole run, evenly over the repairs; the first program was given."""
    if total is None:
        return [None] * n_steps
    n_repairs = n_steps - 1
    if not n_repairs:
        return [total]
    share, rest = divmod(total, n_repairs)
    return [0, *(share + (index < rest) for index in range(n_repairs))]


def _agent(path: PurePosixPath, *, is_seed: bool) -> Agent:
    """`…/ldb/humaneval/gpt-3.5-turbo-0613-line-level/results.jsonl` is agent `ldb-line-level`."""
    stem = path.name.split(".jsonl")[0]
    if stem not in ("results", "seed"):
        return Agent(name=f"ldb-{path.parent.name}-seed", model=stem)
    run = path.parent.name
    if is_seed:
        return Agent(name="seed", model=run)
    for variant in _VARIANTS:
        if run.endswith(variant):
            return Agent(name=f"ldb{variant}", model=run.removesuffix(variant))
    return Agent(name="ldb", model=run)
