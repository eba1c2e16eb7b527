"""The library in one import: load a controller, ask it for decisions."""

from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision, FilteredCandidate, Reason
from harness_core.errors import HarnessError
from harness_core.sandbox.api import open_sandbox

__all__ = [
    "Controller",
    "Decision",
    "FilteredCandidate",
    "HarnessError",
    "Reason",
    "open_sandbox",
]
