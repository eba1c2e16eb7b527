"""Soft targets: what a student learns where a trained model, the teacher, has scored the rows.

Only targets change; batches, losses and stopping are those of any training. An attempt whose
outcome is known keeps it: on real logs a probability in its place makes the student choose worse.
One whose outcome nobody knows is worth P, the teacher's calibrated probability. With share w of the
teacher, the return of an action is w · Q + (1 − w) · G, without bootstrapping, and the label of a
proposed one is mixed alike. Losses are linear or quadratic in their target, so that a mixed target
is a mixed loss (Hinton et al., 2015).

A task of fold g is scored for the student without fold f by a teacher that saw neither f nor g: the
scores are out of fold, and the student of fold f has learnt from its tasks in no way.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness_core.errors import NoDataError
from harness_core.features.batch import Flags, Integers
from harness_core.learners.checkpoint import Critic
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import Pools, fit_without
from harness_core.learners.data import GroupPool, TransitionPool
from harness_core.learners.networks import NetworkSpec

Teachers = Mapping[frozenset[int], Critic]
"""Folds that it never saw → teacher."""

_LOG: Final = logging.getLogger("harness")
_MIN_FOLDS: Final = 3
_ROWS_AT_ONCE: Final = 8192


def fit_teachers(
    pools: Pools,
    folds: Mapping[int, Critic],
    spec: NetworkSpec,
    config: TrainConfig,
    *,
    keep_at: Mapping[str, int] | None = None,
) -> dict[frozenset[int], Critic]:
    """The teachers of the folds, and for each pair of folds one that saw neither.

    `keep_at` says after how many updates, where that was found already: a scout costs as much as
    the model.

    Raises:
        NoDataError: there are fewer than three folds, so nothing is outside a pair.
    """
    if pools.n_folds < _MIN_FOLDS:
        raise NoDataError(
            f"distillation needs tasks in at least {_MIN_FOLDS} folds, found {pools.n_folds}; "
            "raise transitions.split.n_folds or import more tasks"
        )
    teachers = {frozenset({fold}): critic for fold, critic in folds.items()}
    pairs = list(combinations(range(pools.n_folds), 2))
    for number, pair in enumerate(pairs):
        _LOG.info("distil: teacher %d of %d", number + 1, len(pairs))
        fitted = fit_without(pools, frozenset(pair), spec, config, keep_at=keep_at)
        teachers[frozenset(pair)] = Critic(fitted.network, fitted.trees, fitted.linear)
    return teachers


class Calibration(NamedTuple):
    """P(success) = σ(slope · logit + intercept)."""

    slope: float
    intercept: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftTargets:
    """The targets of every student; called as `learners.crossfit.Retarget`."""

    pools: Pools
    """The same groups and transitions as the student's, in the features of the teacher."""
    teachers: Teachers
    calibration: Mapping[int | None, Calibration]
    """Fold left out (None: no fold) → calibration of teachers, fitted on the other folds."""
    weight: float
    ended: Flags  # [N] transitions of runs whose end is known; only those have a return

    @torch.no_grad()
    def __call__(self, pools: Pools, without: int | None) -> Pools:
        """The student's pools with the targets of the student without a fold."""
        for ours, theirs in (
            (pools.attempts, self.pools.attempts),
            (pools.steps, self.pools.steps),
        ):
            assert (ours is None) == (theirs is None)
            assert ours is None or theirs is None or len(ours.label) == len(theirs.label)
        return replace(
            pools,
            transitions=self._transitions(pools.transitions, without),
            attempts=self._attempts(pools.attempts, without),
            steps=self._steps(pools.steps, without),
        )

    def _attempts(self, pool: GroupPool | None, without: int | None) -> GroupPool | None:
        theirs = self.pools.attempts
        if pool is None or theirs is None:
            return None
        soft, calibration = theirs.label.clone(), self.calibration[without]
        for teacher, tasks in self._by_teacher(without):
            for rows in _parts(_rows_of(theirs, tasks)):
                state = theirs.state[theirs.source_row[rows]]
                logits = teacher.terminal(torch.cat([state, theirs.other[rows]], dim=1).numpy())
                margin = calibration.slope * torch.from_numpy(logits) + calibration.intercept
                soft[rows] = torch.sigmoid(margin)
        return self._mixed(pool, soft, weight=0.0)

    def _steps(self, pool: GroupPool | None, without: int | None) -> GroupPool | None:
        theirs = self.pools.steps
        if pool is None or theirs is None:
            return None
        soft = theirs.label.clone()
        for teacher, tasks in self._by_teacher(without):
            for rows in _parts(_rows_of(theirs, tasks)):
                state = theirs.state[theirs.source_row[rows]]
                total = teacher.q(state.numpy(), theirs.other[rows].numpy()).sum(axis=1)
                network = teacher.network
                distance = torch.from_numpy(total) - network.total(network.return_shift)
                soft[rows] = torch.sigmoid(distance / network.total_scale())
        return self._mixed(pool, soft, weight=self.weight)

    def _mixed(self, pool: GroupPool, soft: Tensor, *, weight: float) -> GroupPool:
        """Labels of both; where the outcome is unknown the teacher's word alone."""
        label = torch.where(pool.known, torch.lerp(pool.label, soft, weight), soft)
        known = pool.known if self.weight == 0.0 else torch.ones_like(pool.known)
        return replace(pool, label=label, known=known)

    def _transitions(self, pool: TransitionPool, without: int | None) -> TransitionPool:
        """Every row is worth what the teacher says of it, mixed with the return of its run.

        The return of a run that was cut off is not known, so there the teacher speaks alone.
        """
        if self.weight == 0.0:
            return pool
        theirs = self.pools.transitions
        target = pool.returns.clone()
        share = torch.where(torch.from_numpy(self.ended), self.weight, 1.0)[:, None]
        for teacher, tasks in self._by_teacher(without):
            chosen = np.isin(self.pools.transition_task, sorted(tasks))
            for rows in _parts(np.flatnonzero(chosen)):
                # Not `teacher.q`: there a component of weight 0 is 0, and yet it is learnt.
                q = teacher.network.q(theirs.state[rows], theirs.action[rows]).amin(dim=0)
                target[rows] = torch.lerp(pool.returns[rows], q, share[rows])
        target = target * pool.mask
        return replace(
            pool, rewards=target, returns=target, discount=torch.zeros_like(pool.discount)
        )

    def _by_teacher(self, without: int | None) -> Iterator[tuple[Critic, frozenset[str]]]:
        """Each teacher with the tasks that it scores; those of fold `without` are left out."""
        for fold in range(self.pools.n_folds):
            if fold != without:
                unseen = frozenset({fold} if without is None else {fold, without})
                own = [task for task, (its, _) in self.pools.fold_and_split.items() if its == fold]
                yield self.teachers[unseen], frozenset(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What a student is given."""

    targets: SoftTargets
    teacher: str
    """Digest of the teacher's manifest."""

    @property
    def key(self) -> str:
        """What else than the student's own data decides how it turns out."""
        return f"{self.teacher} {self.targets.weight}"


def _rows_of(pool: GroupPool, tasks: frozenset[str]) -> Integers:
    return pool.restrict(np.isin(pool.task_id, sorted(tasks))).rows()


def _parts(rows: Integers) -> Iterator[Tensor]:
    """Rows in portions that fit into memory whatever their number."""
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        yield torch.from_numpy(rows[first : first + _ROWS_AT_ONCE])
