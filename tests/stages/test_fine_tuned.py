"""A fine-tuned encoder through the stages: whoever it learnt from is not judged."""

import pytest

from harness_core.features.load import load_groups, read_schema
from harness_core.stages import evaluate, features
from harness_core.stages.calibrate_tables import read_small_part
from tests.features.test_encoders import tiny_folder
from tests.features.test_tuning import config_of
from tests.stages.small_run import finished_run, world_without_programs

__all__ = ["tiny_folder"]  # a fixture


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, params, tiny_folder):
    root = tmp_path_factory.mktemp("run")
    return finished_run(root, params, config=config_of(tiny_folder))


def test_tasks_that_the_encoder_learnt_from_are_left_out_of_every_figure(workspace, params):
    config = params.evaluation.model_copy(update={"n_resamples": 50, "n_subsets": 2})
    report = evaluate.run(config, workspace)
    seen = set(read_schema(workspace).encoder_tasks)
    tasks = {group.task_id for group in load_groups(workspace)}
    assert seen
    assert report.figures["n_tasks"] == len(tasks - seen)


def test_no_reward_weight_is_chosen_on_them_either(workspace, params):
    config = params.calibration.model_copy(update={"task_share": 1.0})
    part = read_small_part(config, workspace)
    assert not {group.task_id for group in part.groups} & set(read_schema(workspace).encoder_tasks)


def test_the_stage_reports_what_the_encoder_learnt_from_and_repeats_it(
    tmp_path, params, tiny_folder
):
    workspace = world_without_programs().write(tmp_path)
    first, second = (
        features.run(config_of(tiny_folder), params.sandbox, workspace) for _ in range(2)
    )
    assert first == second
    assert first.figures["finetune"]["n_tasks"] == len(read_schema(workspace).encoder_tasks)
