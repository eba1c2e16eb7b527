import os
from pathlib import Path

import orjson
import pytest

from harness_core.errors import NoDataError, ParameterError
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.landing import RAW, land, source_name_of
from harness_core.stages import dag
from harness_core.stages.dag import Workspace
from tests.importers.golden.regenerate import GOLDEN

ROW = b'{"problem_id": "p", "problem_description": "d", "action_sequence": [{"thought": "t"}]}\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "My logs, 2026"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(ROW)
    (folder / "deep" / "b.jsonl").write_bytes(ROW)
    (folder / "notes.txt").write_text("no log")
    (folder / ".hidden.jsonl").write_text("no log")
    return folder


def landed(workspace: Workspace, name: str) -> list[str]:
    folder = workspace.path(RAW) / name
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")]}


def test_sources_land_where_the_stages_look_for_them():
    assert RAW == dag.RAW


def test_only_what_the_format_reads_is_copied_and_the_format_is_written_beside_it(logs, workspace):
    name = land(logs, "auto", workspace=workspace)
    assert name == "My-logs-2026"
    assert landed(workspace, name) == ["a.jsonl", "deep/b.jsonl", "source.json"]
    description = workspace.path(f"{RAW}/{name}/source.json").read_bytes()
    assert orjson.loads(description) == {"format": "native"}


def test_landing_the_same_again_touches_nothing(logs, workspace):
    name = land(logs, "native", workspace=workspace)
    before = state(workspace.path(RAW))
    assert land(logs, "native", workspace=workspace) == name
    assert {path: before[path] for path in before if path != workspace.path(RAW)} == {
        path: value
        for path, value in state(workspace.path(RAW)).items()
        if path != workspace.path(RAW)
    }


def test_changed_content_takes_the_place_of_the_old(logs, workspace):
    name = land(logs, "native", workspace=workspace)
    (logs / "deep" / "b.jsonl").unlink()
    (logs / "c.jsonl").write_bytes(ROW)
    land(logs, "native", workspace=workspace)
    assert landed(workspace, name) == ["a.jsonl", "c.jsonl", "source.json"]
    assert [path.name for path in workspace.path(RAW).iterdir()] == [name]


def test_a_landing_that_died_between_its_renames_is_repaired(logs, workspace):
    name = land(logs, "native", workspace=workspace)
    target = workspace.path(RAW) / name
    target.rename(target.with_name(f".stale-{name}"))
    land(logs, "native", workspace=workspace)
    assert [path.name for path in workspace.path(RAW).iterdir()] == [name]


def test_copies_are_no_links(logs, workspace):
    (logs / "link.jsonl").symlink_to(logs / "a.jsonl")
    (logs / "loop").symlink_to(logs)
    name = land(logs, "native", workspace=workspace)
    assert landed(workspace, name) == ["a.jsonl", "deep/b.jsonl", "link.jsonl", "source.json"]
    assert not (workspace.path(RAW) / name / "link.jsonl").is_symlink()


def test_a_pipe_is_not_copied(logs, workspace):
    os.mkfifo(logs / "pipe.jsonl")
    name = land(logs, "native", workspace=workspace)
    assert "pipe.jsonl" not in landed(workspace, name)


def test_a_single_file_lands(logs, workspace):
    assert land(logs / "a.jsonl", "auto", workspace=workspace) == "a"
    assert landed(workspace, "a") == ["a.jsonl", "source.json"]


def test_a_name_can_be_given_and_is_checked(logs, workspace):
    assert land(logs, "native", name="mine", workspace=workspace) == "mine"
    for name in ("", "../up", ".hidden", "a/b", "x" * 99):
        with pytest.raises(ParameterError, match="source name"):
            land(logs, "native", name=name, workspace=workspace)


def test_nothing_to_land_is_said(tmp_path, logs, workspace):
    with pytest.raises(NoDataError, match="does not exist"):
        land(tmp_path / "nowhere", "auto", workspace=workspace)
    with pytest.raises(NoDataError, match="codet"):
        land(logs, "codet", workspace=workspace)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/intercode/sql", "intercode-sql"),
        ("data/codet", "codet"),
        ("runs/results", "runs-results"),
        ("x/..odd name!", "odd-name"),
        ("x/ü", "source"),
    ],
)
def test_folders_give_sources_their_names(path: str, name: str):
    assert source_name_of(Path(path)) == name


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_every_format_lands_by_sniffing(name: str, workspace: Workspace):
    assert land(GOLDEN / name, "auto", name=name, workspace=workspace) == name
    description = workspace.path(f"{RAW}/{name}/source.json").read_bytes()
    assert orjson.loads(description) == {"format": name}
