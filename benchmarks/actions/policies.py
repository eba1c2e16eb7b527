"""What replay can say of a policy over interventions, on tasks that its model never saw.

A log holds the outcome of what was done, not of what a policy would have done instead. So three
things are reported and kept apart: how often a policy agrees with the log (which is imitation, not
success); how runs ended in which every step was the policy's, beside the other runs at the same
task; and an off-policy estimate, only where enough of the log's weight is left to speak of one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.actions.logs import ActionLog
from harness_core.controller.steering import forced_check
from harness_core.controller.stopping import Doubles
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import mean_by_task
from harness_core.features.batch import Flags, Floats, Integers
from harness_core.trajectories.vocabulary import ActionKind

BEHAVIOUR: Final = "bc"
"""The policy that stands for what the agents did."""
FORCED_CHECK: Final = "forced_check"
MOST_FREQUENT: Final = "most_frequent"
_KINDS: Final = tuple(ActionKind)
_MIN_LOG: Final = -20.0
_MIN_EFFECTIVE_SHARE: Final = 0.1
_MAX_WEIGHT_SHARE: Final = 0.05


class Replayed(NamedTuple):
    """One policy on N steps."""

    choice: Integers  # [N] its most likely intervention
    log_policy: Floats | None  # [N, kinds]; None for a rule that gives no probabilities


def replay_policies(
    log: ActionLog, log_policies: Mapping[str, Floats], *, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Every learnt policy, the most frequent intervention and Forced-CHECK, on one log."""
    arrays = log.transitions
    known = arrays.intervention >= 0
    policies = {
        **{name: Replayed(_argmax(rows), rows) for name, rows in log_policies.items()},
        MOST_FREQUENT: Replayed(_most_frequent(log), None),
    }
    policies[FORCED_CHECK] = Replayed(_forced(log, policies[BEHAVIOUR].choice), None)
    counts = np.bincount(arrays.intervention[known], minlength=len(_KINDS))
    return {
        "n_steps": int(known.sum()),
        "n_steps_unknown": int((~known).sum()),
        "logged": {kind.value: int(n) for kind, n in zip(_KINDS, counts, strict=True) if n},
        "policies": {
            name: _figures(log, policy, log_policies[BEHAVIOUR], bootstrap)
            for name, policy in policies.items()
        },
        "tested_before_submit": _tested(log, bootstrap),
    }


def _figures(
    log: ActionLog, policy: Replayed, behaviour: Floats, bootstrap: Bootstrap
) -> dict[str, Any]:
    arrays = log.transitions
    open_to = arrays.legal.sum(axis=1) > 1
    chosen = (arrays.intervention >= 0) & open_to
    agrees = policy.choice == arrays.intervention
    per_task = mean_by_task(
        zip(arrays.task_id[chosen].tolist(), agrees[chosen].astype(float).tolist(), strict=True)
    )
    agreement = bootstrap.mean(per_task, name="agreement")
    figures: dict[str, Any] = {
        "agreement": {"mean": agreement.value, "low": agreement.low, "high": agreement.high},
        "agreement_by_intervention": {
            kind.value: float(agrees[chosen & (arrays.intervention == index)].mean())
            for index, kind in enumerate(_KINDS)
            if (chosen & (arrays.intervention == index)).any()
        },
        "runs_it_would_have_made": _followed(log, agrees | ~open_to, bootstrap),
    }
    if policy.log_policy is not None:
        taken = _log_taken(log, policy.log_policy)
        figures["log_likelihood"] = float(taken[chosen].mean()) if chosen.any() else None
        figures["off_policy"] = _off_policy(log, policy.log_policy, behaviour, bootstrap)
    return figures


def _followed(log: ActionLog, agrees: Flags, bootstrap: Bootstrap) -> dict[str, Any]:
    """Success of runs whose every step was the policy's, minus that of others at the task."""
    of_run = [(rows, bool(agrees[rows].all())) for rows in _complete_runs(log)]
    followed = [(rows, log.outcome[rows[0]]) for rows, follows in of_run if follows]
    others = [(rows, log.outcome[rows[0]]) for rows, follows in of_run if not follows]
    return {
        "n_runs": len(followed),
        "success": float(np.mean([end for _, end in followed])) if followed else None,
        "success_of_others": float(np.mean([end for _, end in others])) if others else None,
        "within_task_difference": _difference(log, followed, others, bootstrap),
    }


def _tested(log: ActionLog, bootstrap: Bootstrap) -> dict[str, Any]:
    """Runs that tested after their last answer, beside those that could have and did not.

    What Forced-CHECK would add is only seen in logs whose agents do both.
    """
    test = _KINDS.index(ActionKind.TEST)
    answers = [_KINDS.index(kind) for kind in (ActionKind.DRAFT, ActionKind.REVISE)]
    with_test: list[tuple[Integers, float]] = []
    without: list[tuple[Integers, float]] = []
    for rows in _complete_runs(log):
        taken = log.transitions.intervention[rows]
        if not log.transitions.legal[rows, test].any():
            continue
        last_answer = np.flatnonzero(np.isin(taken, answers))
        after = taken[last_answer[-1] + 1 :] if len(last_answer) else taken
        target = with_test if (after == test).any() else without
        target.append((rows, float(log.outcome[rows[0]])))
    return {
        "n_with": len(with_test),
        "n_without": len(without),
        "within_task_difference": _difference(log, with_test, without, bootstrap),
    }


def _off_policy(
    log: ActionLog, target: Floats, behaviour: Floats, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Self-normalised importance sampling of whole runs, against the cloned behaviour policy.

    No estimate where fewer than a tenth of the runs carry the weight, or one carries a twentieth.
    """
    runs = list(_complete_runs(log))
    if not runs:
        return {"not_estimated": "no run of known interventions has a known outcome"}
    ratio = _log_taken(log, target) - _log_taken(log, behaviour)
    weight = np.exp(np.clip([ratio[rows].sum() for rows in runs], _MIN_LOG, -_MIN_LOG))
    effective = float(weight.sum() ** 2 / (weight**2).sum()) / len(runs)
    largest = float(weight.max() / weight.sum())
    overlap = {"effective_share": effective, "largest_weight": largest, "n_runs": len(runs)}
    if effective < _MIN_EFFECTIVE_SHARE or largest > _MAX_WEIGHT_SHARE:
        return {**overlap, "not_estimated": "too little overlap with the log"}
    outcome = np.array([log.outcome[rows[0]] for rows in runs], dtype=np.float64)
    tasks, place = np.unique(
        [log.transitions.task_id[rows[0]] for rows in runs], return_inverse=True
    )
    paid = np.bincount(place, weights=weight * outcome, minlength=len(tasks))
    total = np.bincount(place, weights=weight, minlength=len(tasks))
    sampled = bootstrap.means(np.stack([paid, total], axis=1))
    interval = bootstrap.interval(sampled[:, 0] / sampled[:, 1])
    return {
        **overlap,
        "success": float(paid.sum() / total.sum()),
        "low": interval.low,
        "high": interval.high,
        "logged_success": float(outcome.mean()),
    }


def _complete_runs(log: ActionLog) -> Iterator[Integers]:
    """Rows of each run with a known outcome and known interventions throughout."""
    arrays = log.transitions
    run = arrays.trajectory
    for rows in np.split(np.arange(len(run)), np.flatnonzero(np.diff(run)) + 1):
        known = len(rows) > 0 and bool((arrays.intervention[rows] >= 0).all())
        if known and not np.isnan(log.outcome[rows[0]]):
            yield rows


def _difference(
    log: ActionLog,
    one: list[tuple[Integers, float]],
    other: list[tuple[Integers, float]],
    bootstrap: Bootstrap,
) -> dict[str, Any]:
    """Mean over tasks that have runs of both sorts; NaN where there is none."""
    means = [
        mean_by_task((str(log.transitions.task_id[rows[0]]), float(end)) for rows, end in part)
        for part in (one, other)
    ]
    common = sorted(means[0].keys() & means[1].keys())
    differences = [means[0][task] - means[1][task] for task in common]
    return {"n_tasks": len(common), **bootstrap.difference(differences)._asdict()}


def _most_frequent(log: ActionLog) -> Integers:
    """The legal intervention that the other folds took most often."""
    arrays = log.transitions
    choice = np.zeros(len(arrays.fold), dtype=np.int64)
    for fold in np.unique(arrays.fold):
        outside = (arrays.fold != fold) & (arrays.intervention >= 0)
        counts = np.bincount(arrays.intervention[outside], minlength=len(_KINDS))
        inside = arrays.fold == fold
        choice[inside] = _legal_best(np.log1p(counts)[None, :], arrays.legal[inside])
    return choice


def _forced(log: ActionLog, choice: Integers) -> Integers:
    """The cloned policy, but a test before anything untested is handed in."""
    arrays = log.transitions
    test = _KINDS.index(ActionKind.TEST)
    answers = [_KINDS.index(kind) for kind in (ActionKind.DRAFT, ActionKind.REVISE)]
    forced = choice.copy()
    is_tested, run = False, -1
    for row, taken in enumerate(arrays.intervention):
        if arrays.trajectory[row] != run:
            is_tested, run = False, arrays.trajectory[row]
        legal = tuple(kind for kind, ok in zip(_KINDS, arrays.legal[row], strict=True) if ok)
        chosen = forced_check(_KINDS[choice[row]], is_tested=is_tested, legal=legal)
        forced[row] = _KINDS.index(chosen)
        is_tested = taken == test or (is_tested and taken not in answers)
    return forced


def _argmax(log_policy: Floats) -> Integers:
    return np.asarray(log_policy.argmax(axis=1), dtype=np.int64)


def _legal_best(score: Doubles, legal: npt.NDArray[np.bool_]) -> Integers:
    allowed = np.where(legal, score, -np.inf)
    return np.asarray(allowed.argmax(axis=1), dtype=np.int64)


def _log_taken(log: ActionLog, log_policy: Floats) -> Doubles:
    """Log-probability of the logged intervention, [N]; 0 where it is not known."""
    intervention = log.transitions.intervention
    taken = log_policy[np.arange(len(intervention)), np.maximum(intervention, 0)]
    return np.where(intervention >= 0, np.maximum(taken, _MIN_LOG), 0.0)
