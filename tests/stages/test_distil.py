"""A whole distillation of a tiny transformer: the student is a model like any other, and faster."""

from pathlib import Path

import orjson
import pytest

from harness_core.controller.controller import Controller
from harness_core.controller.manifest import read_manifest
from harness_core.errors import FingerprintMismatch, ParameterError
from harness_core.features.config import FeatureConfig
from harness_core.features.hashed import HashedEncoder
from harness_core.features.load import SCHEMA_FILE
from harness_core.features.table import FeatureSchema
from harness_core.params import Params
from harness_core.stages import distil, features, train
from harness_core.stages.dag import CANDIDATE_MODEL, FEATURES, FOLD_MODELS, STUDENT_MODEL, Workspace
from harness_core.stages.project import prepare_project
from harness_core.stages.score import model_folder
from harness_core.tables import tree_digest
from tests.features import world as worlds
from tests.features.test_encoders import tiny_folder  # noqa: F401  # a fixture
from tests.features.world import make_config
from tests.stages.small_run import finished_run, world_without_programs


@pytest.fixture(scope="module")
def small(params: Params) -> Params:
    quick = {
        "hidden_sizes": (4,),
        "batch_size": 16,
        "n_groups": 4,
        "group_sizes": (2,),
        "max_updates": 4,
        "check_every": 2,
        "trees": params.train.trees.model_copy(update={"n_trees": 3, "n_members": 1}),
    }
    judged = {"group_sizes": (2,), "headline_size": 2, "n_resamples": 50}
    return params.model_copy(
        update={
            "train": params.train.model_copy(update=quick),
            "distil": params.distil.model_copy(
                update={"hidden_sizes": (4,), "n_text_dimensions": 4, "max_gap_loss": 1.0}
            ),
            "evaluation": params.evaluation.model_copy(update=judged),
        }
    )


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, tiny_folder, small) -> Workspace:  # noqa: F811  # the fixture
    """Features of a transformer and a model that learnt from them, in three folds."""
    two_folds = worlds._task_columns

    def three_folds(trajectory):
        columns = two_folds(trajectory)
        number = int(columns["task_id"].rpartition("/")[2])
        return columns if columns["fold"] < 0 else {**columns, "fold": number % 3}

    root: Path = tmp_path_factory.mktemp("distil")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "_task_columns", three_folds)
        workspace = world_without_programs().write(root)
    prepare_project(root)
    features.run(transformer(tiny_folder), small.sandbox, workspace)
    train.run(small.train, small.rewards, small.controller, workspace)
    return workspace


def transformer(folder: Path) -> FeatureConfig:
    config = make_config()
    encoder = config.encoder.model_copy(update={"name": "folder", "path": str(folder)})
    return config.model_copy(update={"encoder": encoder})


@pytest.fixture(scope="module")
def result(workspace, small):
    before = {path: tree_digest(workspace.path(path)) for path in theirs()}
    made = distil.run(small, workspace, register=False)
    assert {path: tree_digest(workspace.path(path)) for path in theirs()} == before
    return made


def theirs() -> tuple[str, ...]:
    return (CANDIDATE_MODEL, FOLD_MODELS, FEATURES)


def test_the_student_names_its_teacher_and_has_a_fingerprint_of_its_own(workspace, result):
    teacher = read_manifest(workspace.path(CANDIDATE_MODEL))
    student = read_manifest(workspace.path(STUDENT_MODEL))
    assert teacher.teacher is None
    assert student.teacher == teacher.digest == result["teacher"]["digest"]
    assert student.feature_fingerprint != teacher.feature_fingerprint
    assert set(student.encoders.values()) == {HashedEncoder().fingerprint}
    assert student.development_tasks == teacher.development_tasks


def test_the_student_decides_like_any_model(workspace, result):
    controller = Controller.load(model_folder("student", workspace))
    decision = controller.select(
        {"description": "How many?", "language": "sql"},
        [{"text": "SELECT 1"}, {"text": "SELECT count(*) FROM t"}],
    )
    assert decision.chosen_index in {0, 1}
    assert decision.model_digest == result["student"]["digest"]


def test_both_are_judged_on_the_same_tasks(workspace, result):
    written = orjson.loads(workspace.path(distil.REPORT).read_bytes())
    assert written == result
    assert result["headline"]["n_tasks"] > 0
    assert result["kept"] is True
    assert set(result["within_task_auc"]) == {"teacher", "student"}
    assert "held-out tasks" in distil.as_words(result)


def test_a_loss_that_is_not_known_is_too_much(small):
    assert not distil._is_kept({"n_tasks": 0}, small.distil)
    assert not distil._is_kept(
        {"gap_lost": 0.03}, small.distil.model_copy(update={"max_gap_loss": 0.02})
    )
    assert distil._is_kept({"gap_lost": -0.1}, small.distil)


def test_features_that_changed_since_training_are_refused(workspace, small, result):
    path = workspace.path(FEATURES) / SCHEMA_FILE
    before = path.read_bytes()
    schema = FeatureSchema.model_validate_json(before)
    try:
        other = schema.model_copy(update={"fingerprint": "0" * 64})
        path.write_text(other.model_dump_json())
        with pytest.raises(FingerprintMismatch):
            distil.run(small, workspace, register=False)
    finally:
        path.write_bytes(before)


def test_a_teacher_without_a_transformer_has_no_students(tmp_path, small):
    hashed = finished_run(tmp_path, small)
    with pytest.raises(ParameterError, match="no transformer"):
        distil.run(small, hashed, register=False)
