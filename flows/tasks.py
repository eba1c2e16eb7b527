"""One Prefect task a stage. Arguments and results are paths, names and figures: plain JSON."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from flows import lineage, steps
from harness_core.errors import HarnessError
from harness_core.stages.dag import Workspace
from harness_core.stages.execute import execute

Result = dict[str, Any]

_LOG: Final = logging.getLogger("harness")


def _is_worth_retrying(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """A refusal of ours stays a refusal; anything else may have been the machine's bad moment."""
    error = state.data if isinstance(state.data, BaseException) else None
    if error is None:
        outcome = state.result(raise_on_failure=False)
        error = outcome if isinstance(outcome, BaseException) else None
    return not isinstance(error, HarnessError)


def _stage(name: str, *, timeout_s: int) -> Callable[[str], Result]:
    def run(root: str) -> Result:
        workspace = Workspace(Path(root))
        return execute(name, steps.params_of(workspace), workspace).model_dump(mode="json")

    run.__doc__ = f"Run the stage `{name}` unless nothing has changed."
    return _task(name, run, timeout_s=timeout_s)


def _task(name: str, function: Callable[..., Any], *, timeout_s: int) -> Callable[..., Any]:
    # Typed as what the flow does with it: Prefect's overloads also describe asynchronous tasks.
    made: Callable[..., Any] = task(
        name=name,
        retries=1,
        retry_delay_seconds=2,
        retry_condition_fn=_is_worth_retrying,
        timeout_seconds=timeout_s,
        cache_policy=NO_CACHE,
        persist_result=True,
        result_serializer="json",
    )(function)
    return made


land = _task("land", steps.land, timeout_s=1800)
ingest = _stage("ingest", timeout_s=3600)
validate = _stage("validate", timeout_s=1800)
rewards = _stage("rewards", timeout_s=7200)
audit = _stage("audit", timeout_s=3600)
transitions = _stage("transitions", timeout_s=1800)
features = _stage("features", timeout_s=14400)
train = _stage("train", timeout_s=14400)
evaluate = _stage("evaluate", timeout_s=3600)
fetch_champion = _task("fetch-champion", steps.fetch_champion, timeout_s=600)
compare = _stage("compare", timeout_s=1800)
snapshot = _task("snapshot", lineage.snapshot, timeout_s=1800)
register = _task("register", lineage.register, timeout_s=1800)


def _announce(root: str, registered: Result) -> Result:
    """Leave the verdict and the way to the run where people look."""
    summary = steps.summarise(Workspace(Path(root)), registered)
    create_markdown_artifact(key="flywheel-verdict", markdown=summary["markdown"])
    create_link_artifact(
        key="mlflow-run",
        link=summary["run_url"],
        link_text=f"MLflow run {registered['run_id']} (start the page with `make ui`)",
    )
    return {name: value for name, value in summary.items() if name != "markdown"}


announce = _task("announce", _announce, timeout_s=120)
