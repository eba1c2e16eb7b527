"""Requests for decisions on the sample problems, with candidates that no cache has seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from harness_core.errors import ParameterError
from harness_core.rewards.danger import danger_rules
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import problem_pool
from harness_core.trajectories.vocabulary import ActionKind, Language

MAX_TOKENS: Final = 64
"""Of a candidate, as the transformer counts them."""
LONG_TOKENS: Final = 256
"""Of a long one: as much of a text as the shipped parameters read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A state and its candidates, as a caller gives them."""

    state: dict[str, Any]
    candidates: tuple[dict[str, Any], ...]


class NewRequests:
    """Requests on the sample problems, whose candidates never came before."""

    def __init__(self, *, k: int, n_tokens: Callable[[str], int], seed: int) -> None:
        self._k = k
        self._n_tokens = n_tokens
        self._serial = count()
        self._tasks = [
            (problem, programs)
            for problem in load_problems()
            if (programs := _short_ones(problem_pool(problem, seed=seed).programs, n_tokens))
        ]
        if not self._tasks:
            raise ParameterError(f"no program of the sample has at most {MAX_TOKENS} tokens")

    def draw(self, n: int) -> list[Request]:
        """The next n requests, one task after the other."""
        return [self._request(number) for number in range(n)]

    def draw_long(self, n: int) -> list[Request]:
        """The same with candidates as long as a text is read, filled up with comments."""
        return [self._lengthened(request) for request in self.draw(n)]

    def _lengthened(self, request: Request) -> Request:
        longer = []
        for item in request.candidates:
            text = item["text"]
            while self._n_tokens(text) < LONG_TOKENS:
                text += f"# {text[: LONG_TOKENS // 2]!r}\n"
            longer.append({**item, "text": text})
        return Request(state=request.state, candidates=tuple(longer))

    def _request(self, number: int) -> Request:
        problem, programs = self._tasks[number % len(self._tasks)]
        state = {
            "task_id": problem.id,
            "description": problem.prompt,
            "language": Language.PYTHON.value,
            "entry_point": problem.entry_point,
            "visible_checks": problem.visible_checks,
        }
        texts = [
            f"{programs[place % len(programs)]}# {next(self._serial)}\n" for place in range(self._k)
        ]
        return Request(
            state=state, candidates=tuple({"kind": "code", "text": text} for text in texts)
        )


def _short_ones(programs: Sequence[str], n_tokens: Callable[[str], int]) -> list[str]:
    """Harmless ones that fit, with room for the number that makes a text new."""
    return [
        program
        for program in programs
        if n_tokens(f"{program}# 99999\n") <= MAX_TOKENS
        and not danger_rules(Language.PYTHON, ActionKind.CODE, program)
    ]
