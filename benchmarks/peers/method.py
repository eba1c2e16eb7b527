"""What every way of grading offers to the benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one method says of one candidate."""

    passed: bool
    timed_out: bool = False
    """False as well where the method does not tell."""


class Method(Protocol):
    """Grades candidates, several at a time."""

    @property
    def name(self) -> str:
        """What its figures are called."""
        ...

    def grade(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """The outcomes, in the order of the candidates."""
        ...
