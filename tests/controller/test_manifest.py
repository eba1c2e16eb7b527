import json
from pathlib import Path

import pytest

from harness_core.controller.abstention import Abstention
from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.manifest import (
    ModelManifest,
    file_digests,
    read_manifest,
    write_manifest,
)
from harness_core.errors import ModelError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "schema.json").write_text("{}")
    (tmp_path / "weights.safetensors").write_bytes(b"weights")
    write_manifest(
        tmp_path,
        ModelManifest(
            learner="iql",
            components=("all_tests",),
            weights={"all_tests": 10.0},
            feature_fingerprint="f" * 64,
            encoders={"task": "hashed"},
            combination=CRITIC_ALONE,
            controller=ControllerConfig(
                min_success_probability=0.0, fallback="first", exploration=0.0
            ),
            k_max=8,
            development_tasks=("a", "b"),
            files=file_digests(tmp_path),
        ),
    )
    return tmp_path


def test_a_written_manifest_reads_back(folder: Path):
    manifest = read_manifest(folder)
    assert manifest.files.keys() == {"pipeline/schema.json", "weights.safetensors"}
    assert manifest.digest == read_manifest(folder).digest


def test_a_folder_without_manifest_is_incomplete(tmp_path: Path):
    with pytest.raises(ModelError, match="manifest.json is missing"):
        read_manifest(tmp_path)


def test_a_changed_weight_is_noticed(folder: Path):
    (folder / "weights.safetensors").write_bytes(b"other")
    with pytest.raises(ModelError, match="weights.safetensors is missing, added or changed"):
        read_manifest(folder)


def test_a_planted_file_is_noticed(folder: Path):
    (folder / "code.py").write_text("import os")
    with pytest.raises(ModelError, match="code.py"):
        read_manifest(folder)


def test_an_unknown_format_is_refused_by_name(folder: Path):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(ModelError, match="format_version"):
        read_manifest(folder)


def test_a_model_from_before_abstention_still_loads_and_keeps_its_digest():
    """The digest of this manifest, as it was registered before there were the later fields."""
    content = {
        "format_version": 1,
        "learner": "iql",
        "components": ["all_tests"],
        "weights": {"all_tests": 10.0},
        "feature_fingerprint": "f" * 64,
        "encoders": {"task": "hashed"},
        "combination": {"weights": {"critic": 1.0}, "slope": 1.0, "intercept": 0.0},
        "controller": {"min_success_probability": 0.0, "fallback": "first", "exploration": 0.0},
        "k_max": 8,
        "development_tasks": ["a", "b"],
        "files": {"x": "0" * 64},
    }
    old = ModelManifest.model_validate_json(json.dumps(content))
    assert old.digest == "dcc50ead06c484c5316355b2a7f2281bb75b256a26555e9517e7b158c9fb800b"
    assert old.controller.abstention == "none"
    assert old.controller.max_strangeness == 1.0
    for update in (
        {"controller": old.controller.model_copy(update={"max_risk": 0.2})},
        {
            "abstention": Abstention(
                n_tasks=0, group_size=8, n_looks=8, points=(), mean_value=None, spread=()
            )
        },
    ):
        assert old.model_copy(update=update).digest != old.digest
