"""Stage `evaluate`: the candidate model on tasks that it never saw, beside all baselines."""

import logging

import orjson

from harness_core.evaluation.config import EvaluationConfig
from harness_core.evaluation.evaluate import evaluate_groups
from harness_core.evaluation.labels import percent
from harness_core.evaluation.model_folders import load_cross_fit
from harness_core.evaluation.plots import write_plots
from harness_core.features.load import load_groups, load_transitions, read_schema
from harness_core.features.tuning import judgeable
from harness_core.stages.dag import CANDIDATE_MODEL, EVALUATION, FOLD_MODELS, PLOTS, Workspace
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes

_LOG = logging.getLogger("harness")


def run(evaluation: EvaluationConfig, workspace: Workspace) -> StageReport:
    """Write `evaluation.json` and the plots.

    Raises:
        NoDataError: a table is missing, or no candidate has a known outcome.
        ModelError: the candidate model or a fold model is missing or damaged.
    """
    judged = load_cross_fit(workspace.path(CANDIDATE_MODEL), workspace.path(FOLD_MODELS))
    # What the encoder was fine-tuned on would look better than it is.
    groups = judgeable(load_groups(workspace), read_schema(workspace))
    result = evaluate_groups(judged, groups, evaluation, transitions=load_transitions(workspace))
    content = orjson.dumps(result, option=orjson.OPT_INDENT_2)
    publish_bytes(workspace.path(EVALUATION), content + b"\n")
    write_plots(result, workspace.path(PLOTS))
    headline = result["headline"]
    _LOG.info(
        "evaluate: controller %s, random %s, oracle %s of %d held-out tasks at K = %d",
        *(percent(headline[name]) for name in ("selected", "random", "oracle")),
        headline["n_tasks"],
        headline["size"],
    )
    figures = {
        "n_tasks": result["n_tasks"],
        "n_attempts": result["n_attempts"],
        "group_size": headline["size"],
        **{name: headline[name] for name in ("random", "selected", "oracle", "gap_closed")},
        "within_task_auc": result["within_task_auc"],
        "steps_auc": result["steps_auc"],
        "warnings": result["warnings"],
    }
    return StageReport(stage="evaluate", figures=figures)
