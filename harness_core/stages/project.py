"""A working folder of its own: parameters, tool policy, guidance, `dvc.yaml`; what DVC locked."""

from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

from harness_core.stages.dag import GUIDANCE, POLICY, RAW, STAGES, StageSpec, Workspace
from harness_core.tables import publish_bytes

PARAMS: Final = "params.yaml"
PIPELINE: Final = "dvc.yaml"


def prepare_project(root: Path, *, with_sample: bool = True) -> Workspace:
    """Make `root` a working folder; files that exist are left as they are.

    Args:
        root: the folder, made if need be.
        with_sample: whether a new `dvc.yaml` begins with the stage that writes sample logs; a
            folder for somebody's own logs has no use for it.
    """
    workspace = Workspace(root.resolve())
    workspace.root.mkdir(parents=True, exist_ok=True)
    for name in (PARAMS, POLICY, GUIDANCE):
        if not workspace.path(name).exists():
            publish_bytes(workspace.path(name), shipped(name))
    pipeline = workspace.path(PIPELINE)
    if not pipeline.exists():
        document = pipeline_document(with_sample=with_sample)
        text = yaml.safe_dump(document, sort_keys=False, width=100)
        publish_bytes(pipeline, text.encode())
    return workspace


def shipped(name: str) -> bytes:
    """The `params.yaml`, `policy.yaml` or `guidance.yaml` that ships with the library."""
    packaged = resources.files("harness_core.stages").joinpath(name)
    if packaged.is_file():
        return packaged.read_bytes()
    # In a checkout the file stands where people look for it, and the wheel copies it in.
    return (Path(__file__).parents[2] / name).read_bytes()


def locked_digests(workspace: Workspace) -> dict[str, str]:
    """Path → DVC digest, from `dvc.lock` and the pointers of raw sources."""
    digests: dict[str, str] = {}
    lock = workspace.path("dvc.lock")
    documents = [lock, *sorted(workspace.path(RAW).glob("*.dvc"))]
    for path in (path for path in documents if path.exists()):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = document.get("stages", {}).values() if path == lock else [document]
        prefix = "" if path == lock else f"{RAW}/"
        for out in (out for entry in entries for out in entry.get("outs", ())):
            digests[prefix + out["path"]] = out["md5"]
    return digests


def pipeline_document(*, with_sample: bool = True) -> dict[str, Any]:
    """The content of `dvc.yaml`, from the table of stages."""
    return {
        "stages": {
            name: _stage(name, spec)
            for name, spec in STAGES.items()
            if with_sample or name != "sample"
        }
    }


def _stage(name: str, spec: StageSpec) -> dict[str, Any]:
    entry: dict[str, Any] = {"cmd": f"harness {spec.verb or name}"}
    if spec.deps:
        entry["deps"] = list(spec.deps)
    entry["params"] = list(spec.params)
    if spec.outs:
        entry["outs"] = list(spec.outs)
    if spec.metrics:
        entry["metrics"] = [{path: {"cache": False}} for path in spec.metrics]
    if spec.plots:
        entry["plots"] = [{path: {"cache": False}} for path in spec.plots]
    return entry
