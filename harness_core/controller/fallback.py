"""What happens where the controller stands aside.

| fallback | who acts |
|---|---|
| `first` | the agent's first allowed candidate |
| `conservative` | the allowed candidate that can do least harm, by rule |
| `guidance` | the agent, once more, under a template; after `max_guidance_rounds`, `first` |
| `review` | nobody now: a person decides |
| `abstain` | nobody |
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness_core.controller.decision import GuidanceRetry
from harness_core.controller.guidance import GuidanceChooser
from harness_core.features.batch import Floats
from harness_core.trajectories.guidance import guidance_of
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind

_ACTS: Final = frozenset({ActionKind.CODE, ActionKind.TOOL_CALL})
"""Kinds that do something outside the conversation."""


def most_conservative(actions: Sequence[Action], *, needs_review: Sequence[bool]) -> int:
    """The action that can do least harm, by rule: no model is asked, for none is trusted here.

    First one that the tool policy lets pass without a person, then one that does nothing outside
    the conversation (neither code nor a tool call), then the shortest one (characters of text and
    arguments), then the first.

    Args:
        actions: at least one.
        needs_review: whether the tool policy asks for a person, of each.
    """

    def harm(place: int) -> tuple[bool, bool, int, int]:
        action = actions[place]
        length = len(action.text) + len(str(action.arguments) if action.arguments else "")
        return needs_review[place], action.kind in _ACTS, length, place

    return min(range(len(actions)), key=harm)


def guidance_retry(
    chooser: GuidanceChooser | None,
    state: Floats,
    history: Sequence[Mapping[str, Any]],
    *,
    max_rounds: int,
) -> GuidanceRetry | None:
    """With which template to ask the agent again; None where there is nothing left to try.

    The template with the largest expected gain above 0 that this run has not had. It need not be a
    reliable one, as without need it would have to be: the alternative is to trust nobody.

    Args:
        chooser: None where the model learnt nothing of guidance.
        state: features of the state [Ds].
        history: the steps so far; guided ones say so in their `arguments`.
        max_rounds: most guided tries in one run.
    """
    marks = [guidance_of(step.get("arguments") or {}) for step in history]
    had = [mark.id for mark in marks if mark is not None and mark.id is not None]
    if chooser is None or len(had) >= max_rounds:
        return None
    legal = chooser.legal(history)
    gains = chooser.gains(state, legal) if legal else ()
    for gain in gains:
        if gain.value > 0 and gain.template_id not in had:
            text = chooser.library.text_of(gain.template_id)
            return GuidanceRetry(template_id=gain.template_id, text=text, round=len(had) + 1)
    return None
