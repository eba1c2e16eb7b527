"""What lies behind a table of picks: leaks, ranking within tasks, and whether beliefs are true."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.selection.crossfitting import Believer
from benchmarks.selection.pack import Pack
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.calibration import reliability
from harness_core.evaluation.metrics import json_ready, steps_auc, within_task_auc
from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset, whole

_LEAK: Final = "steps"


def diagnose(pack: Pack, selectors: Mapping[str, Selector], bootstrap: Bootstrap) -> dict[str, Any]:
    """Figures of complete attempts in their whole groups, as plain JSON values.

    `steps_auc` is that of −steps: above ½, how attempts ended tells who won. A method that says
    how likely success is has a reliability: the predicted and the observed rate by bins of equal
    count, their distance (`ece`) and the Brier score.
    """
    subsets = whole(pack.groups)
    figures: dict[str, Any] = json_ready(
        {
            "steps_auc": _mean(steps_auc(pack.groups), bootstrap),
            "methods": {
                name: {
                    "within_task_auc": _mean(
                        within_task_auc(pack.groups, selector(subsets)), bootstrap
                    ),
                    "reliability": _reliability(selector, subsets),
                }
                for name, selector in selectors.items()
            },
        }
    )
    return figures


def _mean(per_task: Mapping[str, float], bootstrap: Bootstrap) -> dict[str, float]:
    found = bootstrap.mean(per_task, name=_LEAK)
    return {"mean": found.value, "low": found.low, "high": found.high, "n_tasks": found.n}


def _reliability(selector: Selector, subsets: Sequence[Subset]) -> dict[str, Any] | None:
    """None for a method whose scores are no probabilities."""
    if not isinstance(selector, Believer) or not subsets:
        return None
    label = np.concatenate([subset.success for subset in subsets])
    return reliability(np.concatenate(selector.probabilities(subsets)), label)
