"""The work of the tasks that are no stage: landing, champion, verdict in words."""

import logging
from pathlib import Path
from typing import Any, Final

import orjson

from flows.snapshot import pipeline_stages, set_params
from harness_core.params import Params, load_params
from harness_core.stages.dag import EVALUATION, HTML_REPORT, LAST_RUN, VERDICT, Workspace
from harness_core.stages.execute import execute, is_fresh
from harness_core.stages.project import PARAMS, PIPELINE, prepare_project
from harness_core.stages.register import fetch_champion as fetch_into
from harness_core.stages.register import run_url
from harness_core.stages.sources import land_source, read_overrides
from harness_core.tables import publish_bytes

_LOG: Final = logging.getLogger("harness")


def params_of(workspace: Workspace) -> Params:
    """The parameters of a working folder."""
    return load_params(workspace.path(PARAMS))


def land(workdir: str, sources: list[dict[str, str]], overrides: list[str]) -> str:
    """Bring the working folder to where the first stage can start; return its absolute path.

    Sources and overrides are written to the folder's `params.yaml`, so that this file keeps saying
    what was run. Without any source of their own people get the sample logs.
    """
    root = Path(workdir)
    workspace = prepare_project(root, with_sample=not sources)
    names = [land_source(Path(item["path"]), item["format"], workspace) for item in sources]
    changes: dict[str, Any] = read_overrides(overrides)
    if names:
        changes["ingest.sources"] = names
    if changes:
        load_params(workspace.path(PARAMS), overrides)  # refuses before anything is written
        set_params(workspace, changes)
        _LOG.info("params.yaml: %s", ", ".join(f"{key}={value}" for key, value in changes.items()))
    if "sample" in pipeline_stages(workspace):
        execute("sample", params_of(workspace), workspace)
    return str(workspace.root)


def fetch_champion(root: str) -> str | None:
    """Put the present champion where `compare` reads it; return its version."""
    return fetch_into(Workspace(Path(root)), keep_reference=True)


def summarise(workspace: Workspace, registered: dict[str, Any]) -> dict[str, Any]:
    """What `harness flywheel` prints, and a Markdown page of it."""
    verdict = orjson.loads(workspace.path(VERDICT).read_bytes())
    evaluation = orjson.loads(workspace.path(EVALUATION).read_bytes())
    report = workspace.path(HTML_REPORT)
    url = run_url(workspace, registered["run_id"])
    result = {
        "run_id": registered["run_id"],
        "verdict": verdict["verdict"],
        "promoted": registered["promoted"],
        "model_version": registered["model_version"],
        "summary": verdict["summary"],
        "reasons": verdict["reasons"],
        "evaluation": evaluation,
        "report": str(report),
        "run_url": url,
    }
    publish_bytes(workspace.path(LAST_RUN), orjson.dumps(result, option=orjson.OPT_INDENT_2))
    markdown = _markdown(verdict, evaluation, registered, report=report)
    return {**result, "markdown": markdown}


def _markdown(
    verdict: dict[str, Any], evaluation: dict[str, Any], registered: dict[str, Any], *, report: Path
) -> str:
    rows = [
        f"| {k} | {_percent(row['random'])} | **{_percent(row['selected'])}** "
        f"| {_percent(row['oracle'])} | {row['n_tasks']} |"
        for k, row in evaluation["k"].items()
    ]
    reasons = [f"- {reason}" for reason in verdict["reasons"]]
    return "\n".join(
        [
            f"# {verdict['summary']}",
            "",
            *reasons,
            "",
            "| K | random | controller | oracle | tasks |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"Model version {registered['model_version']}, full report: `{report}`",
        ]
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def unchanged(
    root: Path, sources: list[dict[str, str]], overrides: list[str]
) -> dict[str, Any] | None:
    """The result of the last run if another one would run no stage, else None.

    Looking costs a second; starting a flow to find out costs ten.
    """
    if overrides or not (root / PIPELINE).exists():
        return None
    workspace = prepare_project(root)
    names = [land_source(Path(item["path"]), item["format"], workspace) for item in sources]
    params = params_of(workspace)
    if names and names != list(params.ingest.sources):
        return None
    last = workspace.path(LAST_RUN)
    if not last.exists():
        return None
    if not all(is_fresh(stage, params, workspace) for stage in pipeline_stages(workspace)):
        return None
    _LOG.info("nothing has changed since the last run")
    result: dict[str, Any] = orjson.loads(last.read_bytes())
    return result
