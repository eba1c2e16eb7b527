"""One decision on one request, for the verb `harness score`."""

from pathlib import Path
from typing import Any, Final

import orjson

from harness_core.controller.controller import Controller
from harness_core.errors import IsolationUnavailable, ParameterError
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import run_limits
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.stages.dag import CANDIDATE_MODEL, STUDENT_MODEL, Workspace

_OWN: Final = {"candidate": CANDIDATE_MODEL, "student": STUDENT_MODEL}
"""Models that a working folder made itself."""


def score_request(
    request: bytes, params: Params, workspace: Workspace, *, model: str
) -> dict[str, Any]:
    """Decide on {"state": {…}, "candidates": […], "goal": {…}} and return the decision.

    Raises:
        ParameterError: the request is not JSON of that shape, or there is no such model.
    """
    document = _parse(request)
    folder = model_folder(model, workspace)
    state, candidates = document["state"], document["candidates"]
    if state.get("language") != "python":
        decision = Controller.load(folder).select(state, candidates, document.get("goal"))
    else:
        decision = _select_with_programs(folder, params, document)
    return decision.model_dump(mode="json")


def model_folder(model: str, workspace: Workspace) -> Path:
    """The folder of `champion`, `candidate`, `student`, a registered version, or one by path."""
    if model in _OWN:
        return workspace.path(_OWN[model])
    if Path(model).is_dir():
        return Path(model)
    from harness_core.stages import register as registration  # noqa: PLC0415  # brings MLflow

    return registration.fetch_version(model, workspace)


def _select_with_programs(folder: Path, params: Params, document: dict[str, Any]) -> Any:
    features = FeaturePipeline.load(folder / "pipeline").config
    try:
        sandbox = open_sandbox(run_limits(params.sandbox, features))
    except IsolationUnavailable:
        # Execution signals are then unknown, which the features can say; a decision is still due.
        sandbox = None
    if sandbox is None:
        controller = Controller.load(folder)
        return controller.select(document["state"], document["candidates"], document.get("goal"))
    with sandbox:
        controller = Controller.load(folder, sandbox=sandbox)
        return controller.select(document["state"], document["candidates"], document.get("goal"))


def _parse(request: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(request)
    except orjson.JSONDecodeError as error:
        raise ParameterError(f"stdin: not JSON: {error}") from error
    shape = '{"state": {…}, "candidates": [{"text": …}, …]}'
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("state"), dict)
        or not isinstance(document.get("candidates"), list)
        or not all(isinstance(item, dict) for item in document["candidates"])
    ):
        raise ParameterError(f"stdin: expected {shape}")
    return document
