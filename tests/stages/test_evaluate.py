import orjson
import pytest

from harness_core.errors import ModelError, NoDataError
from harness_core.evaluation.evaluate import evaluate_model
from harness_core.evaluation.model_folders import load_cross_fit
from harness_core.features.load import load_groups
from harness_core.stages import evaluate
from harness_core.stages.dag import CANDIDATE_MODEL, EVALUATION, FOLD_MODELS, PLOTS, Workspace
from tests.stages.small_run import finished_run, write_model


@pytest.fixture(scope="module")
def config(params):
    return params.evaluation.model_copy(update={"n_resamples": 100, "n_subsets": 3})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, params):
    return finished_run(tmp_path_factory.mktemp("run"), params)


def test_the_stage_writes_what_others_read(workspace, config):
    report = evaluate.run(config, workspace)
    content = workspace.path(EVALUATION).read_bytes()
    evaluation = orjson.loads(content)
    assert set(evaluation["k"]) == {"1", "2", "4", "8", "16", "all"}
    assert evaluation["headline"]["n_tasks"] > 0
    assert report.figures["selected"] == evaluation["headline"]["selected"]
    assert (workspace.path(PLOTS) / "k_curve.csv").exists()
    assert (workspace.path(PLOTS) / "k_curve.png").exists()
    plots = {path.name: path.read_bytes() for path in workspace.path(PLOTS).iterdir()}
    evaluate.run(config, workspace)
    assert workspace.path(EVALUATION).read_bytes() == content
    assert {path.name: path.read_bytes() for path in workspace.path(PLOTS).iterdir()} == plots


def test_a_final_model_alone_may_not_judge_what_it_learnt_from(workspace, tmp_path):
    with pytest.raises(ModelError, match="no fold models"):
        load_cross_fit(workspace.path(CANDIDATE_MODEL), tmp_path)


def test_a_fold_model_without_its_combination_is_refused(params, tmp_path, config):
    workspace = finished_run(tmp_path, params)
    (workspace.path(FOLD_MODELS) / "0" / "combination.json").unlink()
    with pytest.raises(ModelError, match=r"combination\.json is missing"):
        evaluate.run(config, workspace)


def test_foreign_logs_are_judged_by_one_model_and_known_tasks_left_out(workspace, config, params):
    groups = load_groups(workspace)
    seen = groups[0].task_id
    folder = workspace.root / "foreign"
    write_model(folder, workspace, params, seed=0, development_tasks=(seen,))
    result = evaluate_model(folder, groups, config)
    assert result["n_tasks_seen_in_training"] == 1
    assert result["n_tasks"] == len({group.task_id for group in groups}) - 1
    assert "boosted_trees" not in result["k"]["2"]["baselines"]
    assert any("1 tasks were left out" in sentence for sentence in result["warnings"])
    with pytest.raises(NoDataError, match="other logs"):
        evaluate_model(folder, [group for group in groups if group.task_id == seen], config)


def test_without_models_there_is_nothing_to_judge(config, tmp_path):
    with pytest.raises((ModelError, NoDataError)):
        evaluate.run(config, Workspace(tmp_path))
