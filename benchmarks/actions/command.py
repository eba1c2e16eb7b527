"""Decisions of the harness, replayed on the runs of prepared working folders."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.actions.accept import accept_or_retry
from benchmarks.actions.logs import ActionLog, read_log
from benchmarks.actions.models import FoldModels, fit_models, fit_policy
from benchmarks.actions.policies import BEHAVIOUR, replay_policies
from benchmarks.actions.prune import prune
from benchmarks.actions.stop import stop_or_continue
from benchmarks.machine import describe_machine
from harness_core.errors import ParameterError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import json_ready, steps_auc
from harness_core.params import Params

ACTORS: Final = ("awr", "awr_returns", "bc")
SIZE: Final = 8
"""Attempts that a task is given at most."""
_MIN_TASKS: Final = 10


def parse_folders(named: Sequence[str]) -> dict[str, Path]:
    """`NAME=PATH` pairs.

    Raises:
        ParameterError: one is no such pair, its folder is missing, or a name stands twice.
    """
    folders: dict[str, Path] = {}
    for item in named:
        name, separator, path = item.partition("=")
        if not separator or not name or name in folders or not Path(path).is_dir():
            raise ParameterError(f"--workdir: expected NAME=PATH of a folder, found {item!r}")
        folders[name] = Path(path)
    return folders


def replay_actions(
    folders: Mapping[str, Path], params: Params, *, actors: Sequence[str], seed: int
) -> dict[str, Any]:
    """Everything that replay can say, log by log.

    Raises:
        NoDataError: a folder lacks the tables of a stage.
    """
    evaluation = params.evaluation
    bootstrap = Bootstrap(
        n_resamples=evaluation.n_resamples, confidence=evaluation.confidence, seed=evaluation.seed
    )
    logs = {
        name: _replay(read_log(name, folder), params, actors, bootstrap, seed=seed)
        for name, folder in folders.items()
    }
    figures: dict[str, Any] = json_ready({"machine": describe_machine(), "logs": logs})
    return figures


def _replay(
    log: ActionLog, params: Params, actors: Sequence[str], bootstrap: Bootstrap, *, seed: int
) -> dict[str, Any]:
    wanted = dict.fromkeys((*actors, BEHAVIOUR))
    first, *others = wanted
    models = fit_models(log, params, actor=first)
    # Of the others nothing but the policy is asked: trees have no part in it, nor has the head that
    # judges complete attempts, which may learn as little as it can.
    little = with_little(params)
    policies = {
        first: models.log_policy(log),
        **{name: fit_policy(log, little, actor=name) for name in others},
    }
    return {
        "n_runs": int(log.is_last.sum()),
        "n_tasks": len(set(log.transitions.task_id.tolist())),
        "auc_of_minus_steps": _mean(steps_auc(log.groups)),
        "inflated": log.has_hidden_stop,
        "accept_or_retry": _accept(log, models, bootstrap, seed=seed),
        "stop_or_continue": stop_or_continue(log, models, bootstrap=bootstrap),
        "prune": prune(log, models, size=SIZE, bootstrap=bootstrap, seed=seed),
        "policies": replay_policies(log, policies, bootstrap=bootstrap),
    }


def _accept(
    log: ActionLog, models: FoldModels, bootstrap: Bootstrap, *, seed: int
) -> dict[str, Any]:
    """With 8 attempts a task, or as many as ten tasks have."""
    sizes = sorted((group.size for group in log.groups), reverse=True)
    n_attempts = min(SIZE, sizes[_MIN_TASKS - 1] if len(sizes) >= _MIN_TASKS else 1)
    if n_attempts < 2:  # noqa: PLR2004  # nothing to choose between
        return {"not_measured": f"fewer than {_MIN_TASKS} tasks have two attempts"}
    return accept_or_retry(
        log.groups, models, n_attempts=n_attempts, bootstrap=bootstrap, seed=seed
    )


def with_little(params: Params) -> Params:
    """The parameters without boosting, and with the fewest decision groups an update."""
    trees = params.train.trees.model_copy(update={"n_trees": 0})
    train = params.train.model_copy(update={"trees": trees, "n_groups": 1})
    return params.model_copy(update={"train": train})


def _mean(per_task: Mapping[str, float]) -> float:
    return float(np.mean(list(per_task.values()))) if per_task else float("nan")
