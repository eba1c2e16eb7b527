"""The candidate model beside what is in use, on the frozen test slice, pick by pick."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness_core.evaluation.bootstrap import Bootstrap, Difference
from harness_core.evaluation.config import EvaluationConfig, GateConfig
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.forgetting import (
    FamilyVerdict,
    PairedTasks,
    family_verdicts,
    pair_tasks,
)
from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.selection import RANDOM, SELECTED, Outcomes, judge, merge
from harness_core.evaluation.subsets import draw_subsets, labelled, whole
from harness_core.features.batch import DecisionGroup
from harness_core.trajectories.vocabulary import GroupKind, Split

Reference = Literal["behaviour", "champion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the gate decides on, all of it measured on tasks that neither model saw."""

    reference: Reference
    group_size: int
    n_tasks: int
    candidate_success: float
    reference_success: float
    difference: Difference
    candidate_dangerous: float
    reference_dangerous: float
    families: tuple[FamilyVerdict, ...]


def frozen_slice(
    groups: Sequence[DecisionGroup], *, seen_in_training: Sequence[str] = ()
) -> list[DecisionGroup]:
    """Complete attempts at tasks of the frozen test slice that no given model learnt from."""
    seen = set(seen_in_training)
    return [
        group
        for group in groups
        if group.kind is GroupKind.ATTEMPT
        and group.split is Split.TEST
        and group.task_id not in seen
    ]


def compare_with_behaviour(
    judged: CrossFit,
    groups: Sequence[DecisionGroup],
    *,
    evaluation: EvaluationConfig,
    gate: GateConfig,
) -> Comparison:
    """Against the behaviour policy: a pick at random among what it proposed."""
    outcomes = _picks(judged, groups, evaluation, gate)
    paired = pair_tasks(outcomes, SELECTED, outcomes, RANDOM)
    return _comparison("behaviour", paired, evaluation, gate)


def compare_with_champion(
    judged: CrossFit,
    groups: Sequence[DecisionGroup],
    champion: CrossFit,
    champion_groups: Sequence[DecisionGroup],
    *,
    evaluation: EvaluationConfig,
    gate: GateConfig,
) -> Comparison:
    """Against the champion, which sees the same candidates through its own feature pipeline."""
    own = _picks(judged, groups, evaluation, gate)
    other = _picks(champion, champion_groups, evaluation, gate)
    paired = pair_tasks(own, SELECTED, other, SELECTED)
    return _comparison("champion", paired, evaluation, gate)


def _picks(
    judged: CrossFit,
    groups: Sequence[DecisionGroup],
    evaluation: EvaluationConfig,
    gate: GateConfig,
) -> Outcomes:
    """Picks at K = `gate.group_size`, or among all candidates of a group that has fewer."""
    known = labelled(groups)
    selectors = {SELECTED: judged.controller}
    size = gate.group_size
    subsets = draw_subsets(known, size=size, n_subsets=evaluation.n_subsets, seed=evaluation.seed)
    small = whole([group for group in known if group.size < size])
    outcomes = merge(judge(subsets, selectors), judge(small, selectors))
    order = np.argsort(np.array(outcomes.group_id), kind="stable")
    return outcomes.take(order)


def _comparison(
    reference: Reference, paired: PairedTasks, evaluation: EvaluationConfig, gate: GateConfig
) -> Comparison:
    bootstrap = Bootstrap(
        n_resamples=evaluation.n_resamples, confidence=evaluation.confidence, seed=evaluation.seed
    )
    n_tasks = len(paired.task_id)

    def mean(values: Doubles) -> float:
        return float(values.mean()) if n_tasks else float("nan")

    return Comparison(
        reference=reference,
        group_size=gate.group_size,
        n_tasks=n_tasks,
        candidate_success=mean(paired.candidate),
        reference_success=mean(paired.reference),
        difference=bootstrap.difference(paired.difference),
        candidate_dangerous=mean(paired.candidate_dangerous),
        reference_dangerous=mean(paired.reference_dangerous),
        families=family_verdicts(paired, gate, bootstrap),
    )
