"""The models of one training, each judging what it never saw, with its second stage.

The second stage of fold f is fitted on the other folds, each by logits of the model that never saw
it. These models have seen fold f, so a task reaches its own second stage through a handful of
weights of five signals; the ablation `without stage two` shows how little hangs on them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final
from zlib import crc32

import numpy as np

from harness_core.controller.combination import Combination, fit_combination
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.learners.checkpoint import Critic
from harness_core.learners.config import TrainConfig
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.trainer import Fitted
from harness_core.rewards.table import COMPONENTS
from harness_core.trajectories.vocabulary import GroupKind

_N_DRAWS: Final = 2
"""Random subsets of each size that stage two is fitted on, besides the whole group."""

_AT_ONCE: Final = 512
"""Groups whose rows are put side by side; bounds memory, not results."""


def network_spec(
    groups: Sequence[DecisionGroup], train: TrainConfig, weights: Mapping[str, float]
) -> NetworkSpec:
    """Shapes and weights of the networks that learn from these groups."""
    return NetworkSpec(
        n_state=groups[0].after.shape[1],
        n_action=groups[0].action.shape[1],
        n_relative=len(SET_RELATIVE),
        hidden_sizes=train.hidden_sizes,
        n_members=train.n_members,
        components=COMPONENTS,
        weights=tuple(weights[name] for name in COMPONENTS),
    )


class OutOfFold:
    """Development groups with the logits of the models that never saw their tasks."""

    def __init__(
        self, groups: Sequence[DecisionGroup], folds: Sequence[Fitted], train: TrainConfig
    ) -> None:
        self._critics = [Critic(fitted.network, fitted.trees, fitted.linear) for fitted in folds]
        self._seed = train.seed
        self._groups = [
            subset
            for group in groups
            if group.kind is GroupKind.ATTEMPT
            for subset in _subsets(group, train.group_sizes, seed=train.seed)
        ]
        self._relative = [set_relative(group.signals) for group in self._groups]
        self._logits = self._all_logits()
        self.combination = cache(self._combination)

    def models(self) -> dict[int, Model]:
        """One model a fold, which may judge the tasks of that fold."""
        return {
            fold: Model(critic=critic, combination=self.combination(fold))
            for fold, critic in enumerate(self._critics)
        }

    def judged(self) -> CrossFit:
        """Every development task judged by the model of its fold; there is no final model."""
        models = self.models()
        return CrossFit(final=models[0], folds=models)

    def _combination(self, without_fold: int | None) -> Combination:
        """Stage two fitted on all folds but one."""
        chosen = [i for i, group in enumerate(self._groups) if group.fold != without_fold]
        return fit_combination(
            [self._groups[i] for i in chosen],
            [self._logits[i] for i in chosen],
            # Sizes are drawn here, since set-relative features, and so logits, depend on them.
            group_sizes=(),
            seed=self._seed,
            relative=[self._relative[i] for i in chosen],
        )

    def _all_logits(self) -> list[Floats]:
        """Logits [K] of each group, many groups in one call: calls cost more than rows."""
        logits: list[Floats] = [np.zeros(0, dtype=np.float32)] * len(self._groups)
        for fold, critic in enumerate(self._critics):
            members = [i for i, group in enumerate(self._groups) if group.fold == fold]
            for start in range(0, len(members), _AT_ONCE):
                asked = members[start : start + _AT_ONCE]
                after = np.concatenate([self._groups[i].after for i in asked])
                relative = np.concatenate([self._relative[i] for i in asked])
                together = critic.terminal(np.concatenate([after, relative], axis=1))
                bounds = np.cumsum([self._groups[i].size for i in asked])[:-1]
                for i, part in zip(asked, np.split(together, bounds), strict=True):
                    logits[i] = part
        return logits


def _subsets(group: DecisionGroup, sizes: Iterable[int], *, seed: int) -> Iterator[DecisionGroup]:
    rng = np.random.default_rng([seed, crc32(group.group_id.encode())])
    for size in sizes:
        if size < group.size:
            for _ in range(_N_DRAWS):
                yield group.take(np.sort(rng.choice(group.size, size=size, replace=False)))
    yield group
