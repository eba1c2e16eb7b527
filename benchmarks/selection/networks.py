"""Our own learners: the controller itself, and V and Q of critics that learn from transitions.

Each is trained with the settings of the pack, on data that are cut up once for all of them. Q sees
an action without the columns that compare it with other candidates: in these logs an action was
taken alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from benchmarks.kept_models import keep_models, model_key
from benchmarks.selection.crossfitting import OfOnePack, by_fold
from benchmarks.selection.pack import Pack
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset
from harness_core.features.batch import Floats
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.learners.checkpoint import Critic
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import Pools, fit_every_fold, make_pools
from harness_core.learners.linear import fit_linear
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.trainer import Fitted
from harness_core.learners.trees import NO_TREES
from harness_core.trajectories.vocabulary import ActionKind, Split

LearnerName = Literal["iql", "mc", "bc"]

_MAX_CLONING_UPDATES: Final = 100
"""Cloning compares each action with eight others, so that an update costs several of the rest."""
_SUBMIT: Final = tuple(ActionKind).index(ActionKind.SUBMIT)
"""Place of handing in: an action's vector starts with the one-hot of its kind."""


@dataclass(frozen=True, slots=True)
class JudgedController:
    """The controller, each fold judged by networks and a second stage that learnt without it."""

    judged: CrossFit

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of each subset, −∞ for what the hard filter takes out."""
        return self.judged.controller(subsets)

    def probabilities(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Calibrated probability of success [K] of each subset."""
        return self.judged.probabilities(subsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticScores:
    """Scores by the critic that never saw the fold."""

    critics: tuple[Critic, ...]
    score: Callable[[Critic, Sequence[Subset]], Floats]

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of each subset."""
        return by_fold(subsets, lambda fold, members: self.score(self.critics[fold], members))


def controller(pack: Pack, seed: int) -> Selector:
    """Terminal head, stage two and hard filter, as they are shipped."""
    config = _config(pack, seed, pack.params.train.learner)
    fitted = _TRAINED(pack, seed, config.learner)
    return JudgedController(OutOfFold(pack.groups, fitted, config).judged())


def controller_with(
    pack: Pack,
    seed: int,
    *,
    has_trees: bool = True,
    linear_share: float | None = None,
    pairwise_weight: float | None = None,
) -> Selector:
    """The controller with other networks, or other heads beside them, and its own second stage.

    What is not named is that of the controller itself: trees and a linear head know of no loss of
    the networks, and the other way round.
    """
    config = _config(pack, seed, pack.params.train.learner)
    fitted = list(_TRAINED(pack, seed, config.learner))
    if pairwise_weight is not None:
        bare = networks_alone(config).model_copy(update={"pairwise_weight": pairwise_weight})
        pairs = zip(
            fitted, fit_every_fold(_POOLS(pack, seed), _spec(pack, bare), bare), strict=True
        )
        fitted = [replace(own, network=other.network) for own, other in pairs]
    if not has_trees:
        fitted = [replace(each, trees=NO_TREES) for each in fitted]
    if linear_share is not None:
        fitted = _with_linear_head(pack, fitted, config, linear_share)
    return JudgedController(OutOfFold(pack.groups, fitted, config).judged())


def _with_linear_head(
    pack: Pack, fitted: Sequence[Fitted], config: TrainConfig, share: float
) -> list[Fitted]:
    pools = _POOLS(pack, config.seed)
    linear = config.linear.model_copy(update={"share": share})
    return [
        replace(each, linear=fit_linear(pools.outside(fold), linear, seed=config.seed))
        for fold, each in enumerate(fitted)
    ]


def networks_alone(config: TrainConfig) -> TrainConfig:
    """The same training without what stands beside the networks."""
    trees = config.trees.model_copy(update={"n_trees": 0})
    linear = config.linear.model_copy(update={"share": 0.0})
    return config.model_copy(update={"trees": trees, "linear": linear})


def value_of_the_end(pack: Pack, seed: int, learner: LearnerName) -> Selector:
    """V(s_T): what the critic expects once it has seen how the attempt ended."""
    return CriticScores(critics=_critics(pack, seed, learner), score=_value)


def worth_of_handing_in(pack: Pack, seed: int, learner: LearnerName) -> Selector:
    """Q(s_T, submit), the action that the outcome pays."""
    return CriticScores(critics=_critics(pack, seed, learner), score=_submit)


def worth_of_the_last_action(pack: Pack, seed: int, learner: LearnerName) -> Selector:
    """Q(s_(T−1), a_T), before the result of the action is seen.

    Of behaviour cloning this is how much more likely than others the agent takes such an action.
    """
    return CriticScores(critics=_critics(pack, seed, learner), score=_last_action)


def handing_in(n_rows: int, *, n_action: int) -> Floats:
    """The vector of a virtual submit, as often as asked, [N, Da + Dr]."""
    action = np.zeros((n_rows, n_action + len(SET_RELATIVE)), dtype=np.float32)
    action[:, _SUBMIT] = 1.0
    return action


def ends(subsets: Sequence[Subset]) -> Floats:
    """The states s_T of all candidates, [N, Ds]."""
    return np.concatenate([subset.group.after[subset.index] for subset in subsets])


def _value(critic: Critic, subsets: Sequence[Subset]) -> Floats:
    return np.asarray(critic.value(ends(subsets)).sum(axis=1))


def _submit(critic: Critic, subsets: Sequence[Subset]) -> Floats:
    states = ends(subsets)
    action = handing_in(len(states), n_action=critic.expected.n_action)
    return np.asarray(critic.q(states, action).sum(axis=1))


def _last_action(critic: Critic, subsets: Sequence[Subset]) -> Floats:
    before = np.concatenate([subset.group.before[subset.index] for subset in subsets])
    action = np.concatenate([subset.group.action[subset.index] for subset in subsets])
    alone = np.zeros((len(action), len(SET_RELATIVE)), dtype=np.float32)
    return np.asarray(critic.q(before, np.hstack([action, alone])).sum(axis=1))


def _critics(pack: Pack, seed: int, learner: LearnerName) -> tuple[Critic, ...]:
    return tuple(Critic(fitted.network) for fitted in _TRAINED(pack, seed, learner))


def _train(pack: Pack, seed: int, learner: LearnerName) -> tuple[Fitted, ...]:
    config, pools = _config(pack, seed, learner), _POOLS(pack, seed)
    if learner != pack.params.train.learner:
        # Only the critic is asked of the others: their terminal head may learn as little as it can.
        config = networks_alone(config).model_copy(update={"n_groups": 1})
    if learner == "bc":
        n_updates = min(config.max_updates, _MAX_CLONING_UPDATES)
        config = config.model_copy(update={"max_updates": n_updates})
        # Nobody is kept for watching: there are so few updates that the last is as good as any.
        places: dict[str, tuple[int, str]] = {
            task: (fold, Split.TRAIN) for task, (fold, _) in pools.fold_and_split.items()
        }
        pools = replace(pools, fold_and_split=places)
    spec = _spec(pack, config)
    fitted = fit_every_fold(pools, spec, config)
    if learner == pack.params.train.learner and pack.root is not None:
        keep_models(pack.root, model_key(pack.groups, pack.transitions, spec, config), fitted)
    return fitted


def _config(pack: Pack, seed: int, learner: LearnerName) -> TrainConfig:
    return pack.params.train.model_copy(update={"seed": seed, "learner": learner})


def _spec(pack: Pack, config: TrainConfig) -> NetworkSpec:
    return network_spec(pack.groups, config, pack.params.rewards.weights.model_dump())


def _make_pools(pack: Pack, seed: int) -> Pools:
    config = _config(pack, seed, pack.params.train.learner)
    return make_pools(pack.groups, pack.transitions, _spec(pack, config), config, set_relative)


_POOLS: Final = OfOnePack(_make_pools)
"""What all learners draw from: none of them is asked how the data are cut up."""
_TRAINED: Final = OfOnePack(_train)
"""The folds' networks by learner: V, Q and controller of one learner come from one training."""
