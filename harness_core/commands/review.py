"""Verbs around people: the review page and blind comparison."""

import getpass
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from harness_core.commands.options import (
    Overrides,
    Workdir,
    open_workspace,
    print_json,
    read_params,
)

app: Final = typer.Typer(rich_markup_mode=None)
blind: Final = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(blind, name="blind", help="Compare picks with and without the controller, blindly.")

Log = Annotated[Path, typer.Option("--log", help="Folder of the decision log.")]
Study = Annotated[Path, typer.Option("--study", help="Folder of the blind study.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")]
Reviewer = Annotated[
    str | None,
    typer.Option("--reviewer", help="Name that reviews carry; by default that of the login."),
]


@app.command()
def review(
    log: Log, study: Study | None = None, port: Port = 8765, reviewer: Reviewer = None
) -> None:
    """Open a local page to approve, choose, correct, reject or appeal what waits for a person."""
    from harness_core.serving.review.server import serve  # noqa: PLC0415  # brings the server

    serve(log_folder=log, study_folder=study, reviewer=reviewer or _login(), port=port)


@blind.command()
def prepare(
    log: Log,
    study: Study,
    n: Annotated[int, typer.Option("--n", min=1, help="Pairs to judge.")] = 40,
    seed: Annotated[int, typer.Option("--seed", help="Of draw, order and sides.")] = 0,
) -> None:
    """Draw pairs where the controller's pick differs from the agent's first candidate."""
    from harness_core.serving.decision_log import read_log  # noqa: PLC0415  # brings importers
    from harness_core.serving.review import blind_study  # noqa: PLC0415

    made = blind_study.Study.prepare(study, read_log(log), n=n, seed=seed)
    print_json({"study": str(study), "n_pairs": len(made.pairs)})


@blind.command()
def judge(study: Study, port: Port = 8765, reviewer: Reviewer = None) -> None:
    """Open a local page to judge pairs: correctness, brevity and safety, left, right or equal."""
    from harness_core.serving.review.server import serve  # noqa: PLC0415  # brings the server

    serve(log_folder=None, study_folder=study, reviewer=reviewer or _login(), port=port)


@blind.command()
def result(
    study: Study,
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    early: Annotated[
        bool, typer.Option("--early", help="Read it though pairs are still to be judged.")
    ] = False,
    record: Annotated[bool, typer.Option(help="Record the result in MLflow.")] = True,
) -> None:
    """Say whose picks are preferred, record it in MLflow, and close the study."""
    from harness_core.registry.blind_results import as_side_run  # noqa: PLC0415  # brings MLflow
    from harness_core.serving.review.blind_result import read_result  # noqa: PLC0415

    found = read_result(study, early=early, at=datetime.now(UTC))
    recorded: dict[str, str] = {}
    if record:
        from harness_core.stages.register import record_side_run  # noqa: PLC0415  # brings MLflow

        workspace = open_workspace(workdir)
        params = read_params(workspace, overrides)
        recorded = record_side_run(params.registry, workspace, as_side_run(found))
    print_json({**found.figures, "words": found.words, **recorded})
    sys.stderr.write("".join(f"{sentence}\n" for sentence in found.words))


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "reviewer"
