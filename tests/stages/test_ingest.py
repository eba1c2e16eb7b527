"""The stage: good rows in the tables, bad rows in the quarantine, nothing lost on the way."""

from pathlib import Path

import orjson
import pytest

from harness_core.errors import ImportFormatError, NoDataError, ParameterError
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.config import IngestConfig
from harness_core.importers.landing import land
from harness_core.importers.rejects import Reject
from harness_core.params import Params
from harness_core.stages import ingest
from harness_core.stages.dag import QUARANTINE, RAW, STEPS, TASKS, TRAJECTORIES, Workspace
from harness_core.tables import tree_digest
from harness_core.trajectories.store import read_tasks, read_trajectories
from tests.importers.golden.regenerate import GOLDEN

SECRET = "sk-proj-" + "a1B2" * 6


def row(number: int, **keys) -> bytes:
    run = {
        "problem_id": f"p{number % 3}",
        "problem_description": "d",
        "action_sequence": [{"code_generated": f"x = {number}"}],
    }
    return orjson.dumps(run | keys) + b"\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def config(params: Params) -> IngestConfig:
    return params.ingest


def put(workspace: Workspace, name: str, content: bytes, importer: str = "native") -> None:
    folder = workspace.path(f"{RAW}/{name}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_bytes(content)
    (folder / "source.json").write_bytes(orjson.dumps({"format": importer}))


def rejects(workspace: Workspace, name: str) -> list[Reject]:
    lines = workspace.path(f"{QUARANTINE}/{name}.jsonl").read_bytes().split(b"\n")
    return [Reject.model_validate_json(line) for line in lines if line]


def loose(config: IngestConfig) -> IngestConfig:
    return config.model_copy(update={"max_reject_rate": 0.5})


def test_good_rows_become_tables_and_bad_rows_are_quarantined(workspace, config):
    bad = row(1, reward="high", note=f"key {SECRET}")
    put(workspace, "shop", row(0) + bad + row(2) + b'{"cut": ')
    report = ingest.run(loose(config), workspace)
    found = list(
        read_trajectories(
            trajectories_path=workspace.path(TRAJECTORIES), steps_path=workspace.path(STEPS)
        )
    )
    assert sorted(item.steps[0].action.text for item in found) == ["x = 0", "x = 2"]
    assert list(read_tasks(workspace.path(TASKS))) == [("shop", "p0"), ("shop", "p2")]
    wrong, cut = rejects(workspace, "shop")
    assert (wrong.rule_id, wrong.field, wrong.line, wrong.byte_offset) == (
        "S-SCHEMA",
        "reward",
        2,
        len(row(0)),
    )
    assert (cut.rule_id, cut.path) == ("F-TRUNCATED", "log.jsonl")
    assert SECRET not in workspace.path(f"{QUARANTINE}/shop.jsonl").read_text()
    figures = report.figures["sources"]["shop"]
    assert (figures["n_records"], figures["n_trajectories"], figures["n_rejected"]) == (4, 2, 2)
    assert figures["rejects_by_rule"] == {"F-TRUNCATED": 1, "S-SCHEMA": 1}


def test_a_source_of_which_too_much_is_broken_stops_the_run_with_code_3(workspace, config):
    put(workspace, "good", row(0))
    put(workspace, "shop", row(0) + row(1, reward="high"))
    with pytest.raises(ImportFormatError) as caught:
        ingest.run(config, workspace)
    assert caught.value.exit_code == 3
    for part in ("shop: 1 of 2", "log.jsonl, line 2", f"byte {len(row(0))}", "reward", "S-SCHEMA"):
        assert part in str(caught.value)
    assert len(rejects(workspace, "shop")) == 1
    assert not workspace.path(TRAJECTORIES).exists()


def test_33_the_same_run_delivered_twice_counts_once(workspace, config):
    put(workspace, "shop", row(0) + row(1) + row(0))
    report = ingest.run(config, workspace)
    assert report.figures["n_trajectories"] == 2
    assert report.figures["sources"]["shop"]["n_duplicates"] == 1


def test_33_renamed_and_reordered_files_give_the_same_trajectories(workspace, config):
    put(workspace, "shop", row(0) + row(1) + row(2))
    ingest.run(config, workspace)
    before = workspace.path(STEPS).read_bytes()
    put(workspace, "shop", row(2) + row(0))
    workspace.path(f"{RAW}/shop/more.jsonl").write_bytes(row(1) + row(2))
    ingest.run(config, workspace)
    assert workspace.path(STEPS).read_bytes() == before


def test_equal_runs_of_two_sources_stay_apart(workspace, config):
    put(workspace, "a", row(0))
    put(workspace, "b", row(0))
    assert ingest.run(config, workspace).figures["n_trajectories"] == 2


def test_all_formats_together_twice_give_equal_bytes(workspace, config):
    for folder in sorted(GOLDEN.iterdir()):
        if (folder / "logs").is_dir():
            land(folder / "logs", "auto", name=folder.name, workspace=workspace)
    lenient = config.model_copy(update={"max_reject_rate": 1.0})
    first = ingest.run(lenient, workspace)
    digest = tree_digest(workspace.root)
    assert len(first.figures["sources"]) == len(IMPORTERS)
    # One golden log holds a record that no task belongs to.
    assert first.figures["n_rejected"] == 1
    assert ingest.run(lenient, workspace) == first
    assert tree_digest(workspace.root) == digest


def test_the_quarantine_is_never_empty_and_forgets_earlier_runs(workspace, config):
    put(workspace, "shop", row(0) + b"oops\n")
    ingest.run(loose(config), workspace)
    put(workspace, "shop", row(0))
    ingest.run(config, workspace)
    assert [path.name for path in workspace.path(QUARANTINE).iterdir()] == ["index.json"]
    index = orjson.loads(workspace.path(f"{QUARANTINE}/index.json").read_bytes())
    assert index == {"shop": {"by_rule": {}, "n_listed": 0, "n_rejected": 0}}


def test_a_folder_without_source_json_is_sniffed(workspace, config):
    put(workspace, "shop", row(0))
    workspace.path(f"{RAW}/shop/source.json").unlink()
    assert ingest.run(config, workspace).figures["sources"]["shop"]["importer"] == "native"


def test_only_the_sources_asked_for_are_read(workspace, config):
    put(workspace, "a", row(0))
    put(workspace, "b", row(1))
    only = config.model_copy(update={"sources": ("b",)})
    assert list(ingest.run(only, workspace).figures["sources"]) == ["b"]
    with pytest.raises(NoDataError, match="c not in"):
        ingest.run(config.model_copy(update={"sources": ("c",)}), workspace)


@pytest.mark.parametrize("content", [b"", b"\n", b"[]"])
def test_13_nothing_to_read_is_said(workspace, config, content):
    with pytest.raises(NoDataError, match="harness sample"):
        ingest.run(config, workspace)
    put(workspace, "shop", content)
    with pytest.raises(NoDataError, match="no trajectory in shop"):
        ingest.run(config, workspace)


@pytest.mark.parametrize("description", [b"{}", b"oops", b"[]", b'{"format": "nativ"}'])
def test_a_damaged_source_json_is_said(workspace, config, description):
    put(workspace, "shop", row(0))
    workspace.path(f"{RAW}/shop/source.json").write_bytes(description)
    with pytest.raises(ParameterError, match=r"source\.json|did you mean 'native'"):
        ingest.run(config, workspace)


def test_18_an_unreadable_file_does_not_stop_the_others(workspace, config):
    put(workspace, "shop", row(0))
    workspace.path(f"{RAW}/shop/gone.jsonl").symlink_to(workspace.root / "nowhere")
    ingest.run(loose(config), workspace)
    assert [reject.rule_id for reject in rejects(workspace, "shop")] == ["F-OPEN"]
