"""What Reflexion and the agents that grew out of it write: one line a task, one file a run.

The same problems are solved in Python and in Rust. A Rust task is a variant of its own: nothing
here understands its tests, so that it has no checks and its outcome is what the log says.
Reflections tell how many programs failed before, and some searches go on until hidden tests pass;
they stand in `extra`, where no feature looks.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from pydantic import Field

from harness_core.importers.assertions import called_by, hidden_checks, parse
from harness_core.importers.base import ImportContext, LogRecord, RawRecord
from harness_core.importers.programming import whole_program
from harness_core.importers.rejects import UnreadableError
from harness_core.importers.tasks import canonical_task_id, family_of, variant_of
from harness_core.importers.unit_tests import doctest_checks
from harness_core.trajectories.schema import (
    Action,
    Agent,
    JsonObject,
    Outcome,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

_IMPORTS: Final = "from typing import *\n"
"""What these agents run a Python program under, and what most of the programs rely on."""
_LONG_NAME: Final = re.compile(r"((?:HumanEval|mbpp)_\d+)_\w+")
_RUST: Final = re.compile(r"(?:^|[_-])(?:rs|rust)(?:[_.-]|$)", re.MULTILINE)
_RUN: Final = re.compile(r"(?:^|[_.])([a-z][a-z-]*)_\d+_(.+?)_pass_at_k")
_MODEL: Final = re.compile(r"gpt-?(\d(?:\.\d)?)")


class ReflexionRow(LogRecord):
    """What all of these agents say of a task and of how it went."""

    task_id: str | None = None
    name: str | None = None
    prompt: str
    entry_point: str
    test: str
    language: str | None = None
    canonical_solution: str | None = None
    visible_tests: list[str] = Field(default_factory=list)
    is_solved: bool | None = None
    reflections: list[str] = Field(default_factory=list)


def task_of(row: ReflexionRow, record: RawRecord, context: ImportContext) -> TaskSpec:
    """The task of a row, without what models wrote to check it."""
    task_id = _task_id(row)
    family = family_of(task_id, default="leetcode-hard" if "leetcode" in record.path else "code")
    if _is_rust(row, record.path):
        return TaskSpec(
            task_id=variant_of(task_id, "rust"),
            source=context.source,
            family=f"{family}-rust",
            description=row.prompt,
            language=Language.RUST,
        )
    function = called_by(row.visible_tests, _function(row))
    examples = doctest_checks(row.prompt, function, (), limit=context.config.max_generated_checks)
    solution = row.canonical_solution
    return TaskSpec(
        task_id=task_id,
        source=context.source,
        family=family,
        description=row.prompt,
        language=Language.PYTHON,
        entry_point=function,
        visible_checks=tuple(row.visible_tests) or examples,
        hidden_checks=hidden_checks(row.test, function) if row.test else (),
        reference=None if solution is None else whole_program(row.prompt, solution, function),
    )


def attempt_of(
    row: ReflexionRow,
    task: TaskSpec,
    programs: Iterable[tuple[str, str]],
    record: RawRecord,
    context: ImportContext,
    *,
    importer: str,
) -> Trajectory:
    """An attempt from its programs, each with what the environment answered.

    The last program is handed in, also when the budget is used up: that ends the attempt.
    """
    imports = _IMPORTS if task.language is Language.PYTHON else ""
    extra: JsonObject = {"reflections": row.reflections} if row.reflections else {}
    return Trajectory(
        task=TaskRef(task_id=task.task_id, family=task.family, description=row.prompt),
        agent=agent_of(PurePosixPath(record.path)),
        steps=tuple(
            Step(
                index=index,
                action=Action(kind=ActionKind.CODE, text=imports + program),
                result=result,
            )
            for index, (program, result) in enumerate(programs)
        ),
        outcome=Outcome(success=row.is_solved),
        terminated=True,
        truncated=False,
        provenance=context.provenance(importer, record),
        extra=extra,
    )


def agent_of(path: PurePosixPath) -> Agent:
    """`tries/mbpp-py._reflexion_5_gpt-4_pass_at_k_1_py.jsonl` is agent `reflexion` with gpt-4.

    The folder names the run, which may be set up in its own way: it is the agent's version.
    """
    run = path.parent.name
    match = _RUN.search(path.name)
    if match is not None:
        return Agent(name=match.group(1), version=run, model=match.group(2))
    model = _MODEL.search(run)
    return Agent(
        name=run or path.name.partition(".jsonl")[0],
        version=run,
        model=f"gpt-{model.group(1)}" if model else "",
    )


def _task_id(row: ReflexionRow) -> str:
    said = row.task_id or row.name
    if not said:
        raise UnreadableError("S-SCHEMA", "neither this nor `name` is given", field="task_id")
    match = _LONG_NAME.fullmatch(said)
    return canonical_task_id(match.group(1) if match else said)


def _is_rust(row: ReflexionRow, path: str) -> bool:
    return row.language == "rs" if row.language else bool(_RUST.search(path.replace("/", "\n")))


def _function(row: ReflexionRow) -> str:
    """The function to write. LeetCode names it by the address of the problem: the prompt knows."""
    if row.entry_point.isidentifier():
        return row.entry_point
    tree = parse(row.prompt)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
    return names[-1] if names else row.entry_point
