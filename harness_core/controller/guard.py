"""The hard filter: model-free danger rules, applied before any score."""

from collections.abc import Sequence

from harness_core.controller.decision import FilteredCandidate
from harness_core.rewards.danger import danger_rules
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import Language


def filter_dangerous(
    actions: Sequence[Action], *, language: Language
) -> tuple[FilteredCandidate, ...]:
    """The candidates that break a danger rule, with the rules they break."""
    broken = (danger_rules(language, action.kind, action.text) for action in actions)
    return tuple(
        FilteredCandidate(index=index, rules=rules) for index, rules in enumerate(broken) if rules
    )
