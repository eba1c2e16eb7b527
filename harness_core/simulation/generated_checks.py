"""Checks that simulated models write for a problem: useful in number, often wrong one by one.

A writer varies the inputs of the visible checks and expects what a program of its own returns. Its
program is right or wrong as any answer of its model is, so a wrong one writes wrong checks. Nothing
here reads a hidden check.
"""

import ast
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from harness_core.sandbox.protocol import ProgramJob
from harness_core.sandbox.result import CallResult, CallStatus, ProgramRun
from harness_core.simulation.pool import ProgramPool
from harness_core.simulation.problems import Problem

_N_CALLS: Final = 16
_N_WRITERS: Final = 12
_N_CHECKS_OF_A_WRITER: Final = 4
_RIGHT_SHARE: Final = 0.55
"""How often a writer's own program is right: about as often as the agents' answers are."""
_MAX_CHARS: Final = 400


class Runner(Protocol):
    """The part of a sandbox that is needed here."""

    def run_programs(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        """What each program returned on each call, in order."""
        ...


def write_checks(
    pools: Mapping[str, ProgramPool], problems: Sequence[Problem], *, seed: int, runner: Runner
) -> dict[str, tuple[str, ...]]:
    """Generated checks of each problem by id, the most frequent first."""
    plans = [_plan(problem, pools[problem.id], seed=seed) for problem in problems]
    jobs = [job for plan in plans for job in plan]
    answers = iter(runner.run_programs(jobs))
    return {
        problem.id: _ranked((job, next(answers)) for job in plan)
        for problem, plan in zip(problems, plans, strict=True)
    }


def varied_calls(problem: Problem, *, rng: random.Random) -> list[str]:
    """Calls of the entry point near those of the visible checks, all different."""
    known = [call for check in problem.visible_checks for call in _calls(check, problem)]
    if not known:
        return []
    varied = [ast.unparse(_vary(rng.choice(known), rng=rng)) for _ in range(3 * _N_CALLS)]
    return [call for call in dict.fromkeys(varied) if len(call) <= _MAX_CHARS][:_N_CALLS]


def _plan(problem: Problem, pool: ProgramPool, *, seed: int) -> list[ProgramJob]:
    rng = random.Random(f"checks/{seed}/{problem.id}")
    calls = varied_calls(problem, rng=rng)
    jobs = []
    for _ in range(_N_WRITERS if calls else 0):
        is_right = rng.random() < _RIGHT_SHARE
        program = rng.choice(pool.right if is_right or not pool.wrong else pool.wrong)
        chosen = rng.sample(calls, min(_N_CHECKS_OF_A_WRITER, len(calls)))
        jobs.append(ProgramJob(program=program, calls=tuple(chosen)))
    return jobs


def _ranked(answered: Iterable[tuple[ProgramJob, ProgramRun]]) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for job, run in answered:
        for call, result in zip(job.calls, run.calls, strict=True):
            expected = _literal(result)
            if expected is not None:
                counts[f"assert {call} == {expected}"] += 1
    return tuple(sorted(counts, key=lambda check: (-counts[check], check)))


def _literal(result: CallResult) -> str | None:
    """The value as a literal that reads back as itself; None for anything else."""
    if result.status is not CallStatus.VALUE:
        return None
    text = repr(result.value)
    try:
        is_faithful = len(text) <= _MAX_CHARS and ast.literal_eval(text) == result.value
    except (ValueError, SyntaxError):
        return None
    return text if is_faithful else None


def _calls(check: str, problem: Problem) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(ast.parse(check))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == problem.entry_point
    ]


def _vary(call: ast.Call, *, rng: random.Random) -> ast.Call:
    """The call with one of its arguments changed."""
    values = [ast.literal_eval(argument) for argument in call.args]
    if values:
        place = rng.randrange(len(values))
        values[place] = _other(values[place], rng=rng)
    arguments = [ast.parse(repr(value), mode="eval").body for value in values]
    return ast.Call(func=call.func, args=arguments, keywords=call.keywords)


def _other(value: Any, *, rng: random.Random) -> Any:
    if isinstance(value, list | tuple | str) and value and rng.random() < 0.5:  # noqa: PLR2004  # a coin
        return _inside(value, rng=rng)
    for kind, changes in _CHANGES.items():
        if type(value) is kind:
            return rng.choice(changes)(value)
    return value


def _inside(value: Any, *, rng: random.Random) -> Any:
    """A sequence with one of its items changed."""
    place = rng.randrange(len(value))
    if isinstance(value, str):
        return value[:place] + rng.choice("abz 019,-") + value[place + 1 :]
    items = [*value]
    items[place] = _other(items[place], rng=rng)
    return type(value)(items)


_SEQUENCE: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda value: value[:0],
    lambda value: value[::-1],
    lambda value: value + value,
    lambda value: value[1:],
    lambda value: value[:-1],
)
_CHANGES: Final[Mapping[type, tuple[Callable[[Any], Any], ...]]] = {
    bool: (lambda value: not value,),
    int: (
        lambda _: 0,
        lambda _: 1,
        lambda value: value + 1,
        lambda value: value - 1,
        lambda value: 2 * value,
    ),
    float: (lambda _: 0.0, lambda value: value + 0.5, lambda value: 2 * value),
    str: (*_SEQUENCE, str.upper),
    list: _SEQUENCE,
    tuple: _SEQUENCE[1:3],
    dict: (
        lambda value: dict([*value.items()][1:]),
        lambda value: dict([*value.items()][::-1]),
    ),
}
