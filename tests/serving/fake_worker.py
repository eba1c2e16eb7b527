"""A scoring process that likes short texts, and that dies or hangs when a test tells it to."""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness_core.controller.decision import Decision
from harness_core.errors import ModelError
from harness_core.serving.selector import Located, OpenModel
from harness_core.serving.worker import Worker, take_socket
from tests.serving.fake_selector import ShortestFirst

DIES, HANGS, WAITS = "die now", "hang now", "wait for "
COMMAND = [
    sys.executable,
    "-c",
    f"import sys; sys.path[:] = {sys.path!r}; from tests.serving.fake_worker import main; main()",
]


class Obedient(ShortestFirst):
    """Does what the description of the task says."""

    def select(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: Any = None,
    ) -> Decision:
        told = state["description"]
        if told == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if told == HANGS:
            time.sleep(3600)
        if told.startswith(WAITS):
            flag = Path(told.removeprefix(WAITS))
            while not flag.exists():
                time.sleep(0.005)
        return super().select(state, candidates, goal)


def open_folder(located: Located) -> OpenModel:
    if located.version == "damaged":
        raise ModelError("damaged")
    if located.version == "deadly":
        os._exit(1)
    selector = Obedient(model_version=located.version)
    return OpenModel(version=located.version, selector=selector, k_max=4)


def main() -> None:
    Worker(take_socket(), open_folder).run()
