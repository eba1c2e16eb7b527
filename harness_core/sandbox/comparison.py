"""What a check asks of a returned value, as data: functions to apply, a comparison, an expectation.

Evaluated in the grader on pure builtin data only, so that it can run no foreign code. NaN equals
nothing, `True == 1` and `2 == 2.0` hold as in Python.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


class Wrapper(NamedTuple):
    """A function of the returned value: its name in `WRAPPERS` and its constant argument."""

    name: str
    argument: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`operator(wrappers(value), expected)`; `close` has tolerances besides."""

    operator: str
    expected: Any = None
    wrappers: tuple[Wrapper, ...] = ()
    """Innermost first."""
    rel_tol: float = 1e-9
    abs_tol: float = 0.0

    def holds(self, value: Any) -> bool:
        """Whether a returned value is as expected; a comparison that fails is a no."""
        try:
            for wrapper in self.wrappers:
                value = WRAPPERS[wrapper.name](value, wrapper.argument)
            if self.operator == "close":
                return math.isclose(
                    value, self.expected, rel_tol=self.rel_tol, abs_tol=self.abs_tol
                )
            return bool(OPERATORS[self.operator](value, self.expected))
        except (
            ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError,
        ):  # fmt: skip
            return False


def _rounded(value: Any, digits: Any) -> Any:
    return round(value) if digits is None else round(value, digits)


OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda value, expected: value in expected,
    "not in": lambda value, expected: value not in expected,
    "contains": lambda value, expected: expected in value,
    "not contains": lambda value, expected: expected not in value,
    "true": lambda value, _: bool(value),
    "false": lambda value, _: not value,
}
WRAPPERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "abs": lambda value, _: abs(value),
    "all": lambda value, _: all(value),
    "any": lambda value, _: any(value),
    "bool": lambda value, _: bool(value),
    "float": lambda value, _: float(value),
    "frozenset": lambda value, _: frozenset(value),
    "int": lambda value, _: int(value),
    "item": lambda value, index: value[index],
    "len": lambda value, _: len(value),
    "list": lambda value, _: list(value),
    "max": lambda value, _: max(value),
    "min": lambda value, _: min(value),
    "minus": lambda value, number: value - number,
    "not": lambda value, _: not value,
    "round": _rounded,
    "set": lambda value, _: set(value),
    "sorted": lambda value, _: sorted(value),
    "str": lambda value, _: str(value),
    "subtracted from": lambda value, number: number - value,
    "sum": lambda value, _: sum(value),
    "tuple": lambda value, _: tuple(value),
}
