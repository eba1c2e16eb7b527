"""A controller with the sandbox that its features need, as the verbs around decisions open it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness_core.controller.controller import Controller
from harness_core.errors import IsolationUnavailable
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import run_limits
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.protocol import Sandbox
from harness_core.stages.dag import Workspace
from harness_core.stages.score import model_folder


@contextmanager
def serving_controller(
    model: str, params: Params, workspace: Workspace, *, has_programs: bool
) -> Iterator[Controller]:
    """The controller of a model, with a sandbox where programs may have to be run.

    Raises:
        ParameterError: there is no such model.
        ModelError: it cannot be used.
    """
    folder = model_folder(model, workspace)
    with program_sandbox(folder, params, has_programs=has_programs) as sandbox:
        yield Controller.load(folder, sandbox=sandbox)


@contextmanager
def quiet_features() -> Iterator[None]:
    """Keep what a stage would tell of its progress off the terminal, once a decision."""
    logger = logging.getLogger("harness")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def program_sandbox(
    folder: Path, params: Params, *, has_programs: bool
) -> Iterator[Sandbox | None]:
    """A sandbox with the limits that the features of a model have; None where none is to be had.

    Execution signals are unknown then, as they were to a controller on a machine like this one.
    """
    if not has_programs:
        yield None
        return
    features = FeaturePipeline.load(folder / "pipeline").config
    try:
        sandbox = open_sandbox(run_limits(params.sandbox, features))
    except IsolationUnavailable:
        yield None
        return
    with sandbox:
        yield sandbox
