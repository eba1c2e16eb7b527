"""The first answer of an attempt: the first step that could have been handed in and was graded.

Where a hidden grader ends a run as soon as an answer is right, complete attempts tell their outcome
by how they ended. Their first answers do not: whatever came back after them is not looked at.
"""

import re
from typing import Any, Final, NamedTuple

from harness_core.trajectories.vocabulary import ActionKind, Language
from harness_core.transitions.recorded import Recorded, Row

_READS: Final = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
"""A query that answers; others look at the schema or change what is there."""


class Answer(NamedTuple):
    """Where an attempt answered first, and how good that answer was."""

    step_index: int
    success: float


def first_answer(item: Recorded, language: Language) -> Answer | None:
    """The first answer with a known grade; None where the log has none.

    Our own grade of a program comes before that of the log. What failed to run is no answer, and
    nothing after a dangerous action is.
    """
    for index in range(item.n_steps_until_end):
        step, taken = item.steps[index], item.taken[index]
        if step["is_error"] or not _is_answer(step, language):
            continue
        grade = _grade(step, taken)
        if grade is not None:
            return Answer(index, grade)
    return None


def _is_answer(step: Row, language: Language) -> bool:
    kind = ActionKind(step["action_kind"])
    if language is Language.SQL and kind is ActionKind.CODE:
        return _READS.match(step["action_text"]) is not None
    return kind in {ActionKind.CODE, ActionKind.MESSAGE}


def _grade(step: Row, taken: Row) -> float | None:
    """In [0, 1]; what the log paid beyond that is cut off."""
    if taken["solved"] is not None:
        return float(taken["solved"])
    reward: Any = step["logged_reward"]
    return None if reward is None else min(max(float(reward), 0.0), 1.0)
