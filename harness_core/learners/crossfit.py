"""Cross-fitting: one model for each fold of tasks, which never saw them, and one on all tasks.

Where to stop is found by a scout of each fold, which learns from the training tasks outside the
fold and watches the validation tasks outside it. The fold's model then learns from all tasks
outside the fold for as many updates: where tasks are few, those kept for watching are missed.
The final model learns from every development task, for the median number of updates.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Final

import numpy as np
import numpy.typing as npt

from harness_core.errors import NoDataError
from harness_core.features.batch import DecisionGroup, Flags, TransitionArrays
from harness_core.learners.checks import PARTS
from harness_core.learners.config import TrainConfig
from harness_core.learners.data import (
    GroupPool,
    SetRelative,
    TrainingData,
    TransitionPool,
    group_pool,
    transition_pool,
)
from harness_core.learners.linear import fit_linear
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.order import SamplingOrder, sampling_order
from harness_core.learners.trainer import Fitted, fit
from harness_core.learners.trees import fit_trees
from harness_core.trajectories.vocabulary import GroupKind, Split

_LOG: Final = logging.getLogger("harness")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFit:
    """All models of one training."""

    folds: tuple[Fitted, ...]
    """Model f never saw the tasks of fold f."""
    final: Fitted


def cross_fit(
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    spec: NetworkSpec,
    config: TrainConfig,
    *,
    set_relative: SetRelative,
    sources: npt.NDArray[np.str_] | None = None,
    retarget: "Retarget | None" = None,
    checkpoints: Path | None = None,
) -> CrossFit:
    """Train all fold models and the final model on the tasks outside the frozen test slice.

    Args:
        groups: decision groups; those of test tasks are left out.
        arrays: transitions; those of test tasks are left out.
        spec: shapes of the networks.
        config: the section `train`.
        set_relative: features of a candidate within its group.
        sources: source of each transition, for drawing old logs at a share; else as their tasks.
        retarget: other targets for the same rows, where a model learns from another one.
        checkpoints: folder for unfinished and finished models, so that a killed run resumes.

    Raises:
        NoDataError: there is nothing to tell good attempts from bad ones by, or all tasks are in
            one fold.
        ParameterError: a source that is called old is not there.
    """
    pools = make_pools(groups, arrays, spec, config, set_relative, sources=sources)
    folds = []
    for fold in range(pools.n_folds):
        _LOG.info("train: fold %d of %d", fold + 1, pools.n_folds)
        own = pools if retarget is None else retarget(pools, fold)
        folds.append(fit_without(own, {fold}, spec, config, checkpoints=checkpoints))
    _LOG.info("train: final model")
    keep_at = {part: median_low(item.kept_at[part] for item in folds) for part in PARTS}
    own = pools if retarget is None else retarget(pools, None)
    data = own.data(frozenset(pools.fold_and_split))
    final = fit(
        data,
        spec,
        config,
        keep_at=keep_at,
        checkpoint=_checkpoint(checkpoints, "final"),
        seed=config.seed,
    )
    return CrossFit(folds=tuple(folds), final=_with_others(final, data, config))


def fit_folds(
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    spec: NetworkSpec,
    config: TrainConfig,
    *,
    set_relative: SetRelative,
    sources: npt.NDArray[np.str_] | None = None,
) -> tuple[Fitted, ...]:
    """The models of the folds alone, without a final model; for the rest see `cross_fit`."""
    pools = make_pools(groups, arrays, spec, config, set_relative, sources=sources)
    return fit_every_fold(pools, spec, config)


def fit_every_fold(pools: "Pools", spec: NetworkSpec, config: TrainConfig) -> tuple[Fitted, ...]:
    """The models of the folds alone, from data that are there already."""
    return tuple(fit_without(pools, {fold}, spec, config) for fold in range(pools.n_folds))


def make_pools(
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    spec: NetworkSpec,
    config: TrainConfig,
    set_relative: SetRelative,
    *,
    sources: npt.NDArray[np.str_] | None = None,
) -> "Pools":
    """The data of the tasks outside the frozen test slice; raises as `cross_fit` does."""
    development = [group for group in groups if group.split is not Split.TEST]
    _refuse_equal_labels(development)
    return Pools.of(development, arrays, spec, config, set_relative, sources=sources)


def fit_without(
    pools: "Pools",
    folds: AbstractSet[int],
    spec: NetworkSpec,
    config: TrainConfig,
    *,
    keep_at: Mapping[str, int] | None = None,
    checkpoints: Path | None = None,
) -> Fitted:
    """The model that never saw the tasks of some folds, stopped where its scout or `keep_at` says.

    Raises:
        NoDataError: there is no other task.
    """
    outside = pools.tasks(lambda fold, _: fold not in folds)
    name = "-".join(map(str, sorted(folds)))
    if not outside:
        raise NoDataError(
            f"all {len(pools.fold_and_split)} development tasks are in fold {name}, so no model "
            "can be judged on tasks that it never saw; import more, or more different, tasks"
        )
    watched = pools.tasks(lambda fold, split: fold not in folds and split == Split.VALIDATION)
    scout = None
    if keep_at is None and watched and watched != outside:
        scout = fit(
            pools.data(outside - watched),
            spec,
            config,
            validation=pools.data(watched),
            checkpoint=_checkpoint(checkpoints, f"scout-{name}"),
            seed=config.seed,
        )
    data = pools.data(outside)
    fitted = fit(
        data,
        spec,
        config,
        keep_at=keep_at if scout is None else scout.kept_at,
        checkpoint=_checkpoint(checkpoints, f"fold-{name}"),
        seed=config.seed,
    )
    fitted = _with_others(fitted, data, config)
    return fitted if scout is None else replace(fitted, checks=scout.checks)


def _with_others(fitted: Fitted, data: TrainingData, config: TrainConfig) -> Fitted:
    return replace(
        fitted,
        trees=fit_trees(data, config.trees, seed=config.seed),
        linear=fit_linear(data, config.linear, seed=config.seed),
    )


def _checkpoint(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / f"{name}.ckpt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The data of all models, made once; each model takes the tasks that it may see."""

    transitions: TransitionPool
    transition_task: npt.NDArray[np.str_]  # [N]
    attempts: GroupPool | None
    steps: GroupPool | None
    fold_and_split: dict[str, tuple[int, str]]
    order: SamplingOrder | None

    @classmethod
    def of(
        cls,
        groups: Sequence[DecisionGroup],
        arrays: TransitionArrays,
        spec: NetworkSpec,
        config: TrainConfig,
        set_relative: SetRelative,
        *,
        sources: npt.NDArray[np.str_] | None,
    ) -> "Pools":
        """Pools of all groups and transitions, with the fold and split of each task."""
        attempts, steps = (
            group_pool(
                groups,
                kind=kind,
                set_relative=set_relative,
                group_sizes=config.group_sizes,
                seed=config.seed,
            )
            for kind in (GroupKind.ATTEMPT, GroupKind.STEP)
        )
        return cls(
            transitions=transition_pool(arrays, spec, batch_size=config.batch_size),
            transition_task=arrays.task_id,
            attempts=attempts,
            steps=steps,
            fold_and_split={group.task_id: (group.fold, group.split) for group in groups},
            order=sampling_order(groups, arrays, config, sources),
        )

    @property
    def n_folds(self) -> int:
        """Number of folds that the tasks are in."""
        return 1 + max(fold for fold, _ in self.fold_and_split.values())

    def tasks(self, predicate: Callable[[int, str], bool]) -> frozenset[str]:
        """Development tasks whose fold and split satisfy the predicate."""
        return frozenset(
            task for task, (fold, split) in self.fold_and_split.items() if predicate(fold, split)
        )

    def outside(self, left_out: int) -> TrainingData:
        """What the tasks of all folds but one hold."""
        return self.data(self.tasks(lambda fold, _: fold != left_out))

    def data(self, tasks: frozenset[str]) -> TrainingData:
        """What the tasks hold."""
        allowed = sorted(tasks)
        data = TrainingData(
            transitions=self.transitions.restrict(np.isin(self.transition_task, allowed)),
            attempts=_restrict(self.attempts, allowed),
            steps=_restrict(self.steps, allowed),
        )
        return data if self.order is None else self.order.put_on(data, tasks)


Retarget = Callable[[Pools, int | None], Pools]
"""From the pools to those that the model without a fold (None: the final one) learns from."""


def _restrict(pool: GroupPool | None, tasks: list[str]) -> GroupPool | None:
    if pool is None:
        return None
    chosen: Flags = np.isin(pool.task_id, tasks)
    return pool.restrict(chosen) if chosen.any() else None


def _refuse_equal_labels(groups: Sequence[DecisionGroup]) -> None:
    labels = np.concatenate(
        [np.zeros(0), *(group.success for group in groups if group.kind is GroupKind.ATTEMPT)]
    )
    known = labels[~np.isnan(labels)]
    if not len(known):
        raise NoDataError(
            f"none of {len(labels)} attempts at development tasks has a known outcome; a controller"
            " learns from attempts that succeeded and attempts that failed"
        )
    if known.min() == known.max():
        raise NoDataError(
            f"all {len(known)} attempts at development tasks have the same outcome "
            f"({known[0]:g}); there is nothing to tell good from bad by. Bring logs with both"
        )
