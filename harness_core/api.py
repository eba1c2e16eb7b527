"""The library in one import: load a controller, ask it for decisions."""

from harness_core.controller.abstention import Feasibility
from harness_core.controller.compaction import Compaction, RemovedStep, compact
from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision, FilteredCandidate, GuidanceRetry, Reason
from harness_core.controller.guard import screen
from harness_core.controller.request import SelectRequest, SteerRequest
from harness_core.errors import HarnessError
from harness_core.sandbox.api import open_sandbox

__all__ = [
    "Compaction",
    "Controller",
    "ControllerConfig",
    "Decision",
    "Feasibility",
    "FilteredCandidate",
    "GuidanceRetry",
    "HarnessError",
    "Reason",
    "RemovedStep",
    "SelectRequest",
    "SteerRequest",
    "compact",
    "open_sandbox",
    "screen",
]
