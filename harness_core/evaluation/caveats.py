"""What a reader must know before believing the numbers, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness_core.evaluation.config import EvaluationConfig
from harness_core.evaluation.labels import selector_label
from harness_core.features.batch import DecisionGroup
from harness_core.trajectories.vocabulary import GroupKind, Split

_FEW_TASKS = 30


def caveats(
    result: Mapping[str, Any], groups: Sequence[DecisionGroup], config: EvaluationConfig
) -> list[str]:
    """Sentences about leaks, thin data and labels that cannot be trusted."""
    return [*_about_labels(result, groups), *_about_tasks(result, groups, config)]


def _about_labels(result: Mapping[str, Any], groups: Sequence[DecisionGroup]) -> Iterator[str]:
    if not all(group.trusted for group in groups):
        yield (
            "Some labels were graded without isolation: a candidate could have changed its own "
            "grade."
        )
    missing = result["n_attempts_without_outcome"]
    if missing:
        yield f"{missing} attempts have no known outcome and were left out."


def _about_tasks(
    result: Mapping[str, Any], groups: Sequence[DecisionGroup], config: EvaluationConfig
) -> Iterator[str]:
    if result["steps_auc_warning"]:
        yield (
            f"Stop leak: the number of steps alone tells winners from losers with an AUC of "
            f"{result['steps_auc']:.2f} (limit {config.max_steps_auc:.2f}). How attempts ended "
            "gives the answer away; believe the figures at equal steps rather than best-of-K."
        )
    attempts = [group for group in groups if group.kind is GroupKind.ATTEMPT]
    n_choices = len({group.task_id for group in attempts if group.size > 1})
    if not n_choices:
        yield "No task has two attempts with known outcomes: there was nothing to choose between."
    elif n_choices < _FEW_TASKS:
        yield f"Only {n_choices} tasks offer a choice: intervals are wide."
    if attempts and not any(group.split is Split.TEST for group in attempts):
        yield "The frozen test slice is empty: no comparison with the champion is possible."
    headline = result["headline"]
    better = [
        (row["difference"], name)
        for name, row in headline["versus"].items()
        if row["high"] < 0  # false for NaN: one task says nothing
    ]
    if better:
        difference, name = min(better)
        yield (
            f"{selector_label(name)} alone is reliably better than the controller at "
            f"K = {headline['size']}, by {100 * -difference:.1f} points."
        )
    chart = result["over_optimisation"]
    if chart["k"] and chart["k_max"] < max(map(int, chart["k"])):
        yield f"Over-optimised: {chart['reading']}"
    if headline["n_tasks"] and headline["oracle"] - headline["random"] <= 0:
        yield "There is no headroom: in each task all attempts succeed or all fail."
