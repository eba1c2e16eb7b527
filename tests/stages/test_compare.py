import dataclasses
import shutil

import orjson
import pytest

from harness_core.errors import ModelError, NoDataError
from harness_core.stages import compare, evaluate
from harness_core.stages.dag import (
    CANDIDATE_MODEL,
    CANDIDATES,
    CHAMPION_MODEL,
    EVALUATION,
    HTML_REPORT,
    VERDICT,
    Workspace,
)
from harness_core.tables import read_table, write_table
from harness_core.transitions.table import CANDIDATES as CANDIDATE_ROWS
from tests.features.world import make_config
from tests.stages.small_run import finished_run, write_model


@pytest.fixture(scope="module")
def config(params):
    return params.evaluation.model_copy(update={"n_resamples": 100, "n_subsets": 3})


@pytest.fixture(scope="module")
def judged(tmp_path_factory, params, config):
    workspace = finished_run(tmp_path_factory.mktemp("run"), params)
    evaluate.run(config, workspace)
    return workspace


@pytest.fixture
def workspace(judged, tmp_path) -> Workspace:
    shutil.copytree(judged.root, tmp_path / "run")
    return dataclasses.replace(judged, root=tmp_path / "run")


@pytest.fixture
def run(params, config, workspace):
    def compared():
        report = compare.run(config, params.gate, params.sandbox, workspace)
        return report, orjson.loads(workspace.path(VERDICT).read_bytes())

    return compared


@pytest.mark.parametrize("marker", [True, False])
def test_without_a_champion_the_behaviour_policy_is_the_reference(run, workspace, marker):
    if marker:
        folder = workspace.path(CHAMPION_MODEL)
        folder.mkdir(parents=True)
        (folder / "none.json").write_text('{"champion":null}')
    report, verdict = run()
    assert verdict["promoted_reference"] == "behaviour"
    assert verdict["verdict"] in {"promote", "keep"}
    assert verdict["n_tasks"] > 0
    assert report.figures["summary"] == verdict["summary"]
    assert {"name", "passed", "sentence"} == set(verdict["rules"][0])


def test_labels_won_without_isolation_are_never_promoted(run, workspace):
    path = workspace.path(CANDIDATES)
    rows = [{**row, "trusted": False} for row in read_table(path, CANDIDATE_ROWS).to_pylist()]
    write_table(path, rows, CANDIDATE_ROWS)
    _, verdict = run()
    assert verdict["verdict"] == "keep"
    assert any("without isolation" in reason for reason in verdict["reasons"])


def test_a_champion_is_no_worse_than_itself(run, workspace):
    shutil.copytree(workspace.path(CANDIDATE_MODEL), workspace.path(CHAMPION_MODEL))
    _, verdict = run()
    assert verdict["promoted_reference"] == "champion"
    assert {family["difference"] for family in verdict["families"]} == {0.0}
    assert not any(family["forgotten"] for family in verdict["families"])


def test_a_champion_sees_the_logs_through_its_own_features(run, workspace, params, tmp_path):
    narrow = make_config().model_copy(update={"n_text_dimensions": 2})
    other = finished_run(tmp_path / "other", params, config=narrow)
    write_model(workspace.path(CHAMPION_MODEL), other, params, seed=1)
    _, verdict = run()
    assert verdict["promoted_reference"] == "champion"
    assert verdict["n_tasks"] > 0


def test_a_damaged_champion_is_named(run, workspace):
    shutil.copytree(workspace.path(CANDIDATE_MODEL), workspace.path(CHAMPION_MODEL))
    (workspace.path(CHAMPION_MODEL) / "network.json").write_text("{}")
    with pytest.raises(ModelError, match="champion"):
        run()


def test_equal_inputs_give_an_equal_verdict_and_report(run, workspace):
    run()
    first = [workspace.path(name).read_bytes() for name in (VERDICT, HTML_REPORT)]
    run()
    assert [workspace.path(name).read_bytes() for name in (VERDICT, HTML_REPORT)] == first


def test_evaluation_comes_first(run, workspace):
    workspace.path(EVALUATION).unlink()
    with pytest.raises(NoDataError, match="run the stage evaluate first"):
        run()
