from pathlib import Path

import orjson
import pytest

from harness_core.params import Params
from harness_core.simulation.problems import load_problems
from harness_core.stages import sample
from harness_core.stages.dag import Workspace
from harness_core.stages.report import StageReport


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sample")


@pytest.fixture(scope="module")
def report(params: Params, root: Path) -> StageReport:
    config = params.sample.model_copy(update={"n_runs": 2})
    return sample.run(config, params.sandbox, Workspace(root))


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


def test_the_stage_writes_below_its_workspace_only(report: StageReport, root: Path):
    assert str(root) not in report.model_dump_json()
    files = [item.relative_to(root) for item in root.rglob("*") if item.is_file()]
    assert all(item.parts[:3] == ("data", "raw", "sample") for item in files)
