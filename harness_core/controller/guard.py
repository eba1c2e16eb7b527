"""The hard filter: model-free danger rules and the tool policy, applied before any score."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness_core.controller.decision import FilteredCandidate
from harness_core.controller.request import action_of, complete, language_of
from harness_core.rewards.tool_policy import ToolPolicy, action_danger
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import Language


def screen(
    candidates: Sequence[Mapping[str, Any]], *, language: str, policy: ToolPolicy
) -> tuple[FilteredCandidate, ...]:
    """The hard filter alone: which candidates it takes out, and by which rules.

    It needs no model, so it also holds where none can be loaded or scoring failed.

    Args:
        candidates: as for `Controller.select`; possibly none.
        language: of the state.
        policy: which tool calls are denied.

    Raises:
        ParameterError: a candidate has no text, or a word is unknown.
    """
    known = language_of(language)
    actions = [action_of(complete(candidate, known)) for candidate in candidates]
    return filter_dangerous(actions, language=known, policy=policy)


def filter_dangerous(
    actions: Sequence[Action], *, language: Language, policy: ToolPolicy
) -> tuple[FilteredCandidate, ...]:
    """The candidates that break a danger rule or that the policy denies, with these rules."""
    broken = (action_danger(action, language, policy) for action in actions)
    return tuple(
        FilteredCandidate(index=index, rules=rules) for index, rules in enumerate(broken) if rules
    )


def needing_review(
    actions: Sequence[Action], *, policy: ToolPolicy
) -> tuple[FilteredCandidate, ...]:
    """The candidates that a person has to agree to, with the rule of the policy that asks for it.

    One that a danger rule takes out besides is named here too: it broke both.
    """
    verdicts = (policy.judge(action) for action in actions)
    return tuple(
        FilteredCandidate(index=index, rules=(f"policy:{verdict.rule}",))
        for index, verdict in enumerate(verdicts)
        if verdict is not None and verdict.effect == "needs_review"
    )
