"""Judge a model on logs that it was never trained on, for `harness evaluate --source`."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness_core.evaluation.evaluate import evaluate_model
from harness_core.features.execution import needs_running
from harness_core.features.interim import InterimTables
from harness_core.features.load import groups_from
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import SandboxRunner, run_limits
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.stages.dag import POLICY, Workspace
from harness_core.stages.execute import execute
from harness_core.stages.score import model_folder
from harness_core.stages.sources import land_source
from harness_core.tables import publish_bytes


def evaluate_foreign(
    params: Params, workspace: Workspace, sources: Sequence[tuple[Path, str]], *, model: str
) -> dict[str, Any]:
    """Ingest, grade and featurise the logs in a scratch folder, then judge the model on them.

    Tasks that the model may have learnt from are left out and counted: what remains is held out.

    Raises:
        NoDataError: no task is left.
    """
    folder = model_folder(model, workspace)
    names = hashlib.sha256(repr([(str(p.resolve()), f) for p, f in sources]).encode()).hexdigest()
    scratch = Workspace(
        workspace.root / ".harness" / "evaluate" / names[:16], shared_cache=workspace.cache
    )
    landed = [land_source(path, name, scratch) for path, name in sources]
    publish_bytes(scratch.path(POLICY), workspace.path(POLICY).read_bytes())
    ingest = params.ingest.model_copy(update={"sources": tuple(landed)})
    local = params.model_copy(update={"ingest": ingest})
    for stage in ("ingest", "validate", "rewards", "transitions"):
        execute(stage, local, scratch)
    return _judge(folder, local, scratch)


def _judge(folder: Path, params: Params, scratch: Workspace) -> dict[str, Any]:
    tables = InterimTables.read(scratch)
    pipeline = FeaturePipeline.load(folder / "pipeline", cache=scratch.cache)
    with ExitStack() as open_things:
        runner = None
        if needs_running(tables.contents()):
            sandbox = open_things.enter_context(
                open_sandbox(run_limits(params.sandbox, pipeline.config))
            )
            runner = open_things.enter_context(SandboxRunner(sandbox, cache=scratch.cache))
        features = pipeline.transform(tables, runner=runner)
    groups = groups_from(tables.candidates, features.states, features.actions, features.signals)
    return evaluate_model(folder, groups, params.evaluation)
