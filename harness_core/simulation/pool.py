"""The programs that simulated agents know for one problem, right ones and wrong ones.

The pool is the same for all models and runs of a problem: agents repeat each other's answers, as
real ones do, and few distinct programs have to be graded.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness_core.simulation.faults import add_danger, break_syntax, cut_off
from harness_core.simulation.mutations import mutants
from harness_core.simulation.problems import Problem
from harness_core.simulation.styles import (
    make_sloppy,
    make_verbose,
    rename_variables,
    rewrite_equivalently,
)

_N_MUTANTS: Final = 5
_N_TWICE: Final = 3
"""Mistakes that stand in the pool in a second style as well."""

_STYLES: Final[tuple[Callable[[str, random.Random], str], ...]] = (
    lambda program, _: program,
    lambda program, rng: rename_variables(program, rng=rng),
    lambda program, _: rewrite_equivalently(program),
    lambda program, rng: make_verbose(program, rng=rng),
    lambda program, rng: make_sloppy(rename_variables(program, rng=rng), rng=rng),
)
"""Ways to write down the same program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPool:
    """Complete programs by what is meant to be wrong with them. No program stands twice."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    """The likeliest mistakes first. A mutant may happen to be right."""
    broken: tuple[str, ...]
    """Cut off or not Python."""
    dangerous: tuple[str, ...]
    """Right or wrong, and calling something dangerous."""

    @property
    def programs(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.right, *self.wrong, *self.broken, *self.dangerous)


def build_pool(problem: Problem, *, rng: random.Random) -> ProgramPool:
    """Make the pool of a problem; the same state of `rng` gives the same pool."""
    right = _distinct([style(problem.reference, rng) for style in _STYLES])
    planned = list(problem.wrong_variants)
    rng.shuffle(planned)
    bugs = _without([*planned, *mutants(problem.reference, rng=rng, n=_N_MUTANTS)], seen={*right})
    # Wrong programs come in the same styles as right ones, or style would give them away.
    styled = [rng.choice(_STYLES)(bug, rng) for bug in bugs]
    again = [rng.choice(_STYLES)(bug, rng) for bug in rng.sample(bugs, min(_N_TWICE, len(bugs)))]
    wrong = _without([*styled, *again], seen={*right})
    broken = [
        cut_off(rng.choice(right), rng=rng),
        break_syntax(rng.choice(right), rng=rng),
        break_syntax(rng.choice(wrong), rng=rng),
    ]
    dangerous = [add_danger(rng.choice(right), rng=rng), add_danger(rng.choice(wrong), rng=rng)]
    seen = {*right, *wrong}
    return ProgramPool(
        right=tuple(right),
        wrong=tuple(wrong),
        broken=tuple(_without(broken, seen=seen)),
        dangerous=tuple(_without(dangerous, seen=seen)),
    )


def _distinct(programs: list[str]) -> list[str]:
    return list(dict.fromkeys(programs))


def _without(programs: list[str], *, seen: set[str]) -> list[str]:
    return [program for program in _distinct(programs) if program not in seen]
