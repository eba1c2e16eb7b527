"""The scoring process of a proxy: a program of its own that opens models and decides."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness_core.stages.dag import Workspace

_PROGRAM: Final = """\
import sys
sys.path[:] = {path!r}
from harness_core.commands.scoring import main
main({workdir!r}, run_programs={run_programs!r}, niceness={niceness!r})
"""


def scoring_command(workspace: "Workspace", *, run_programs: bool, niceness: int) -> list[str]:
    """What starts the process, with the modules of this one wherever they came from.

    Args:
        workspace: whose parameters bound the sandbox.
        run_programs: run Python candidates in the sandbox.
        niceness: how far it stands back for others, from 0 to 19.
    """
    program = _PROGRAM.format(
        path=sys.path,
        workdir=str(workspace.root),
        run_programs=run_programs,
        niceness=niceness,
    )
    return [sys.executable, "-c", program]


def main(workdir: str, *, run_programs: bool, niceness: int) -> None:
    """Decide until the proxy is gone."""
    os.nice(niceness)  # first of all: starting takes seconds of work
    from harness_core.serving.worker import Worker, take_socket  # noqa: PLC0415

    sock = take_socket()
    import torch  # noqa: PLC0415  # seconds

    from harness_core.commands.opened_models import OpenedModels  # noqa: PLC0415
    from harness_core.stages.dag import Workspace  # noqa: PLC0415

    # One decision at a time; more threads would take the core that answers are passed on with.
    torch.set_num_threads(1)
    models = OpenedModels(Workspace(Path(workdir)), run_programs=run_programs)
    Worker(sock, models.open_folder).run()
