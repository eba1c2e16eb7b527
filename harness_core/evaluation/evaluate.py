"""A model judged on tasks that it never saw: everything that `evaluation.json` says."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness_core.controller.manifest import read_manifest
from harness_core.errors import NoDataError
from harness_core.evaluation.baselines import available_baselines
from harness_core.evaluation.boosted_trees import fit_boosted_trees
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.calibration import reliability
from harness_core.evaluation.caveats import caveats
from harness_core.evaluation.config import EvaluationConfig
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import json_ready, steps_auc, within_task_auc
from harness_core.evaluation.model_folders import load_model
from harness_core.evaluation.over_optimisation import over_optimisation
from harness_core.evaluation.running import running_attempts
from harness_core.evaluation.selection import RANDOM, SELECTED, Outcomes, Selector, judge, merge
from harness_core.evaluation.subsets import Subset, draw_subsets, labelled, whole
from harness_core.evaluation.summary import dangerous_share, repeat_spread, rows_by, summary_row
from harness_core.features.batch import DecisionGroup, TransitionArrays
from harness_core.trajectories.vocabulary import GroupKind, Split

ALL = "all"


@dataclass(frozen=True, slots=True)
class _Tables:
    """Outcomes of attempt groups for each K, and at the headline K (or all, where fewer)."""

    by_size: Mapping[str, Outcomes]
    headline: Outcomes


def evaluate_groups(
    judged: CrossFit,
    groups: Sequence[DecisionGroup],
    config: EvaluationConfig,
    *,
    transitions: TransitionArrays | None = None,
    with_trees: bool = True,
) -> dict[str, Any]:
    """Everything that `evaluation.json` holds, as plain JSON values.

    Raises:
        NoDataError: no candidate has a known outcome.
    """
    known = labelled(groups)
    if not known:
        raise NoDataError("no candidate has a known outcome: there is nothing to judge by")
    attempts = [group for group in known if group.kind is GroupKind.ATTEMPT]
    steps = [group for group in known if group.kind is GroupKind.STEP and group.size > 1]
    bootstrap = Bootstrap(
        n_resamples=config.n_resamples, confidence=config.confidence, seed=config.seed
    )
    tables = _tables(attempts, _selectors(judged, attempts, config, with_trees=with_trees), config)
    whole_attempts = whole(attempts)
    own = within_task_auc(attempts, judged.scores(whole_attempts))
    leak = steps_auc(attempts)
    danger = tables.by_size[ALL]
    in_test = {group.group_id for group in attempts if group.split is Split.TEST}
    result: dict[str, Any] = {
        "k": {size: summary_row(part, bootstrap) for size, part in tables.by_size.items()},
        "headline": {"size": config.headline_size, **summary_row(tables.headline, bootstrap)},
        "test_slice": {
            size: summary_row(part.where([name in in_test for name in part.group_id]), bootstrap)
            for size, part in tables.by_size.items()
        },
        "by_source": rows_by(tables.headline, bootstrap, lambda part: part.source),
        "by_family": rows_by(tables.headline, bootstrap, lambda part: part.family),
        "within_task_auc": _mean(own),
        "within_task_auc_interval": list(_interval(own, bootstrap)),
        "steps_auc": _mean(leak),
        "steps_auc_warning": bool(_mean(leak) > config.max_steps_auc),
        "dangerous_before": dangerous_share(danger, RANDOM),
        "dangerous_after": dangerous_share(danger, SELECTED),
        "tokens": _tokens(attempts, tables.headline, config.headline_size),
        "variance": repeat_spread(tables.headline),
        "calibration": _calibration(judged, whole_attempts),
        "over_optimisation": {
            **_over_optimisation(judged, attempts, config, bootstrap),
            "k_max_of_model": judged.k_max,
        },
        "step_groups": _step_groups(judged, steps, bootstrap),
        "running_attempts": (
            running_attempts(judged, transitions) if transitions is not None else None
        ),
        "n_tasks": len({group.task_id for group in known}),
        "n_attempts": sum(group.size for group in attempts),
        "n_attempts_without_outcome": _n_unlabelled(groups),
    }
    result["warnings"] = caveats(result, known, config)
    ready: dict[str, Any] = json_ready(result)
    return ready


def evaluate_model(
    model_folder: Path, groups: Sequence[DecisionGroup], config: EvaluationConfig
) -> dict[str, Any]:
    """One model on logs that it was never trained on.

    Tasks that it may have learnt from are left out and counted. There are no boosted trees beside
    it, because trees would have to learn from these very logs.

    Raises:
        NoDataError: all tasks were seen in training, or no candidate has a known outcome.
    """
    manifest = read_manifest(model_folder)
    seen = set(manifest.development_tasks)
    unseen = [group for group in groups if group.task_id not in seen]
    if groups and not unseen:
        raise NoDataError(
            f"the model in {model_folder} may have learnt from every one of these tasks; "
            "evaluate it on other logs"
        )
    judged = CrossFit(final=load_model(model_folder), k_max=manifest.k_max)
    result = evaluate_groups(judged, unseen, config, with_trees=False)
    n_seen = len({group.task_id for group in groups}) - len({group.task_id for group in unseen})
    result["n_tasks_seen_in_training"] = n_seen
    if n_seen:
        result["warnings"].append(
            f"{n_seen} tasks were left out, since the model may have learnt from them."
        )
    return result


def _selectors(
    judged: CrossFit, groups: Sequence[DecisionGroup], config: EvaluationConfig, *, with_trees: bool
) -> dict[str, Selector]:
    selectors: dict[str, Selector] = {SELECTED: judged.controller, **available_baselines(groups)}
    trees = (
        fit_boosted_trees(groups, group_sizes=config.group_sizes, seed=config.seed)
        if with_trees
        else None
    )
    return selectors if trees is None else {**selectors, "boosted_trees": trees}


def _tables(
    groups: Sequence[DecisionGroup], selectors: Mapping[str, Selector], config: EvaluationConfig
) -> _Tables:
    by_size = {
        str(size): judge(
            draw_subsets(groups, size=size, n_subsets=config.n_subsets, seed=config.seed),
            selectors,
            n_repeats=config.n_subsets,
        )
        for size in sorted({*config.group_sizes, config.headline_size})
    }
    by_size[ALL] = judge(whole(groups), selectors, n_repeats=config.n_subsets)
    headline = merge(by_size[str(config.headline_size)], by_size[ALL])
    shown = {str(size) for size in config.group_sizes} | {ALL}
    return _Tables({size: part for size, part in by_size.items() if size in shown}, headline)


def _step_groups(
    judged: CrossFit, groups: Sequence[DecisionGroup], bootstrap: Bootstrap
) -> dict[str, Any] | None:
    """Selection inside logged candidate sets, K as logged; `taken` is what the agent took."""
    if not groups:
        return None

    def taken(subsets: Sequence[Subset]) -> list[Any]:
        return [subset.group.is_taken[subset.index].astype(np.float32) for subset in subsets]

    selectors = {SELECTED: judged.controller, "taken": taken, **available_baselines(groups)}
    outcomes = judge(whole(groups), selectors)
    return {
        **summary_row(outcomes, bootstrap),
        "mean_size": float(np.mean([group.size for group in groups])),
        "dangerous_before": dangerous_share(outcomes, "taken"),
        "dangerous_after": dangerous_share(outcomes, SELECTED),
    }


def _over_optimisation(
    judged: CrossFit,
    attempts: Sequence[DecisionGroup],
    config: EvaluationConfig,
    bootstrap: Bootstrap,
) -> dict[str, Any]:
    chart = over_optimisation(judged, attempts, n_subsets=config.n_subsets, bootstrap=bootstrap)
    return chart.figures()


def _calibration(judged: CrossFit, subsets: Sequence[Subset]) -> dict[str, Any]:
    if not subsets:
        return reliability([], [])
    probability = np.concatenate(judged.probabilities(subsets))
    return reliability(probability, np.concatenate([subset.success for subset in subsets]))


def _tokens(groups: Sequence[DecisionGroup], headline: Outcomes, size: int) -> dict[str, float]:
    """Tokens spent for one solved task: with the first attempt only, and with K and selection."""
    nothing = dict.fromkeys(
        ("mean_per_attempt", "per_success_first", "per_success_selected"), math.nan
    )
    spent = {
        group.group_id: group.n_tokens.astype(np.float64)
        for group in groups
        if group.size and (group.n_tokens > 0).all()
    }
    if not spent:
        return nothing
    part = headline.where([name in spent for name in headline.group_id])
    first = np.array([spent[name][0] for name in part.group_id])
    first_label = {group.group_id: float(group.success[0]) for group in groups}
    k_cost = np.array([min(size, len(spent[n])) * spent[n].mean() for n in part.group_id])
    return {
        "mean_per_attempt": float(np.concatenate(list(spent.values())).mean()),
        "per_success_first": _ratio(first.sum(), sum(first_label[n] for n in part.group_id)),
        "per_success_selected": _ratio(k_cost.sum(), part.column(SELECTED).sum()),
    }


def _ratio(cost: float, successes: float) -> float:
    return float(cost / successes) if successes > 0 else math.nan


def _mean(per_task: Mapping[str, float]) -> float:
    return float(np.mean(list(per_task.values()))) if per_task else math.nan


def _interval(per_task: Mapping[str, float], bootstrap: Bootstrap) -> tuple[float, float]:
    found = bootstrap.mean(per_task, name="within_task_auc")
    return found.low, found.high


def _n_unlabelled(groups: Sequence[DecisionGroup]) -> int:
    return int(
        sum(np.isnan(group.success).sum() for group in groups if group.kind is GroupKind.ATTEMPT)
    )
