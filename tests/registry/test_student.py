"""Students are registered under a name of their own, beside the model that they learnt from."""

from pathlib import Path

import pytest

from harness_core.controller.config import REQUIRED, ControllerConfig
from harness_core.controller.manifest import read_manifest, write_manifest
from harness_core.params import Params
from harness_core.registry.mlflow_registry import MlflowRegistry
from harness_core.registry.side_runs import SideRun
from harness_core.registry.store import MlflowStore
from harness_core.registry.versions import CHALLENGER, CHAMPION
from harness_core.stages.dag import Workspace
from harness_core.stages.register import register_student
from harness_core.tables import combine_digests, tree_digest


def student_folder(make_model, name: str) -> Path:
    folder: Path = make_model(name)
    taught = read_manifest(folder).model_copy(update={"teacher": "t" * 64})
    write_manifest(folder, taught)
    return folder


def side_run(key: str) -> SideRun:
    figures = {"headline": {"gap_lost": 0.01}}
    return SideRun(
        kind="distil", key=key, params={"distil": 1}, figures=figures, note="lost little"
    )


@pytest.fixture
def workspace(store: MlflowStore) -> Workspace:
    return Workspace(store.root.parent)


def test_a_student_becomes_champion_of_its_own_name_only(
    workspace, store, make_model, params: Params, tmp_path
):
    folder = student_folder(make_model, "a")
    found = register_student(
        params.registry, workspace, side_run("one"), folder=folder, is_good=True
    )
    assert found["model_name"] == f"{params.registry.model_name}-student"
    assert found["promoted"]
    home = params.registry.experiment
    students = MlflowRegistry(store, experiment=home, model_name=found["model_name"])
    version = students.describe(int(found["model_version"]))
    assert version.tags["teacher"] == "t" * 64
    assert version.run_id == found["run_id"]
    students.fetch(version.version, tmp_path / "fetched")
    assert tree_digest(tmp_path / "fetched") == tree_digest(folder)
    teachers = MlflowRegistry(store, experiment=home, model_name=params.registry.model_name)
    assert teachers.get_alias(CHAMPION) is None
    again = register_student(
        params.registry, workspace, side_run("one"), folder=folder, is_good=True
    )
    assert again == found


def test_a_student_that_lost_too_much_is_a_challenger_and_no_champion(
    workspace, store, make_model, params: Params
):
    found = register_student(
        params.registry,
        workspace,
        side_run("two"),
        folder=student_folder(make_model, "b"),
        is_good=False,
    )
    assert not found["promoted"]
    students = MlflowRegistry(
        store, experiment=params.registry.experiment, model_name=found["model_name"]
    )
    assert students.get_alias(CHALLENGER) == int(found["model_version"])
    assert students.get_alias(CHAMPION) is None


def test_a_model_that_was_registered_before_there_were_students_keeps_its_digest(make_model):
    manifest = read_manifest(make_model("c"))
    later = dict.fromkeys(("teacher", "steering", "abstention", "ran_programs"), True)
    as_before = manifest.model_dump_json(
        exclude={**later, "controller": ControllerConfig.model_fields.keys() - REQUIRED}
    )
    assert manifest.digest == combine_digests([("manifest", as_before)])
    taught = manifest.model_copy(update={"teacher": "t" * 64})
    assert taught.digest != manifest.digest
