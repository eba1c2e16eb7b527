from pathlib import Path

import orjson
import pytest

from harness_core.params import Params
from harness_core.simulation.problems import load_problems
from harness_core.stages import sample
from harness_core.stages.dag import GUIDANCE, Workspace
from harness_core.stages.project import shipped
from harness_core.stages.report import StageReport


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sample")


@pytest.fixture(scope="module")
def report(params: Params, root: Path) -> StageReport:
    config = params.sample.model_copy(update={"n_runs": 2})
    workspace = Workspace(root)
    workspace.path(GUIDANCE).write_bytes(shipped(GUIDANCE))
    return sample.run(config, params.sandbox, workspace)


def test_the_stage_writes_a_source_that_can_be_ingested(report: StageReport, root: Path):
    folder = root / "data/raw/sample"
    assert {item.name for item in folder.iterdir()} == {"logs.jsonl", "source.json"}
    assert orjson.loads((folder / "source.json").read_bytes()) == {"format": "native"}


def test_the_figures_count_what_was_written(report: StageReport, root: Path):
    lines = (root / "data/raw/sample/logs.jsonl").read_bytes().splitlines()
    rows = [orjson.loads(line) for line in lines]
    actions = [action for row in rows for action in row["action_sequence"]]
    figures = report.figures
    assert figures["n_trajectories"] == len(rows) == 2 * len(load_problems())
    assert figures["n_steps"] == len(actions)
    assert figures["n_candidates"] == sum(len(action["candidates"]) for action in actions)
    assert figures["n_distinct_programs"] < figures["n_candidates"]
    assert {row["agent"]["model"] for row in rows} == {"sim-small", "sim-medium", "sim-large"}
    assert 0.2 < figures["visible_pass_rate"] < 1


def test_about_half_of_the_states_are_guided_and_the_log_says_how_likely_that_was(
    report: StageReport, root: Path
):
    lines = (root / "data/raw/sample/logs.jsonl").read_bytes().splitlines()
    actions = [action for line in lines for action in orjson.loads(line)["action_sequence"]]
    drawn = [action["arguments"]["guidance"] for action in actions]
    assert all(0 < item["propensity"] <= 1 for item in drawn)
    n_guided = sum(item["id"] is not None for item in drawn)
    assert n_guided == sum(report.figures["n_steps_guided"].values())
    assert 0.3 * len(drawn) < n_guided < 0.7 * len(drawn)


def test_without_a_share_no_library_is_needed_and_no_step_is_guided(
    params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    few = load_problems()[:3]
    monkeypatch.setattr(sample, "load_problems", lambda: few)
    config = params.sample.model_copy(update={"n_runs": 1, "guidance_share": 0.0})
    report = sample.run(config, params.sandbox, Workspace(tmp_path))
    assert report.figures["n_steps_guided"] == {}
    assert b'"guidance"' not in (tmp_path / "data/raw/sample/logs.jsonl").read_bytes()


def test_the_stage_writes_below_its_workspace_only(report: StageReport, root: Path):
    assert str(root) not in report.model_dump_json()
    files = [item.relative_to(root) for item in root.rglob("*") if item.is_file()]
    files.remove(Path(GUIDANCE))
    assert all(item.parts[:3] == ("data", "raw", "sample") for item in files)
