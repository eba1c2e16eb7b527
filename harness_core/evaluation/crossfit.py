"""Every task judged by a model that never saw it.

Development tasks of fold f are scored by the model that was trained without fold f, tasks of the
frozen test slice (fold −1) by the final model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness_core.controller.combination import (
    CRITIC_ALONE,
    Combination,
    combine,
    success_probability,
)
from harness_core.controller.scoring import Critic
from harness_core.errors import ModelError
from harness_core.evaluation.subsets import Subset
from harness_core.features.batch import Floats, Integers
from harness_core.trajectories.vocabulary import GroupKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Trained networks and the second stage that belongs to them."""

    critic: Critic
    combination: Combination = CRITIC_ALONE


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFit:
    """The final model and those of the folds; without any, the final model judges everything."""

    final: Model
    folds: Mapping[int, Model] = field(default_factory=dict)
    k_max: int | None = None
    """What the manifest of the final model says; None while there is none."""

    def model_of(self, fold: int) -> Model:
        """The model that never saw the tasks of a fold.

        Raises:
            ModelError: the fold has no model of its own, so that its tasks cannot be judged.
        """
        if fold < 0 or not self.folds:
            return self.final
        if fold not in self.folds:
            raise ModelError(f"no model was trained without fold {fold}; run the train stage again")
        return self.folds[fold]

    def controller(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores as the controller gives them: dangerous candidates are refused before scoring."""
        return self.controller_with_belief(subsets)[0]

    def controller_with_belief(
        self, subsets: Sequence[Subset]
    ) -> tuple[list[Floats], list[Floats]]:
        """Scores as the controller gives them, and the probability of success that it believes in.

        A refused candidate has score −∞ and probability 0.
        """
        allowed = [subset.without_dangerous() for subset in subsets]
        scores = [np.full(len(subset.index), -np.inf, dtype=np.float32) for subset in subsets]
        belief = [np.zeros(len(subset.index), dtype=np.float32) for subset in subsets]
        asked = [position for position, subset in enumerate(allowed) if len(subset.index)]
        known = [allowed[position] for position in asked]
        raw = self._raw(known)
        combined, probabilities = self._combined(known, raw), self._calibrated(known, raw)
        for position, score, probability in zip(asked, combined, probabilities, strict=True):
            kept = ~subsets[position].dangerous
            scores[position][kept], belief[position][kept] = score, probability
        return scores, belief

    def scores(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores without the hard filter: second stage for attempts, Q for single steps."""
        return self._combined(subsets, self._raw(subsets))

    def _combined(self, subsets: Sequence[Subset], raw: Sequence[Floats]) -> list[Floats]:
        return [
            combine(
                self.model_of(subset.group.fold).combination,
                score,
                subset.signals,
                subset.relative,
            )
            if subset.group.kind is GroupKind.ATTEMPT
            else score
            for subset, score in zip(subsets, raw, strict=True)
        ]

    def probabilities(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Calibrated probability of success of complete attempts."""
        return self._calibrated(subsets, self._raw(subsets))

    def _calibrated(self, subsets: Sequence[Subset], raw: Sequence[Floats]) -> list[Floats]:
        return [
            success_probability(self.model_of(subset.group.fold).combination, score)
            for subset, score in zip(subsets, raw, strict=True)
        ]

    def values(self, states: Floats, folds: Integers) -> Floats:
        """Worth V of states [N, Ds], summed over components."""
        result = np.zeros(len(states), dtype=np.float32)
        for fold in np.unique(folds):
            rows = folds == fold
            result[rows] = self.model_of(int(fold)).critic.value(states[rows]).sum(axis=1)
        return result

    def running(self, states: Floats, folds: Integers) -> Floats:
        """How promising attempts are that still run, from their states [N, Ds]."""
        result = np.zeros(len(states), dtype=np.float32)
        for fold in np.unique(folds):
            rows = folds == fold
            result[rows] = self.model_of(int(fold)).critic.running(states[rows])
        return result

    def _raw(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Logits of attempts, total action values of steps."""
        return self._by_model(subsets, _network)

    def action_values(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Expected weighted return by component [K, C] of the candidates' (last) actions."""
        return self._by_model(subsets, lambda critic, members, _: _action_values(critic, members))

    def _by_model(self, subsets: Sequence[Subset], network: "_Network") -> list[Floats]:
        """What the networks say of each subset; one call a fold and kind."""
        result: list[Floats] = [np.zeros(0, dtype=np.float32)] * len(subsets)
        kinds = {(subset.group.fold, subset.group.kind) for subset in subsets}
        for fold, kind in sorted(kinds):
            members = [
                position
                for position, subset in enumerate(subsets)
                if (subset.group.fold, subset.group.kind) == (fold, kind)
            ]
            together = network(self.model_of(fold).critic, [subsets[i] for i in members], kind)
            bounds = np.cumsum([len(subsets[i].index) for i in members])[:-1]
            for position, part in zip(members, np.split(together, bounds), strict=True):
                result[position] = part
        return result


_Network = Callable[[Critic, Sequence[Subset], GroupKind], Floats]


def _network(critic: Critic, subsets: Sequence[Subset], kind: GroupKind) -> Floats:
    if kind is GroupKind.ATTEMPT:
        return critic.terminal(np.concatenate([subset.attempt_vectors for subset in subsets]))
    values: Floats = _action_values(critic, subsets).sum(axis=1)
    return values


def _action_values(critic: Critic, subsets: Sequence[Subset]) -> Floats:
    state = np.concatenate([subset.group.before[subset.index] for subset in subsets])
    action = np.concatenate([subset.action_vectors for subset in subsets])
    return critic.q(state, action)
