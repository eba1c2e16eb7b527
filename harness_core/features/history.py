"""The numbers of a state: what has happened so far in a trajectory.

Everything here is known to whoever runs the agent at that moment. There is no budget, no number of
steps to come, and nothing of how the run ended.
"""

import math
import re
from collections import Counter
from typing import Final

import orjson

from harness_core.features.contents import StepContent
from harness_core.features.execution import ExecutionSignals
from harness_core.features.keys import text_key
from harness_core.trajectories.guidance import ARGUMENT as GUIDANCE
from harness_core.trajectories.guidance import without_guidance
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind

NUMERIC: Final[tuple[str, ...]] = (
    "step_index",
    "log_step_index",
    "is_start",
    "is_long",
    "log_n_errors",
    "error_rate",
    "last_is_error",
    "last_error_known",
    "log_n_repeats",
    "last_is_repeat",
    "log_n_same_results",
    "last_result_is_same",
    "visible_last",
    "visible_last_known",
    "visible_best",
    "visible_best_known",
    "visible_gain",
    "generated_last",
    "log_n_programs",
    "log_n_messages",
    "log_n_tool_calls",
    "log_n_interventions",
    "result_is_empty",
    "result_is_nothing",
    "result_mentions_error",
    "log_result_chars",
    "log_result_lines",
    "log_result_items",
    "log_tokens",
    "tokens_known",
)
"""Names of the columns of `History.numbers`, in order."""

_LONG: Final = 5
_MAX_CHARS: Final = 20_000
_ERROR: Final = re.compile(
    r"error|exception|traceback|invalid|denied|not found|failed", re.IGNORECASE
)
_NOTHING: Final = frozenset({"", "[]", "()", "{}", "none", "null", "false", "0", "[[]]"})


class History:
    """Counts over the steps so far; `add` one step after the other."""

    def __init__(self) -> None:
        self._n_steps = 0
        self._n_errors = 0
        self._n_repeats = 0
        self._n_same_results = 0
        self._n_tokens = 0
        self._tokens_known = False
        self._kinds: Counter[str] = Counter()
        self._actions: set[tuple[str, int, str]] = set()
        self._results: set[int] = set()
        self._is_repeat = False
        self._is_same_result = False
        self._is_error: bool | None = None
        self._result = ""
        self._visible_last = math.nan
        self._visible_best = math.nan
        self._visible_gain = 0.0
        self._generated_last = 0.0

    def add(self, step: StepContent, execution: ExecutionSignals) -> None:
        """Take in a step and what running its action said."""
        action = step.taken
        self._n_steps += 1
        self._kinds[_group_of(action.kind)] += 1
        self._is_error = step.is_error
        self._n_errors += bool(step.is_error)
        key = (action.kind.value, text_key(action.text), _own(action.arguments))
        self._is_repeat = key in self._actions
        self._n_repeats += self._is_repeat
        self._actions.add(key)
        self._result = step.result.strip()
        result_key = text_key(step.result)
        self._is_same_result = result_key in self._results
        self._n_same_results += self._is_same_result
        if result_key:
            self._results.add(result_key)
        if step.n_tokens is not None:
            self._n_tokens += step.n_tokens
            self._tokens_known = True
        self._add_execution(execution)

    def _add_execution(self, execution: ExecutionSignals) -> None:
        passed = execution.generated_passed
        self._generated_last = sum(passed) / len(passed) if passed else 0.0
        self._visible_last = execution.visible_rate
        self._visible_gain = 0.0
        if math.isnan(execution.visible_rate):
            return
        if not math.isnan(self._visible_best):
            self._visible_gain = execution.visible_rate - self._visible_best
        self._visible_best = _larger(self._visible_best, execution.visible_rate)

    def numbers(self) -> tuple[float, ...]:
        """The columns `NUMERIC`."""
        result = self._result[:_MAX_CHARS]
        started = self._n_steps > 0
        return (
            float(self._n_steps),
            math.log1p(self._n_steps),
            float(not started),
            float(self._n_steps >= _LONG),
            math.log1p(self._n_errors),
            self._n_errors / max(self._n_steps, 1),
            float(bool(self._is_error)),
            float(self._is_error is not None),
            math.log1p(self._n_repeats),
            float(self._is_repeat),
            math.log1p(self._n_same_results),
            float(self._is_same_result),
            _or_zero(self._visible_last),
            float(not math.isnan(self._visible_last)),
            _or_zero(self._visible_best),
            float(not math.isnan(self._visible_best)),
            self._visible_gain,
            self._generated_last,
            *(math.log1p(self._kinds[group]) for group in _GROUPS),
            float(started and not result),
            float(started and result.lower() in _NOTHING),
            float(_ERROR.search(result) is not None),
            math.log1p(len(self._result)),
            math.log1p(result.count("\n") + 1 if result else 0),
            math.log1p(result.count("(") + result.count("[") + result.count("{")),
            math.log1p(self._n_tokens),
            float(self._tokens_known),
        )


_GROUPS: Final = ("program", "message", "tool_call", "intervention")


def _own(arguments: str) -> str:
    """Arguments without the guidance: the same action under other guidance is a repeat."""
    if GUIDANCE not in arguments:
        return arguments
    own = without_guidance(orjson.loads(arguments))
    return orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode()


def _group_of(kind: ActionKind) -> str:
    if kind in INTERVENTIONS:
        return "intervention"
    return "program" if kind is ActionKind.CODE else kind.value


def _larger(first: float, second: float) -> float:
    return second if math.isnan(first) else max(first, second)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
