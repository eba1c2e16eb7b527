"""What works and what does not on this machine, and what to do about it."""

import importlib.metadata
import shutil
from collections.abc import Callable
from typing import Final

from harness_core.errors import HarnessError
from harness_core.params import Params, load_params
from harness_core.records import Record
from harness_core.stages.dag import Workspace
from harness_core.stages.project import PARAMS

_VENDORS: Final = (
    "torch",
    "lightning",
    "transformers",
    "datasets",
    "mlflow",
    "prefect",
    "dvc",
    "great-expectations",
)
_COMPROMISED: Final = {"lightning": {"2.6.2", "2.6.3"}, "litellm": {"1.82.7", "1.82.8"}}
_MIN_FREE_BYTES: Final = 2 << 30


class Finding(Record):
    """One thing looked at."""

    name: str
    ok: bool
    required: bool
    """Whether the flywheel cannot run without it."""
    detail: str


def examine(workspace: Workspace) -> list[Finding]:
    """Look at everything that a run needs."""
    findings = [_packages(), _parameters(workspace), _disk(workspace)]
    params = _params_or_none(workspace)
    if params is not None:
        findings += [_isolation(params), _encoder(params)]
    return [*findings, _accelerator(), _registry(workspace)]


def in_words(findings: list[Finding]) -> str:
    """One line a finding, and what it comes to."""
    lines = [f"{'ok ' if item.ok else '!! '} {item.name}: {item.detail}" for item in findings]
    broken = [item.name for item in findings if item.required and not item.ok]
    last = f"not ready: {', '.join(broken)}" if broken else "ready"
    return "\n".join([*lines, last])


def _packages() -> Finding:
    found = {name: _version(name) for name in _VENDORS}
    missing = [name for name, version in found.items() if version is None]
    bad = [name for name, versions in _COMPROMISED.items() if _version(name) in versions]
    if missing or bad:
        detail = f"missing: {missing or 'none'}; compromised release: {bad or 'none'}"
    else:
        detail = ", ".join(f"{name} {version}" for name, version in found.items())
    return Finding(name="packages", ok=not missing and not bad, required=True, detail=detail)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _params_or_none(workspace: Workspace) -> Params | None:
    try:
        return load_params(workspace.path(PARAMS))
    except HarnessError:
        return None


def _parameters(workspace: Workspace) -> Finding:
    path = workspace.path(PARAMS)
    if not path.exists():
        detail = "no params.yaml here yet; the first command writes one"
        return Finding(name="parameters", ok=True, required=False, detail=detail)
    return _attempt("parameters", lambda: f"{path.name} is valid ({load_params(path) and path})")


def _disk(workspace: Workspace) -> Finding:
    folder = workspace.root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / (1 << 30):.1f} GiB free at {folder}"
    return Finding(name="disk", ok=free >= _MIN_FREE_BYTES, required=True, detail=detail)


def _isolation(params: Params) -> Finding:
    from harness_core.sandbox.api import describe  # noqa: PLC0415  # starts processes

    return _attempt("isolation", lambda: describe(params.sandbox))


def _encoder(params: Params) -> Finding:
    from harness_core.features.encoder import open_encoder  # noqa: PLC0415  # brings transformers

    def fingerprint() -> str:
        encoder = open_encoder(params.features.encoder)
        return f"{params.features.encoder.name}, fingerprint {encoder.fingerprint[:12]}"

    return _attempt("encoder", fingerprint)


def _accelerator() -> Finding:
    import torch  # noqa: PLC0415  # two seconds, only here

    if torch.cuda.is_available():
        detail = f"GPU: {torch.cuda.get_device_name(0)}"
    else:
        detail = f"no GPU; CPU with {torch.get_num_threads()} threads is enough"
    return Finding(name="accelerator", ok=True, required=False, detail=detail)


def _registry(workspace: Workspace) -> Finding:
    database = workspace.path("mlruns/mlflow.db")
    if not database.exists():
        detail = "no MLflow database yet; the first registration makes it"
    else:
        detail = f"MLflow database of {database.stat().st_size / (1 << 20):.1f} MiB"
    return Finding(name="registry", ok=True, required=False, detail=detail)


def _attempt(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, ok=True, required=True, detail=look())
    except HarnessError as error:
        return Finding(name=name, ok=False, required=True, detail=str(error))
