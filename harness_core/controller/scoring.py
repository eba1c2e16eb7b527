"""One score a candidate: complete attempts by the terminal head, actions not yet taken by Q."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from harness_core.controller.combination import Combination, combine
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.features.set_relative import set_relative
from harness_core.rewards.table import OF_THE_END
from harness_core.trajectories.vocabulary import GroupKind, Language


class Critic(Protocol):
    """What scoring needs of trained networks."""

    def terminal(self, x: Floats) -> Floats:
        """Logits [K] of success of complete attempts, from [state | set-relative] of [K, Ds+Dr]."""
        ...

    def q(self, state: Floats, action: Floats) -> Floats:
        """Expected weighted return by component [K, C], the lower of the twins."""
        ...

    def value(self, state: Floats) -> Floats:
        """Worth of states by component [K, C]."""
        ...

    def running(self, state: Floats) -> Floats:
        """How promising attempts are that still run, [K]; comparable at one step of one task."""
        ...


def attempt_logits(critic: Critic, group: DecisionGroup, relative: Floats | None = None) -> Floats:
    """Terminal logits [K] of the complete attempts of a group.

    `relative` saves making the set-relative features of the group once more.
    """
    within = set_relative(group.signals) if relative is None else relative
    return critic.terminal(np.concatenate([group.after, within], axis=1))


def action_values(critic: Critic, group: DecisionGroup, relative: Floats | None = None) -> Floats:
    """Expected weighted return by component [K, C] of the candidates' (last) actions."""
    within = set_relative(group.signals) if relative is None else relative
    return critic.q(group.before, np.concatenate([group.action, within], axis=1))


def success_component(language: Language) -> str:
    """The component that pays success at tasks of a language."""
    return "all_tests" if language is Language.PYTHON else "outcome"


def with_success(
    values: Floats,
    probability: Floats,
    *,
    components: Sequence[str],
    weights: Mapping[str, float],
    success: str,
) -> Floats:
    """Expected weighted reward by component [K, C]: Q, but success as the calibrated head has it.

    Args:
        values: expected weighted return by component [K, C].
        probability: calibrated probability of success [K].
        components: names of the C components.
        weights: weight of each.
        success: the component that pays success; the other one of the end is 0.
    """
    result = values.copy()
    for name in OF_THE_END:
        if name in components:
            worth = weights[name] if name == success else 0.0
            result[:, components.index(name)] = probability * worth
    return result


def score_group(critic: Critic, combination: Combination, group: DecisionGroup) -> Floats:
    """Scores [K], higher is better; comparable within the group only."""
    if group.kind is GroupKind.ATTEMPT:
        return combine(combination, attempt_logits(critic, group), group.signals)
    values: Floats = action_values(critic, group).sum(axis=1)
    return values
