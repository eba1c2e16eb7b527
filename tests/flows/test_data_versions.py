"""DVC keeps the raw logs: an earlier revision gives the earlier data set back."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.snapshot import own_sources, set_params, snapshot
from harness_core.params import load_params
from harness_core.stages.dag import STAGES
from harness_core.stages.project import locked_digests, prepare_project
from harness_core.stages.sources import land_source

pytestmark = pytest.mark.slow


def _git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def _write_outputs(root: Path) -> None:
    """Stand-ins for the outputs of stages: this test is about raw logs."""
    for spec in STAGES.values():
        for path in (*spec.outs, *spec.metrics, *spec.plots):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() and not path.startswith("data/raw"):
                target.write_text("{}", encoding="utf-8")


def test_an_earlier_revision_gives_the_earlier_logs_back(tmp_path: Path, project_root: Path):
    logs = tmp_path / "support.jsonl"
    root = tmp_path / "project"
    root.mkdir()
    _git(root, "init", "-q")
    shutil.copy(project_root / ".gitignore", root)
    workspace = prepare_project(root, with_sample=False)
    revisions = {"first": '{"problem_id": "a"}\n', "second": '{"problem_id": "b"}\n'}
    for name, content in revisions.items():
        logs.write_text(content, encoding="utf-8")
        land_source(logs, "native", workspace)
        _write_outputs(root)
        snapshot(workspace)
        _git(root, "add", "-A")
        _git(root, "commit", "-q", "-m", name)
        _git(root, "tag", name)
    landed = next((root / "data/raw/support").glob("*.jsonl"))
    assert landed.read_text(encoding="utf-8") == revisions["second"]
    _git(root, "checkout", "-q", "first")
    subprocess.run([sys.executable, "-m", "dvc", "checkout", "-q"], cwd=root, check=True)
    assert landed.read_text(encoding="utf-8") == revisions["first"]
    assert own_sources(workspace) == ["support"]
    assert "data/raw/support" in locked_digests(workspace)


def test_writing_a_parameter_keeps_the_comments(tmp_path: Path):
    workspace = prepare_project(tmp_path)
    set_params(workspace, {"train.iql.expectile": 0.75, "ingest.sources": ["mine"]})
    text = (tmp_path / "params.yaml").read_text(encoding="utf-8")
    assert text.startswith("# What is run.")
    changed = load_params(tmp_path / "params.yaml")
    assert changed.train.iql.expectile == 0.75
    assert changed.ingest.sources == ("mine",)
