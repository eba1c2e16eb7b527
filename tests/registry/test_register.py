"""Registration as a whole: what a run leaves in MLflow, and that doing it again changes nothing."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness_core.errors import NoDataError, ParameterError
from harness_core.params import Params
from harness_core.registry.champion import NONE_MARKER
from harness_core.registry.mlflow_database import open_client
from harness_core.registry.mlflow_registry import MlflowRegistry
from harness_core.registry.mlflow_tracker import MlflowTracker
from harness_core.registry.store import MlflowStore
from harness_core.stages import register
from harness_core.stages.dag import (
    CANDIDATE_MODEL,
    CHAMPION_MODEL,
    DATA_DOCS,
    EVALUATION,
    HTML_REPORT,
    PLOTS,
    STEPS,
    VERDICT,
    Workspace,
    report_path,
)
from harness_core.stages.report import StageReport
from harness_core.tables import publish_bytes, tree_digest

MakeModel = Callable[..., Path]
Build = Callable[..., Workspace]

EVALUATION_REPORT = {
    "k": {"8": {"random": 0.2, "selected": 0.5, "oracle": 0.6, "n_tasks": 9, "baselines": {}}},
    "headline": {"size": 8, "selected": 0.5},
    "within_task_auc": 0.8,
}


@pytest.fixture
def build(store: MlflowStore, make_model: MakeModel, project_root: Path) -> Build:
    """`build("a", verdict="promote")`: a working folder as it is after `compare`."""
    workspace = Workspace(store.root.parent)

    def write(relative: str, content: Any) -> None:
        publish_bytes(workspace.path(relative), orjson.dumps(content))

    def make(model: str, *, verdict: str) -> Workspace:
        shutil.rmtree(workspace.path(CANDIDATE_MODEL), ignore_errors=True)
        shutil.copytree(make_model(model), workspace.path(CANDIDATE_MODEL))
        shutil.copy(project_root / "params.yaml", workspace.path("params.yaml"))
        write(EVALUATION, EVALUATION_REPORT)
        rules = [{"name": "forgetting", "passed": verdict == "promote"}]
        summary = f"We {verdict}."
        write(
            VERDICT,
            {"verdict": verdict, "summary": summary, "reasons": ["why"], "rules": rules},
        )
        publish_bytes(workspace.path(HTML_REPORT), b"<html></html>")
        publish_bytes(workspace.path(f"{PLOTS}/k.csv"), b"k,selected\n8,0.5\n")
        publish_bytes(workspace.path(f"{DATA_DOCS}/summary.html"), b"<html></html>")
        publish_bytes(workspace.path(f"{DATA_DOCS}/static/font.otf"), b"large")
        for stage, figures in {
            "validate": {"n_steps": 3, "warnings": ["steps: odd"]},
            "train": {"updates": 100, "loss": {"value": 0.5}},
        }.items():
            report = StageReport(stage=stage, key=f"key-{stage}", figures=figures)
            report.write(workspace.path(report_path(stage)))
        workspace.path(STEPS).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"step_index": [0, 1, 2]}), workspace.path(STEPS))
        return workspace

    return make


def register_once(workspace: Workspace, params: Params) -> dict[str, Any]:
    context = register.run_context(workspace, params, dvc_digests={"data/raw/pack": "abc.dir"})
    return register.run(params.registry, workspace, run_context=context).figures


def test_a_run_leaves_everything_that_it_was_made_of(build: Build, params: Params) -> None:
    workspace = build("a", verdict="promote")
    figures = register_once(workspace, params)
    assert figures["model_version"] == "1"
    assert figures["promoted"] is True
    assert figures["tracking_uri"] == f"sqlite:///{workspace.root}/mlruns/mlflow.db"

    client = open_client(MlflowStore(workspace.path("mlruns")))
    run = client.get_run(figures["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.params["train.iql.expectile"] == "0.9"
    assert run.data.metrics["eval/k8/selected"] == 0.5
    assert run.data.metrics["eval/within_task_auc"] == 0.8
    assert run.data.metrics["gate/forgetting"] == 1.0
    assert run.data.metrics["data/validate/n_steps"] == 3
    assert run.data.metrics["train/train/loss/value"] == 0.5
    assert run.data.tags["verdict"] == "promote"
    assert run.data.tags["encoder_fingerprint"] == "e" * 64
    assert "We promote." in run.data.tags["mlflow.note.content"]
    assert "- steps: odd" in run.data.tags["mlflow.note.content"]
    names = {item.dataset.name: item.dataset for item in run.inputs.dataset_inputs}
    assert names["pack"].digest == "abc.dir"
    assert orjson.loads(names["steps"].profile) == {"num_rows": 3}
    files = {item.path for item in client.list_artifacts(figures["run_id"])}
    assert files >= {
        "report.html",
        "evaluation.json",
        "verdict.json",
        "params.yaml",
        "lineage.json",
        "plots",
        "data_docs",
    }
    docs = [item.path for item in client.list_artifacts(figures["run_id"], "data_docs")]
    assert docs == ["data_docs/summary.html"]
    children = client.search_runs(
        [run.info.experiment_id], f"tags.mlflow.parentRunId = '{figures['run_id']}'"
    )
    assert sorted(child.info.run_name for child in children) == ["train", "validate"]
    version = client.get_model_version("controller", "1")
    assert version.run_id == figures["run_id"]
    assert version.tags["verdict"] == "promote"
    assert set(version.aliases) == {"challenger", "champion"}
    assert register.run_url(workspace, figures["run_id"]).endswith(figures["run_id"])


def test_the_same_state_is_registered_once(build: Build, params: Params) -> None:
    workspace = build("a", verdict="promote")
    assert register_once(workspace, params) == register_once(workspace, params)
    client = open_client(MlflowStore(workspace.path("mlruns")))
    assert len(client.search_model_versions("name = 'controller'")) == 1


def test_a_model_that_the_gate_refuses_is_the_challenger_only(build: Build, params: Params) -> None:
    register_once(build("a", verdict="promote"), params)
    workspace = build("b", verdict="keep")
    figures = register_once(workspace, params)
    assert figures["promoted"] is False
    assert figures["model_version"] == "2"
    client = open_client(MlflowStore(workspace.path("mlruns")))
    assert set(client.get_registered_model("controller").aliases.items()) == {
        ("champion", 1),
        ("challenger", 2),
    }


@pytest.mark.parametrize(
    ("owner", "method"),
    [(MlflowTracker, "attach"), (MlflowTracker, "finish"), (MlflowRegistry, "_ensure_name")],
)
def test_a_crash_anywhere_is_completed_by_doing_it_again(
    build: Build, params: Params, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    workspace = build("a", verdict="promote")
    monkeypatch.setattr(owner, method, _lost)
    with pytest.raises(ConnectionError):
        register_once(workspace, params)
    monkeypatch.undo()
    assert register.fetch_champion(workspace) is None
    figures = register_once(workspace, params)
    client = open_client(MlflowStore(workspace.path("mlruns")))
    experiment = client.get_run(figures["run_id"]).info.experiment_id
    assert figures["model_version"] == "1"
    assert client.search_runs([experiment], "status = 'RUNNING'") == []
    finished = client.search_runs([experiment], "status = 'FINISHED' and tags.verdict = 'promote'")
    assert len(finished) == 1


def test_the_champion_is_fetched_and_described(build: Build, params: Params) -> None:
    workspace = build("a", verdict="keep")
    target = workspace.path(CHAMPION_MODEL)
    assert register.fetch_champion(workspace) is None
    assert [path.name for path in target.iterdir()] == [NONE_MARKER]
    assert register.describe_champion(params.registry, workspace) == {"champion": None}
    workspace = build("b", verdict="promote")
    figures = register_once(workspace, params)
    assert register.fetch_champion(workspace) == "1"
    assert tree_digest(target) == tree_digest(workspace.path(CANDIDATE_MODEL))
    described = register.describe_champion(params.registry, workspace)
    assert described["champion"]["run_id"] == figures["run_id"]
    assert described["metrics"] == {"selected": 0.5, "size": 8.0}
    assert tree_digest(register.fetch_version("champion", workspace)) == tree_digest(target)
    assert tree_digest(register.fetch_version("1", workspace)) == tree_digest(target)
    with pytest.raises(ParameterError, match="no such folder, version or alias"):
        register.fetch_version("nobody", workspace)


def test_a_champion_that_is_there_already_is_fetched_without_mlflow(
    build: Build, params: Params, project_root: Path
) -> None:
    workspace = build("a", verdict="promote")
    register_once(workspace, params)
    register.fetch_champion(workspace)
    code = (
        "import sys; from pathlib import Path; "
        "from harness_core.stages.dag import Workspace; "
        "from harness_core.stages.register import fetch_champion; "
        "assert fetch_champion(Workspace(Path(sys.argv[1]))) == '1'; "
        "sys.exit('mlflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(workspace.root)], cwd=project_root, check=False
    )
    assert done.returncode == 0


def test_without_an_evaluation_there_is_nothing_to_register(build: Build, params: Params) -> None:
    workspace = build("a", verdict="promote")
    workspace.path(EVALUATION).unlink()
    with pytest.raises(NoDataError, match="run `harness evaluate`"):
        register_once(workspace, params)


def _lost(*_arguments: object, **_options: object) -> None:
    raise ConnectionError
