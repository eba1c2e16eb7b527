"""Which actions each component understands. On any other action it is null, and teaches nothing."""

from collections.abc import Callable, Mapping
from typing import Final

from harness_core.rewards.danger import understands as danger_understands
from harness_core.trajectories.vocabulary import INTERVENTIONS, ActionKind, Language

Scope = Callable[[Language, ActionKind], bool]


def _every_action(_language: Language, _kind: ActionKind) -> bool:
    return True


def _python_programs(language: Language, kind: ActionKind) -> bool:
    return language is Language.PYTHON and kind is ActionKind.CODE


def _what_has_content(_language: Language, kind: ActionKind) -> bool:
    return kind not in INTERVENTIONS


SCOPES: Final[Mapping[str, Scope]] = {
    "all_tests": _every_action,
    "outcome": _every_action,
    "syntax": _python_programs,
    "visible_tests": _python_programs,
    "excess_lines": _python_programs,
    "style": _python_programs,
    "danger": danger_understands,
    "progress": _every_action,
    "invalid_call": _every_action,
    "repeated_action": _what_has_content,
    "step_cost": _every_action,
    "token_cost": _every_action,
}
"""Component → whether it understands an action. `all_tests` and `outcome` are facts of the whole
attempt, so that any last action carries them."""
