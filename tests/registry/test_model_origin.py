from pathlib import Path

import orjson

from harness_core.controller.manifest import read_manifest
from harness_core.registry.mlflow_registry import MlflowRegistry
from harness_core.registry.mlflow_tracker import MlflowTracker
from harness_core.registry.model_origin import model_origin
from harness_core.registry.store import MlflowStore
from tests.registry.conftest import MakeModel


def test_a_model_is_found_by_its_digest_with_run_revision_and_data(
    store: MlflowStore, make_model: MakeModel, tmp_path: Path
):
    folder = make_model("a")
    lineage = {"git_sha": "abc", "dirty": "true", "dvc": {"data/raw/x": "1234"}}
    (tmp_path / "lineage.json").write_bytes(orjson.dumps(lineage))
    tracker = MlflowTracker(store, experiment="flywheel")
    run_id = tracker.start("run", tags={})
    tracker.attach(run_id, tmp_path / "lineage.json")
    registry = MlflowRegistry(store, experiment="flywheel", model_name="controller")
    version = registry.register(
        folder, run_key="k", run_id=run_id, tags={"dataset_digest": "d", "teacher": ""}
    )
    registry.set_alias("champion", version)
    origin = model_origin(store, read_manifest(folder).digest)
    assert origin is not None
    assert (origin.name, origin.version, origin.aliases) == ("controller", 1, ("champion",))
    assert (origin.run_id, origin.git_revision, origin.teacher) == (run_id, "abc+", None)
    assert (origin.dataset_digest, origin.dvc) == ("d", {"data/raw/x": "1234"})


def test_a_model_that_was_never_registered_has_no_origin(store: MlflowStore):
    assert model_origin(store, "0" * 64) is None


def test_a_version_whose_run_left_no_files_is_still_named(
    store: MlflowStore, make_model: MakeModel
):
    folder = make_model("b")
    registry = MlflowRegistry(store, experiment="flywheel", model_name="controller")
    registry.register(folder, run_key="k", tags={"git_sha": "none"})
    origin = model_origin(store, read_manifest(folder).digest)
    assert origin is not None
    assert (origin.run_id, origin.git_revision, origin.dvc) == ("", None, {})
