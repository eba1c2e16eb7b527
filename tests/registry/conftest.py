"""A tiny model folder, and an MLflow database that is made once and copied for each test."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.manifest import ModelManifest, file_digests, write_manifest
from harness_core.registry.store import MlflowStore, initialise_store

MakeModel = Callable[..., Path]


@pytest.fixture
def make_model(tmp_path: Path) -> MakeModel:
    """`make_model("a")`: a complete model folder whose content depends on its name."""

    def make(name: str) -> Path:
        folder = tmp_path / "models" / name
        (folder / "pipeline").mkdir(parents=True)
        (folder / "weights.safetensors").write_bytes(name.encode())
        (folder / "pipeline" / "schema.json").write_text("{}")
        manifest = ModelManifest(
            learner="iql",
            components=("all_tests",),
            weights={"all_tests": 10.0},
            feature_fingerprint="f" * 64,
            encoders={"task": "e" * 64, "action": "e" * 64},
            combination=CRITIC_ALONE,
            controller=ControllerConfig(
                min_success_probability=0.0, fallback="first", exploration=0.0
            ),
            k_max=8,
            development_tasks=("task/1",),
            files=file_digests(folder),
        )
        write_manifest(folder, manifest)
        return folder

    return make


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> MlflowStore:
    """An empty store; tests must not write to it."""
    return initialise_store(tmp_path_factory.mktemp("fresh") / "mlruns")


@pytest.fixture
def store(fresh_store: MlflowStore, tmp_path: Path) -> MlflowStore:
    shutil.copytree(fresh_store.root, tmp_path / "mlruns")
    return initialise_store(tmp_path / "mlruns")
