import shutil
from pathlib import Path

import orjson
import pytest

from harness_core.errors import ParameterError
from harness_core.stages.dag import RAW, Workspace
from harness_core.stages.sources import land_source


def logs(folder: Path, prompt: str) -> Path:
    folder.mkdir(parents=True)
    line = orjson.dumps({"prompt": prompt, "response": "done", "success": True})
    (folder / "log.jsonl").write_bytes(line + b"\n")
    return folder


def landed(workspace: Workspace) -> dict[str, str]:
    return {
        folder.name: (folder / "log.jsonl").read_text().split('"')[3]
        for folder in sorted(workspace.path(RAW).iterdir())
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")


def test_logs_from_elsewhere_do_not_replace_those_of_the_same_name(
    tmp_path: Path, workspace: Workspace
):
    land_source(logs(tmp_path / "one/pilot", "first"), "native", workspace)
    other = logs(tmp_path / "two/pilot", "second")
    with pytest.raises(ParameterError, match=r"the name pilot is that of the logs of .*one/pilot"):
        land_source(other, "native", workspace)
    assert landed(workspace) == {"pilot": "first"}
    assert land_source(Path(f"later={other}"), "native", workspace) == "later"
    assert landed(workspace) == {"later": "second", "pilot": "first"}
    assert land_source(Path(f"pilot={other}"), "native", workspace) == "pilot"
    assert landed(workspace) == {"later": "second", "pilot": "second"}
    assert land_source(other, "native", workspace) == "pilot"


def test_the_same_logs_land_again(tmp_path: Path, workspace: Workspace):
    folder = logs(tmp_path / "one/pilot", "first")
    land_source(folder, "native", workspace)
    shutil.rmtree(folder)
    logs(folder, "again")
    assert land_source(folder, "native", workspace) == "pilot"
    assert landed(workspace) == {"pilot": "again"}


def test_logs_that_move_with_the_working_folder_are_the_same(tmp_path: Path, workspace: Workspace):
    logs(workspace.path("served/pilot"), "first")
    land_source(workspace.path("served/pilot"), "native", workspace)
    moved = Workspace(tmp_path / "moved")
    workspace.path(".").rename(moved.path("."))
    assert land_source(moved.path("served/pilot"), "native", moved) == "pilot"


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path, workspace: Workspace):
    folder = logs(tmp_path / "k=8", "first")
    assert land_source(folder, "native", workspace) == "k-8"


def test_a_torn_note_of_origins_stops_nobody(tmp_path: Path, workspace: Workspace):
    folder = logs(tmp_path / "pilot", "first")
    land_source(folder, "native", workspace)
    workspace.path(".harness/origins.json").write_bytes(b"{")
    assert land_source(folder, "native", workspace) == "pilot"
