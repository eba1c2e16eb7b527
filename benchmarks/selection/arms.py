"""Models of all folds under one setting of training, made from one pack."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.selection.networks import networks_alone
from benchmarks.selection.pack import Pack
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.features.batch import DecisionGroup
from harness_core.features.set_relative import set_relative
from harness_core.learners.config import CurriculumConfig, ReplayConfig, TrainConfig
from harness_core.learners.crossfit import fit_folds, make_pools
from harness_core.learners.linear import LinearHead, fit_linear
from harness_core.learners.trainer import Fitted
from harness_core.learners.trees import TreeHeads, fit_trees
from harness_core.stages.dag import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """A pack and the working folder that it was made in."""

    pack: Pack
    workspace: Workspace
    _plain: "dict[int, Arm]" = field(default_factory=dict, init=False, repr=False)
    _heads: "dict[int, Heads]" = field(default_factory=dict, init=False, repr=False)

    def plain(self, seed: int) -> "Arm":
        """Trained as shipped, once: neither schedule nor age of a log has a part in it."""
        if seed not in self._plain:
            self._plain[seed] = train_arm(self.pack, seed, heads=self.heads(seed))
        return self._plain[seed]

    def heads(self, seed: int) -> "Heads":
        """What stands beside the networks of every arm: it knows no order and no age of logs."""
        if seed not in self._heads:
            self._heads[seed] = _fit_heads(self.pack, seed)
        return self._heads[seed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Trees and linear head of each fold, and what it took to fit them."""

    of_fold: tuple[tuple[TreeHeads, LinearHead | None], ...]
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The models of all folds under one setting."""

    models: Mapping[int, Model]
    validation_auc: tuple[float, ...]
    """Of each fold's scout, on the validation tasks outside the fold."""
    wall_s: float

    @property
    def judged(self) -> CrossFit:
        """Every task judged by the model that never saw it."""
        return CrossFit(final=self.models[0], folds=self.models)


def train_arm(
    pack: Pack,
    seed: int,
    *,
    judged: Sequence[DecisionGroup] | None = None,
    heads: Heads | None = None,
    sources: Any = None,
    curriculum: CurriculumConfig | None = None,
    replay: ReplayConfig | None = None,
) -> Arm:
    """Train and combine the models of every fold.

    Args:
        pack: what is learnt from.
        seed: of the training.
        judged: groups that stage two is fitted on; those of the pack by default.
        heads: trees and linear heads that are fitted already.
        sources: source of each transition, where logs are drawn at a share.
        curriculum: schedule of families.
        replay: share of old logs.
    """
    started = time.perf_counter()
    config: TrainConfig = pack.params.train.model_copy(
        update={"seed": seed, "curriculum": curriculum, "replay": replay}
    )
    learns = config if heads is None else networks_alone(config)
    spec = network_spec(pack.groups, config, pack.params.rewards.weights.model_dump())
    fitted = fit_folds(
        pack.groups, pack.transitions, spec, learns, set_relative=set_relative, sources=sources
    )
    if heads is not None:
        fitted = tuple(
            replace(each, trees=trees, linear=linear)
            for each, (trees, linear) in zip(fitted, heads.of_fold, strict=True)
        )
    # Stage two is fitted on what may be judged, as the stage `train` does it.
    models = OutOfFold(judged or pack.groups, fitted, config).models()
    wall_s = time.perf_counter() - started + (heads.wall_s if heads is not None else 0.0)
    return Arm(models=models, validation_auc=tuple(map(_best_auc, fitted)), wall_s=wall_s)


def _fit_heads(pack: Pack, seed: int) -> Heads:
    started = time.perf_counter()
    config = pack.params.train.model_copy(update={"seed": seed})
    spec = network_spec(pack.groups, config, pack.params.rewards.weights.model_dump())
    pools = make_pools(pack.groups, pack.transitions, spec, config, set_relative)
    found = []
    for fold in range(pools.n_folds):
        data = pools.outside(fold)
        trees = fit_trees(data, config.trees, seed=seed)
        found.append((trees, fit_linear(data, config.linear, seed=seed)))
    return Heads(of_fold=tuple(found), wall_s=time.perf_counter() - started)


def _best_auc(fitted: Fitted) -> float:
    """AUC on validation tasks of the moment that was kept; 0 where there was none to look at."""
    kept = [check for check in fitted.checks if check.update == fitted.kept_at["terminal"]]
    return float(np.nan_to_num(kept[0].terminal_auc)) if kept else 0.0
