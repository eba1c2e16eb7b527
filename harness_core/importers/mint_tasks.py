"""The tasks of MINT: what each of its sets says of a task, and the id it has in every source.

A log numbers the tasks of a set anew. Problems of HumanEval and MBPP get their own numbers back,
and the games of ALFWorld have names. Questions of GSM8K are named by their words, as importer
`gsm8k_solutions` names them.
"""

import ast
import re
from typing import Any, Final, NamedTuple

from harness_core.importers.assertions import called_by, hidden_checks, parse
from harness_core.importers.base import LogRecord
from harness_core.importers.known_problems import known_id
from harness_core.importers.tasks import family_of, gsm8k_id
from harness_core.importers.unit_tests import doctest_checks
from harness_core.trajectories.schema import TaskSpec
from harness_core.trajectories.vocabulary import Language

_CODE_BELOW: Final = "Complete the following code:"
_ENTRY_POINT: Final = re.compile(r"\bcheck\((\w+)\)\s*\Z")
_OUTPUT_FORMAT: Final = re.compile(r"\s*Solution output format:[^\n]*\Z")
_MAX_EXAMPLES: Final = 20


class MintTask(LogRecord):
    """A task as every attempt at it repeats it. `reference` is hidden."""

    task_id: int | str
    prompt: str
    reference: Any


class _Code(NamedTuple):
    """What is checked of a program."""

    task_id: str | None
    entry_point: str | None
    visible: tuple[str, ...]
    hidden: tuple[str, ...]


def task_spec(task: MintTask, set_name: str, source: str) -> TaskSpec:
    """The task, under its canonical id."""
    own_id = f"mint-{set_name}/{task.task_id}"
    match set_name:
        case "humaneval":
            return _programming(task, _humaneval(task), own_id, set_name, source)
        case "mbpp":
            return _programming(task, _mbpp(task), own_id, set_name, source)
        case "alfworld":
            own_id = f"alfworld/{task.task_id}"
        case "gsm8k":
            own_id = gsm8k_id(_OUTPUT_FORMAT.sub("", task.prompt))
    return TaskSpec(
        task_id=own_id,
        source=source,
        family=set_name,
        description=task.prompt,
        language=Language.TOOLS if set_name == "alfworld" else Language.TEXT,
    )


def _programming(task: MintTask, code: _Code, own_id: str, set_name: str, source: str) -> TaskSpec:
    task_id = code.task_id or own_id
    return TaskSpec(
        task_id=task_id,
        source=source,
        family=family_of(task_id, default=set_name),
        description=task.prompt,
        language=Language.PYTHON,
        entry_point=code.entry_point,
        visible_checks=code.visible,
        hidden_checks=code.hidden,
    )


def _humaneval(task: MintTask) -> _Code:
    """`reference` defines `check(candidate)` and calls it with the function that is asked for."""
    prompt, tests = task.prompt.partition(_CODE_BELOW)[2], str(task.reference)
    match = _ENTRY_POINT.search(tests)
    name = match.group(1) if match else ""
    return _Code(
        task_id=known_id(prompt),
        entry_point=name or None,
        visible=doctest_checks(prompt, name, (), limit=_MAX_EXAMPLES),
        hidden=hidden_checks(tests, name),
    )


def _mbpp(task: MintTask) -> _Code:
    """`reference` is a few asserts, of which the prompt shows the first."""
    tests = str(task.reference)
    asserts = _asserts(tests)
    name = called_by(asserts, "")
    shown = (line for line in task.prompt.split("\n") if line.startswith("assert "))
    return _Code(
        task_id=known_id("\n".join(asserts)),
        entry_point=name or None,
        visible=tuple(check for line in shown for check in _asserts(line)),
        hidden=asserts or (tests,),
    )


def _asserts(program: str) -> tuple[str, ...]:
    """The statements of a program that is nothing but asserts, as Python writes them."""
    tree = parse(program)
    body = tree.body if tree else []
    if not all(isinstance(node, ast.Assert) for node in body):
        return ()
    return tuple(map(ast.unparse, body))
