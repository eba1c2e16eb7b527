"""Policies over structural actions as scorers of candidates: Yi & Song's AWR and its relatives.

AWR of Yi & Song (2026), written from the formula: the advantage A of a run is its return minus the
mean return of the runs of its task, every step of a run has the weight clip(exp(A / 0.2), 0.1, 10),
and a perceptron with one hidden layer of 64 learns the structural action of each step from plain
numbers of the state, by weighted cross-entropy (Adam, 10⁻³, 20 epochs).

Such a policy says what the harness should do next, not which candidate is right. As a scorer it
gives log π(submit | s_T): how much a run that ended in this state should be handed in. In logs of
single steps every run is handed in from the same kind of state, so that it has little to say there.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.selection.blocks import counts, everything
from benchmarks.selection.crossfitting import MAX_ROWS, by_fold, one_thread
from benchmarks.selection.networks import ends
from benchmarks.selection.pack import Pack
from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset
from harness_core.features.batch import Flags, Floats, Integers, TransitionArrays
from harness_core.learners.networks import N_KINDS
from harness_core.learners.returns import return_advantage
from harness_core.rewards.table import COMPONENTS, OF_THE_END
from harness_core.trajectories.vocabulary import ActionKind

_TEMPERATURE: Final = 0.2
_MIN_WEIGHT, _MAX_WEIGHT = 0.1, 10.0
_N_HIDDEN: Final = 64
_N_EPOCHS: Final = 20
_LEARNING_RATE: Final = 1e-3
_BATCH: Final = 256
_LEAST: Final = 1e-30
"""A policy that rules an action out still gives it a finite score."""

_SUBMIT: Final = tuple(ActionKind).index(ActionKind.SUBMIT)

Weigh = Callable[[Floats, TransitionArrays, Flags], Floats]
"""From outcomes of runs [N], all transitions and the rows meant to weights of those rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """π(structural action | state), for one fold."""

    scaler: StandardScaler
    model: MLPClassifier
    columns: Integers

    def log_submit(self, states: Floats) -> Floats:
        rows = self.scaler.transform(states[:, self.columns])
        place = self.model.classes_.tolist().index(_SUBMIT)
        policy = self.model.predict_proba(rows)[:, place]
        return np.asarray(np.log(np.maximum(policy, _LEAST)), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class SubmitScores:
    """log π(submit | s_T) of the policy that never saw the fold."""

    policies: dict[int, _Policy]

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of each subset."""
        return by_fold(subsets, self._of_fold)

    def _of_fold(self, fold: int, members: Sequence[Subset]) -> Floats:
        with one_thread():
            return self.policies[fold].log_submit(ends(members))


def awr(pack: Pack, seed: int) -> Selector | None:
    """Yi & Song's, on the plain numbers of a state, as they have it."""
    return _cloned(pack, seed, counts(pack.schema), _by_advantage)


def awr_on_all_features(pack: Pack, seed: int) -> Selector | None:
    """The same on everything that our networks see of a state."""
    return _cloned(pack, seed, everything(pack.schema), _by_advantage)


def reward_weighted(pack: Pack, seed: int) -> Selector | None:
    """Cloning weighted by the return itself: only runs that succeeded are imitated."""
    return _cloned(pack, seed, everything(pack.schema), _by_return)


def outcomes(arrays: TransitionArrays) -> Floats:
    """Final outcome of the run that each row belongs to, [N]; NaN where it is not known."""
    if not len(arrays.trajectory):
        return np.zeros(0, dtype=np.float32)
    of_the_end = arrays.rewards[:, [COMPONENTS.index(name) for name in OF_THE_END]]
    paid = np.where(np.isnan(of_the_end), -np.inf, of_the_end).max(axis=1)
    starts = np.flatnonzero(np.diff(arrays.trajectory, prepend=arrays.trajectory[0] - 1))
    best = np.maximum.reduceat(paid, starts)
    lengths = np.diff(np.append(starts, len(paid)))
    return np.repeat(np.where(np.isfinite(best), best, np.nan), lengths).astype(np.float32)


def _by_advantage(outcome: Floats, arrays: TransitionArrays, rows: Flags) -> Floats:
    advantage = return_advantage(outcome[rows], arrays.trajectory[rows], arrays.task_id[rows])
    weight = np.exp(advantage.astype(np.float64) / _TEMPERATURE)
    return np.clip(weight, _MIN_WEIGHT, _MAX_WEIGHT).astype(np.float32)


def _by_return(
    outcome: Floats,
    arrays: TransitionArrays,  # noqa: ARG001  # part of the interface
    rows: Flags,
) -> Floats:
    return np.maximum(outcome[rows], 0.0)


def _structural(arrays: TransitionArrays) -> Integers:
    """What each row does, as a place in `ActionKind`: its intervention, else its kind.

    Interventions stand in newer feature folders; −1 is an action that the harness could not take.
    """
    if np.any(arrays.intervention >= 0):
        return arrays.intervention
    return np.asarray(arrays.action[:, :N_KINDS].argmax(axis=1))


def _cloned(pack: Pack, seed: int, columns: Integers, weigh: Weigh) -> Selector | None:
    """A policy for each fold; None where nothing but one action is worth imitating."""
    arrays = pack.transitions
    outcome, action = outcomes(arrays), _structural(arrays)
    usable = ~np.isnan(outcome) & (action >= 0)
    policies: dict[int, _Policy] = {}
    for fold in sorted({group.fold for group in pack.groups}):
        rows = usable & (arrays.fold != fold)
        weight = weigh(outcome, arrays, rows) if rows.any() else np.zeros(0, dtype=np.float32)
        at = np.flatnonzero(rows)[weight > 0]
        if len(np.unique(action[at])) < 2 or _SUBMIT not in action[at]:  # noqa: PLR2004  # a choice
            return None
        kept = _at_most(len(at), seed=seed)
        policies[fold] = _fit(
            arrays.state[at[kept]], action[at[kept]], weight[weight > 0][kept], columns, seed
        )
    return SubmitScores(policies)


def _at_most(n_rows: int, *, seed: int) -> Integers:
    order = np.random.default_rng(seed).permutation(n_rows)[:MAX_ROWS]
    return np.sort(order)


def _fit(states: Floats, action: Integers, weight: Floats, columns: Integers, seed: int) -> _Policy:
    scaler = StandardScaler().fit(states[:, columns])
    model: Any = MLPClassifier(
        hidden_layer_sizes=(_N_HIDDEN,),
        learning_rate_init=_LEARNING_RATE,
        batch_size=min(_BATCH, len(states)),
        alpha=0.0,
        max_iter=_N_EPOCHS,
        random_state=seed,
    )
    with one_thread(), warnings.catch_warnings():
        # So many epochs and no more is the method.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Weights are relative to their mean, so that the step size means the same for all packs.
        rows = scaler.transform(states[:, columns])
        model.fit(rows, action, sample_weight=_relative(weight))
    return _Policy(scaler=scaler, model=model, columns=columns)


def _relative(weight: Floats) -> Doubles:
    return weight.astype(np.float64) / float(weight.mean())
