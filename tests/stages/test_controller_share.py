from pathlib import Path

import orjson
import pytest

from harness_core.errors import NoDataError, ParameterError
from harness_core.stages import ingest
from harness_core.stages.dag import RAW, STEPS, TASKS, TRAJECTORIES, Workspace
from harness_core.stages.sources import land_source
from harness_core.trajectories.store import read_tasks, read_trajectories
from tests.serving.logged import decision


def put(workspace: Workspace, *, own: int, others: int) -> None:
    entries = [
        decision(
            str(n), second=n, mode="rerank" if n < own else "shadow", state={"description": str(n)}
        )
        for n in range(own + others)
    ]
    folder = workspace.path(f"{RAW}/proxy")
    folder.mkdir(parents=True)
    (folder / "source.json").write_bytes(orjson.dumps({"format": "decisions"}))
    lines = b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)
    (folder / "a.jsonl").write_bytes(lines)


def test_what_the_controller_made_itself_is_capped_and_counted(tmp_path: Path, params):
    workspace = Workspace(tmp_path)
    put(workspace, own=30, others=10)
    config = params.ingest.model_copy(update={"max_controller_share": 0.2})
    figures = ingest.run(config, workspace).figures
    assert figures["n_trajectories"] == 12
    assert figures["n_of_the_controller"] == 2
    assert figures["n_of_the_controller_left_out"] == 28
    assert figures["sources"]["proxy"]["n_trajectories"] == 40
    told = read_trajectories(
        trajectories_path=workspace.path(TRAJECTORIES), steps_path=workspace.path(STEPS)
    )
    tasks = {item.task.task_id for item in told}
    # A task that lost all its trajectories is none.
    assert {name for _, name in read_tasks(workspace.path(TASKS))} == tasks
    assert figures["n_tasks"] == len(tasks) == 12


def test_the_controller_alone_is_nothing_to_learn_from(tmp_path: Path, params):
    workspace = Workspace(tmp_path)
    put(workspace, own=5, others=0)
    with pytest.raises(NoDataError, match=r"all 5 trajectories.*max_controller_share"):
        ingest.run(params.ingest, workspace)
    config = params.ingest.model_copy(update={"max_controller_share": 1.0})
    assert ingest.run(config, workspace).figures["n_trajectories"] == 5


def test_an_experiment_of_mlflow_needs_a_name_and_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ParameterError, match="mlflow:EXPERIMENT"):
        land_source(Path("mlflow:"), "auto", Workspace(tmp_path))
    with pytest.raises(ParameterError, match="MLFLOW_TRACKING_URI"):
        land_source(Path("mlflow:agent"), "auto", Workspace(tmp_path))
