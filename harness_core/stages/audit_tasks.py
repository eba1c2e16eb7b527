"""Which tasks the audit looks at, and the honest attempts at each of them.

Tasks are drawn by digest and taken in turns from the groups they belong to, so that the choice
depends on nothing but their names.
"""

import ast
import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest
from typing import Final, TypeVar

from harness_core.rewards.audit_cases import Attempt, AuditCase, program_attempt
from harness_core.rewards.probe_programs import examples_of
from harness_core.rewards.probes import probes_of
from harness_core.simulation.mutations import mutants
from harness_core.simulation.problems import Problem, load_problems
from harness_core.simulation.styles import make_sloppy, rename_variables
from harness_core.trajectories.schema import TaskSpec
from harness_core.trajectories.vocabulary import Language

N_LONG: Final = 100
"""Statements beyond the reference in a long-winded attempt: the rules are shown up to there."""

_N_WRONG: Final = 3
_DRESSED_UP: Final = ("long_winded", "wrong_shape")
_Item = TypeVar("_Item")


def our_cases(n_tasks: int) -> list[AuditCase]:
    """Problems that ship with the library, spread over their families."""
    chosen = _spread(load_problems(), n_tasks, name=lambda p: p.id, group=lambda p: p.family)
    return [_case(_task_of(problem), problem.wrong_variants) for problem in chosen]


def logged_cases(tasks: Iterable[TaskSpec], n_tasks: int) -> list[AuditCase]:
    """Tasks of the logs that can be audited, spread over their sources."""
    known = {problem.id for problem in load_problems()}
    able = [task for task in tasks if task.task_id not in known and _can_be_audited(task)]
    chosen = _spread(able, n_tasks, name=lambda t: t.task_id, group=lambda t: t.source)
    return [_case(task, _mutants(task)) for task in chosen]


def _case(task: TaskSpec, wrong_programs: Sequence[str]) -> AuditCase:
    honest = _honest(task, wrong_programs[:_N_WRONG])
    return AuditCase(
        task=task, honest=honest, probes=probes_of(task, honest, dressed_up=_DRESSED_UP)
    )


def _honest(task: TaskSpec, wrong_programs: Sequence[str]) -> tuple[Attempt, ...]:
    """Right attempts, wrong ones, short and long ones, and such that took several actions."""
    reference, rng = task.reference or "", random.Random(task.task_id)
    long_winded, typo = (
        _long_winded(reference, task.entry_point),
        _typo(reference, task.entry_point),
    )
    shape = _wrong_shape(long_winded, task.entry_point)
    wrong = {f"wrong_{number}": text for number, text in enumerate(wrong_programs, start=1)}
    first, last = next(iter(wrong.values()), shape), shape
    return (
        program_attempt("reference", reference),
        program_attempt("renamed", rename_variables(reference, rng=rng)),
        program_attempt("sloppy", make_sloppy(reference, rng=rng)),
        program_attempt("long_winded", long_winded),
        *(program_attempt(name, text) for name, text in wrong.items()),
        *(
            program_attempt(f"long_{name}", _long_winded(text, task.entry_point))
            for name, text in wrong.items()
        ),
        program_attempt("wrong_shape", shape),
        program_attempt("typo", typo),
        program_attempt("mended", first, reference),
        program_attempt("spoilt", reference, last),
        program_attempt("spoilt_by_typo", long_winded, typo),
        program_attempt("never_mended", last, _long_winded(last, task.entry_point)),
    )


def _long_winded(program: str, entry_point: str | None) -> str:
    """The program of somebody who needs `N_LONG` steps more, and has no sense of style."""
    lines = program.splitlines()
    function = _function(program, entry_point)
    if function is None:
        return program
    first = function.body[0]
    indent = " " * first.col_offset
    steps = [f"{indent}step_{number} = {number}" for number in range(1, N_LONG + 1)]
    place = first.lineno - 1
    return "\n".join([*lines[:place], *steps, *lines[place:], ""])


def _wrong_shape(program: str, entry_point: str | None) -> str:
    """The right answer in a list of its own: a serious attempt that passes nothing."""
    return (
        f"{program.rstrip()}\n\n\nanswer_of = {entry_point}\n\n\n"
        f"def {entry_point}(*arguments):\n    return [answer_of(*arguments)]\n"
    )


def _typo(program: str, entry_point: str | None) -> str:
    """A serious attempt that does not parse: a bracket too many."""
    return program.replace(f"def {entry_point}(", f"def {entry_point}((", 1)


def _mutants(task: TaskSpec) -> list[str]:
    return mutants(task.reference or "", rng=random.Random(task.task_id), n=_N_WRONG)


def _task_of(problem: Problem) -> TaskSpec:
    return TaskSpec(
        task_id=problem.id,
        source="problems",
        family=problem.family,
        description=problem.prompt,
        initial_state=problem.skeleton,
        language=Language.PYTHON,
        entry_point=problem.entry_point,
        visible_checks=problem.visible_checks,
        hidden_checks=problem.hidden_checks,
        reference=problem.reference,
    )


def _can_be_audited(task: TaskSpec) -> bool:
    """Whether honest attempts and probes can be made of a task, and hidden checks tell more."""
    return (
        task.language is Language.PYTHON
        and _function(task.reference or "", task.entry_point) is not None
        and bool(set(task.hidden_checks) - set(task.visible_checks))
        and bool(examples_of(task))
    )


def _function(program: str, entry_point: str | None) -> ast.FunctionDef | None:
    """The entry point, if it is a function whose body begins on a line of its own."""
    try:
        body = ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == entry_point:
            return node if node.body[0].lineno > node.lineno else None
    return None


def _spread(
    items: Iterable[_Item],
    n_items: int,
    *,
    name: Callable[[_Item], str],
    group: Callable[[_Item], str],
) -> list[_Item]:
    """`n_items` of all, drawn by digest, the groups taking turns; in the order of their names."""
    groups: dict[str, list[_Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: hashlib.sha256(name(item).encode()).digest()):
        groups[group(item)].append(item)
    rounds = zip_longest(*(groups[key] for key in sorted(groups)))
    turns = [item for item in chain.from_iterable(rounds) if item is not None]
    return sorted(turns[:n_items], key=name)
