"""Models of the folds of one log: each judges the tasks that it never saw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.actions.logs import ActionLog
from benchmarks.kept_models import kept_models, model_key
from harness_core.controller.combination import Combination
from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.features.batch import Floats
from harness_core.features.set_relative import set_relative
from harness_core.learners.checkpoint import Critic
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import fit_folds
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.trainer import Fitted
from harness_core.params import Params
from harness_core.rewards.table import COMPONENTS, OF_THE_END


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldModels:
    """Critic and stage two of fold f never saw the tasks of fold f."""

    critics: tuple[Critic, ...]
    combinations: tuple[Combination, ...]
    spec: NetworkSpec

    def success_value(self, log: ActionLog) -> Floats:
        """What V expects of the end of the run, [N], in units of one success."""
        columns = [COMPONENTS.index(name) for name in OF_THE_END]
        unit = max(abs(self.spec.weights[column]) for column in columns) or 1.0
        values = _by_fold(
            log, self.critics, lambda critic, rows: critic.value(log.transitions.state[rows])
        )
        return np.asarray(values[:, columns].sum(axis=1) / unit, dtype=np.float32)

    def log_policy(self, log: ActionLog) -> Floats:
        """Log-probability of every intervention in every state, [N, kinds]."""
        return _log_policy(log, self.critics)


def fit_models(log: ActionLog, params: Params, *, actor: str) -> FoldModels:
    """One model a fold, whose actor is learnt as `actor` says.

    Where the same one was trained for another benchmark, it is taken instead.
    """
    train, spec, folds = _fit(log, params, actor=actor)
    scored = OutOfFold(log.groups, folds, train)
    return FoldModels(
        critics=tuple(Critic(fitted.network) for fitted in folds),
        combinations=tuple(scored.combination(fold) for fold in range(len(folds))),
        spec=spec,
    )


def fit_policy(log: ActionLog, params: Params, *, actor: str) -> Floats:
    """What `FoldModels.log_policy` gives, of models that are asked for nothing else."""
    _, _, folds = _fit(log, params, actor=actor)
    return _log_policy(log, [Critic(fitted.network) for fitted in folds])


def _fit(
    log: ActionLog, params: Params, *, actor: str
) -> tuple[TrainConfig, NetworkSpec, tuple[Fitted, ...]]:
    train = params.train.model_copy(update={"actor": actor})
    spec = network_spec(log.groups, train, params.rewards.weights.model_dump())
    folds = _kept(log, spec, train) or fit_folds(
        log.groups, log.transitions, spec, train, set_relative=set_relative
    )
    return train, spec, folds


def _kept(log: ActionLog, spec: NetworkSpec, train: TrainConfig) -> tuple[Fitted, ...] | None:
    if log.root is None:
        return None
    n_folds = 1 + max(group.fold for group in log.groups)
    key = model_key(log.groups, log.transitions, spec, train)
    return kept_models(log.root, key, n_folds=n_folds)


def _log_policy(log: ActionLog, critics: Sequence[Critic]) -> Floats:
    arrays = log.transitions
    return _by_fold(
        log, critics, lambda critic, rows: critic.policy(arrays.state[rows], arrays.legal[rows])
    )


def _by_fold(
    log: ActionLog,
    critics: Sequence[Critic],
    judge: Callable[[Critic, Sequence[int]], Floats],
) -> Floats:
    """Rows [N, …] judged by the critics that never saw them."""
    fold = log.transitions.fold
    parts = {f: np.flatnonzero(fold == f) for f in range(len(critics))}
    judged = {f: judge(critics[f], rows.tolist()) for f, rows in parts.items()}
    width = judged[0].shape[1:]
    result = np.zeros((len(fold), *width), dtype=np.float32)
    for f, rows in parts.items():
        result[rows] = judged[f]
    return result
