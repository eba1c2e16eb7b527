"""DVC: versions what the flow has already made. It never runs a stage."""

import subprocess
import sys
from typing import Any

import yaml
from dvc.utils.serialize import modify_yaml

from harness_core.errors import HarnessError
from harness_core.stages.dag import RAW, STAGES, Workspace
from harness_core.stages.project import PARAMS, PIPELINE, locked_digests


def set_params(workspace: Workspace, values: dict[str, Any]) -> None:
    """Write `section.key` → value into `params.yaml`, keeping its comments."""
    with modify_yaml(str(workspace.path(PARAMS))) as document:
        for name, value in values.items():
            *parents, leaf = name.split(".")
            node = document
            for part in parents:
                node = node[part]
            node[leaf] = value


def snapshot(workspace: Workspace) -> dict[str, str]:
    """Record the present data and outputs; return the DVC digest of each output by path.

    Raw logs that no stage writes are added as data of their own; every stage of `dvc.yaml` is
    committed as it stands, so that `dvc repro` has nothing to do afterwards.
    """
    if not workspace.path(".dvc").exists():
        has_git = workspace.path(".git").exists()
        _dvc(workspace, "init", "--quiet", *([] if has_git else ["--no-scm"]))
        _dvc(workspace, "config", "core.analytics", "false")
        _dvc(workspace, "config", "core.check_update", "false")
    for source in own_sources(workspace):
        _dvc(workspace, "add", "--quiet", f"{RAW}/{source}")
    _dvc(workspace, "commit", "--quiet", "--force")
    return locked_digests(workspace)


def own_sources(workspace: Workspace) -> list[str]:
    """Landed sources that no stage of the working folder's `dvc.yaml` writes."""
    made = {out for stage in pipeline_stages(workspace) for out in STAGES[stage].outs}
    folders = sorted(path for path in workspace.path(RAW).iterdir() if path.is_dir())
    return [folder.name for folder in folders if f"{RAW}/{folder.name}" not in made]


def pipeline_stages(workspace: Workspace) -> list[str]:
    """Names of the stages in the working folder's `dvc.yaml`."""
    document = yaml.safe_load(workspace.path(PIPELINE).read_text(encoding="utf-8"))
    return list(document["stages"])


def _dvc(workspace: Workspace, *arguments: str) -> None:
    """Run DVC in the working folder: its interface in Python takes the current folder for it."""
    command = [sys.executable, "-m", "dvc", *arguments]
    done = subprocess.run(  # noqa: S603  # our own interpreter, constant arguments
        command, cwd=workspace.root, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise HarnessError(f"dvc {' '.join(arguments)} failed in {workspace.root}: {said}")
