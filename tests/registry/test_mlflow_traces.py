import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from harness_core.errors import NoDataError
from harness_core.importers.base import SOURCE_FILE
from harness_core.registry.mlflow_traces import MlflowTraceWriter, export_traces
from harness_core.registry.store import MlflowStore, initialise_store
from harness_core.serving.spans import DecisionTracer
from harness_core.stages.dag import RAW, Workspace
from harness_core.stages.sources import land_source
from tests.importers.conftest import ReadFolder, read_folder  # noqa: F401  # a fixture
from tests.serving.logged import decision

N_RUNS = 3


@pytest.fixture(scope="module")
def tracked(
    fresh_store: MlflowStore, tmp_path_factory: pytest.TempPathFactory, project_root: Path
) -> MlflowStore:
    """A store to which an agent wrote its traces."""
    root = tmp_path_factory.mktemp("tracked") / "mlruns"
    shutil.copytree(fresh_store.root, root)
    store = initialise_store(root)
    agent = (sys.executable, "-m", "tests.registry.traced_agent")
    subprocess.run(  # our own program
        [*agent, store.tracking_uri, store.artifacts.as_uri(), str(N_RUNS)],
        check=True,
        capture_output=True,
        cwd=project_root,
    )
    return store


def test_an_agent_that_mlflow_traced_becomes_trajectories(
    tracked: MlflowStore,
    tmp_path: Path,
    read_folder: ReadFolder,  # noqa: F811  # the fixture
):
    assert export_traces(tracked.tracking_uri, "agent", tmp_path / "out") == N_RUNS
    imported = read_folder("mlflow_traces", tmp_path / "out")
    assert imported.rejects == []
    assert len(imported.trajectories) == N_RUNS
    # Runs that began in the same millisecond come in any order; a person judged one of them.
    (trajectory,) = (item for item in imported.trajectories if item.outcome.success is not None)
    assert trajectory.agent.name == "forecast"
    assert trajectory.task.description == "How warm is it in Rome?"
    first, last = trajectory.steps
    assert first.action.arguments == {"name": "measure", "arguments": {"city": "Rome"}}
    assert first.result == "21 degrees in Rome"
    assert first.usage.prompt_tokens == 9
    assert (last.action.text, last.observation) == ("It is 21 degrees.", "")
    assert trajectory.outcome.success is True
    assert trajectory.terminated


def test_exporting_twice_gives_the_same_bytes(tracked: MlflowStore, tmp_path: Path):
    for name in ("a", "b"):
        assert export_traces(tracked.tracking_uri, "agent", tmp_path / name) == N_RUNS
    first, second = ((tmp_path / name / "traces.jsonl").read_bytes() for name in ("a", "b"))
    assert first == second
    assert list((tmp_path / "a").iterdir()) == [tmp_path / "a" / "traces.jsonl"]


def test_an_experiment_lands_from_the_working_folder_or_from_where_the_environment_says(
    tracked: MlflowStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    own, other = Workspace(tracked.root.parent), Workspace(tmp_path)
    assert land_source(Path("mlflow:agent"), "auto", own) == "mlflow-agent"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracked.tracking_uri)
    assert land_source(Path("mlflow:agent"), "auto", other) == "mlflow-agent"
    contents = [
        (workspace.path(f"{RAW}/mlflow-agent/traces.jsonl")).read_bytes()
        for workspace in (own, other)
    ]
    assert contents[0] == contents[1]
    described = other.path(f"{RAW}/mlflow-agent/{SOURCE_FILE}").read_bytes()
    assert orjson.loads(described) == {"format": "mlflow_traces"}


def test_an_experiment_without_traces_is_named(store: MlflowStore, tmp_path: Path):
    with pytest.raises(NoDataError, match="no experiment 'nothing'"):
        export_traces(store.tracking_uri, "nothing", tmp_path / "out")
    with pytest.raises(NoDataError, match="'Default' of sqlite.* has no trace"):
        export_traces(store.tracking_uri, "Default", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_decision_is_a_trace_with_its_guardrail(store: MlflowStore, tmp_path: Path):
    answer = {
        "scores": [None, 0.5],
        "filtered": [{"index": 0, "rules": ["shell.rm"]}],
        "timings_s": {"filter": 0.001, "score": 0.004},
    }
    writer = MlflowTraceWriter(store, "decisions")
    tracer = DecisionTracer(writer, capture_content=True)
    tracer.record(decision("d-1", session_id="s-1", answered_index=1, decision=answer))
    tracer.close(timeout_s=60)
    assert (tracer.n_written, tracer.n_failed) == (1, 0)
    export_traces(store.tracking_uri, "decisions", tmp_path)
    trace = orjson.loads((tmp_path / "traces.jsonl").read_bytes())
    assert trace["info"]["trace_metadata"]["mlflow.trace.session"] == "s-1"
    assert trace["info"]["tags"]["harness.decision.id"] == "d-1"
    root, guard = trace["data"]["spans"]
    assert guard["parent_span_id"] == root["span_id"]
    assert orjson.loads(guard["attributes"]["harness.guardrail.rules"]) == ["shell.rm"]
    assert orjson.loads(root["attributes"]["openinference.span.kind"]) == "DECISION"
    assert orjson.loads(root["attributes"]["mlflow.spanOutputs"]) == {"text": "Hi."}
