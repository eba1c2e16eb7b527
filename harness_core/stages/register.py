"""Registration: one run with its lineage in MLflow, one model version, and the aliases.

Not a stage of the table: it changes the world outside the working folder's data. The order is
artifacts, run finished, model version, `challenger`, `previous`, and `champion` last; whatever is
interrupted is completed by doing it again.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from harness_core.controller.manifest import FILE_NAME, read_manifest
from harness_core.errors import ParameterError
from harness_core.params import Params, load_params
from harness_core.registry import champion as champions
from harness_core.registry.config import RegistryConfig
from harness_core.registry.lineage import log_run
from harness_core.registry.promotion import publish
from harness_core.registry.runs import RunContext
from harness_core.registry.side_runs import SideRun, log_side_run
from harness_core.registry.store import MlflowStore, initialise_store
from harness_core.registry.versions import CHAMPION, MODEL_DIGEST
from harness_core.stages.dag import CANDIDATE_MODEL, CHAMPION_MODEL, EVALUATION, VERDICT, Workspace
from harness_core.stages.project import PARAMS
from harness_core.stages.report import StageReport
from harness_core.stages.run_contents import existing_file, gather, read_json
from harness_core.tables import combine_digests, file_digest

if TYPE_CHECKING:
    from harness_core.registry.mlflow_registry import MlflowRegistry
    from harness_core.registry.mlflow_tracker import MlflowTracker

STORE: Final = "mlruns"
"""Folder of MLflow's database and artifacts, below the working folder."""

VERSIONS: Final = ".harness/models"
_UI: Final = "http://127.0.0.1:5000"


def run_context(
    workspace: Workspace,
    params: Params,
    *,
    dvc_digests: Mapping[str, str],
    run_name: str | None = None,
) -> RunContext:
    """What identifies the present state of the working folder as a run.

    The key is made of the model, its evaluation and the parameters: the same ones are registered
    once, whatever is asked.
    """
    parameters = params.model_dump(mode="json")
    key = combine_digests(
        [
            ("model", read_manifest(workspace.path(CANDIDATE_MODEL)).digest),
            ("evaluation", file_digest(existing_file(workspace, EVALUATION))),
            ("params", orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS).hex()),
        ]
    )[:32]
    git_sha = _git(workspace.root, "rev-parse", "HEAD")
    return RunContext(
        run_name=run_name or f"{params.registry.experiment}-{key[:8]}",
        run_key=key,
        params=parameters,
        git_sha=git_sha,
        dirty=git_sha is not None and bool(_git(workspace.root, "status", "--porcelain")),
        data_digests=dict(sorted(dvc_digests.items())),
    )


def run(registry: RegistryConfig, workspace: Workspace, *, run_context: RunContext) -> StageReport:
    """Record the run, register the candidate model, move the aliases as the verdict says."""
    manifest = read_manifest(workspace.path(CANDIDATE_MODEL))
    verdict = read_json(workspace, VERDICT)
    store = initialise_store(workspace.path(STORE))
    with store.publishing(), tempfile.TemporaryDirectory() as scratch:
        contents = gather(workspace, run_context, manifest, verdict, scratch=Path(scratch))
        run_id = log_run(_tracker(store, registry), run_context, contents)
        versions = _registry(store, registry)
        version = versions.register(
            workspace.path(CANDIDATE_MODEL),
            run_key=run_context.run_key,
            run_id=run_id,
            tags={name: text for name, text in contents.tags.items() if "." not in name},
        )
        is_champion = publish(versions, version, is_better=verdict["verdict"] == "promote")
    return StageReport(
        stage="register",
        key=run_context.run_key,
        figures={
            "run_id": run_id,
            "model_version": str(version),
            "promoted": is_champion,
            "verdict": verdict["verdict"],
            "tracking_uri": store.tracking_uri,
        },
    )


def record_side_run(
    registry: RegistryConfig, workspace: Workspace, side_run: SideRun
) -> dict[str, str]:
    """Record a run that registers nothing; return its id and where it is shown."""
    store = initialise_store(workspace.path(STORE))
    with store.publishing():
        run_id = log_side_run(_tracker(store, registry), side_run)
    return {"run_id": run_id, "run_url": run_url(workspace, run_id)}


def register_student(
    registry: RegistryConfig,
    workspace: Workspace,
    side_run: SideRun,
    *,
    folder: Path,
    is_good: bool,
) -> dict[str, Any]:
    """Record a distillation and register its student, which has a name and aliases of its own.

    A student that lost too much is registered too, as `challenger` only.
    """
    config = registry.model_copy(update={"model_name": f"{registry.model_name}-student"})
    manifest = read_manifest(folder)
    store = initialise_store(workspace.path(STORE))
    with store.publishing():
        run_id = log_side_run(_tracker(store, registry), side_run)
        versions = _registry(store, config)
        version = versions.register(
            folder,
            run_key=f"{side_run.kind}/{side_run.key}",
            run_id=run_id,
            tags={
                "feature_fingerprint": manifest.feature_fingerprint,
                "teacher": manifest.teacher or "",
            },
        )
        is_champion = publish(versions, version, is_better=is_good)
    return {
        "run_id": run_id,
        "run_url": run_url(workspace, run_id),
        "model_name": config.model_name,
        "model_version": str(version),
        "promoted": is_champion,
    }


def fetch_champion(
    workspace: Workspace, *, registry: RegistryConfig | None = None, keep_reference: bool = False
) -> str | None:
    """Bring `data/models/champion` up to date; return the champion's version, None without one.

    With `keep_reference` the folder is left as it is when the candidate model itself is the
    champion: it has won its comparison, and has nothing to prove against itself.
    """
    config = registry or _config(workspace)
    target = workspace.path(CHAMPION_MODEL)
    store = _existing_store(workspace)
    found = None if store is None else store.alias(config.model_name, CHAMPION)
    if keep_reference and found and _is_candidate(workspace, found.tags.get(MODEL_DIGEST)):
        return str(found.version)
    if store is None or found is None:
        champions.put_none(target)
        return None
    # Usually nothing has changed, and then MLflow need not be imported.
    if champions.held_digest(target) != found.tags.get(MODEL_DIGEST):
        champions.fetch_champion(_registry(store, config), target)
    return str(found.version)


def _is_candidate(workspace: Workspace, digest: str | None) -> bool:
    folder = workspace.path(CANDIDATE_MODEL)
    return (folder / FILE_NAME).exists() and read_manifest(folder).digest == digest


def describe_champion(registry: RegistryConfig, workspace: Workspace) -> dict[str, Any]:
    """The champion for people; `{"champion": null}` while there is none."""
    store = _existing_store(workspace)
    found = None if store is None else champions.describe_champion(_registry(store, registry))
    if store is None or found is None:
        return {"champion": None}
    return {"champion": found, "metrics": store.metrics(found["run_id"], prefix="eval/headline/")}


def fetch_version(name: str, workspace: Workspace) -> Path:
    """The model folder of a version, given by number or alias.

    Raises:
        ParameterError: there is no such version or alias.
    """
    config, store = _config(workspace), _existing_store(workspace)
    if store is None:
        raise ParameterError(f"--model {name}: nothing is registered below {workspace.root}")
    versions = _registry(store, config)
    version = int(name) if name.isdecimal() else versions.get_alias(name)
    if version is None:
        raise ParameterError(
            f"--model {name}: there is no such folder, version or alias (aliases exist once a "
            "model has been registered, `champion` once one has been promoted)"
        )
    target = workspace.path(f"{VERSIONS}/{version}")
    if champions.held_digest(target) != versions.describe(version).tags.get(MODEL_DIGEST):
        versions.fetch(version, target)
    return target


def run_url(workspace: Workspace, run_id: str) -> str:
    """Where the run is shown once `make ui` has started the page."""
    experiment = MlflowStore(workspace.path(STORE).resolve()).experiment_of(run_id)
    return f"{_UI}/#/experiments/{experiment}/runs/{run_id}"


def _tracker(store: MlflowStore, config: RegistryConfig) -> "MlflowTracker":
    from harness_core.registry.mlflow_tracker import MlflowTracker  # noqa: PLC0415  # seconds

    return MlflowTracker(store, experiment=config.experiment)


def _registry(store: MlflowStore, config: RegistryConfig) -> "MlflowRegistry":
    from harness_core.registry.mlflow_registry import MlflowRegistry  # noqa: PLC0415  # seconds

    return MlflowRegistry(store, experiment=config.experiment, model_name=config.model_name)


def _existing_store(workspace: Workspace) -> MlflowStore | None:
    root = workspace.path(STORE)
    return initialise_store(root) if MlflowStore(root).database.exists() else None


def _config(workspace: Workspace) -> RegistryConfig:
    return load_params(workspace.path(PARAMS)).registry


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers in a folder; None without git or outside a repository."""
    try:
        done = subprocess.run(  # noqa: S603  # constant arguments
            ["git", "-C", str(folder), *arguments],  # noqa: S607  # the user's git
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
