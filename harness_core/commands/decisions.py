"""Verbs around decisions that were logged: their outcomes, why, what another model would say."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from harness_core.commands.options import (
    Model,
    Overrides,
    UnsafeLocal,
    Workdir,
    open_workspace,
    print_json,
    read_params,
    with_backend,
)
from harness_core.errors import NoDataError

_PIPE_WIDTH: Final = 120
"""Columns of a table where nobody said how wide the terminal is."""

DecisionId = Annotated[str, typer.Argument(metavar="DECISION", help="Id of a decision.")]
LogFolder = Annotated[Path, typer.Option("--log", help="Folder of the decision log.")]

app: Final = typer.Typer(rich_markup_mode=None)


@app.command()
def outcome(
    decision: DecisionId,
    *,
    log: LogFolder,
    source: Annotated[
        str, typer.Option(help="Who says so: `tests`, `merge`, `user`, or a word of your own.")
    ],
    score: Annotated[float | None, typer.Option(min=0, max=1, help="Graded result.")] = None,
    success: Annotated[
        bool | None, typer.Option("--success/--failure", help="Whether it did what was wanted.")
    ] = None,
    outcome_id: Annotated[
        str | None, typer.Option("--id", help="Names the report: the same one counts once.")
    ] = None,
) -> None:
    """Report what came of a decision; it is joined when the log is ingested next."""
    from harness_core.serving.outcomes import (  # noqa: PLC0415  # only this verb writes
        find_decision,
        report_outcome,
    )

    if find_decision(log, decision) is None:
        raise NoDataError(f"{log}: no decision {decision} in it")
    reported = report_outcome(
        log, decision, source=source, score=score, success=success, outcome_id=outcome_id
    )
    print_json(reported.model_dump(mode="json"))


@app.command()
def why(
    decision: DecisionId,
    log: LogFolder,
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    n_nearest: Annotated[
        int, typer.Option("--nearest", min=0, max=100, help="Training rows to show.")
    ] = 5,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Explain a decision: what was known, what decided, which model, and what it learnt from."""
    from harness_core.stages.why import explain  # noqa: PLC0415  # brings torch
    from harness_core.stages.why_words import in_words  # noqa: PLC0415

    workspace = open_workspace(workdir)
    params = read_params(workspace, with_backend(overrides, unsafe_local=unsafe_local))
    explanation = explain(log, decision, params, workspace, n_nearest=n_nearest)
    sys.stderr.write(in_words(explanation) + "\n")
    print_json(explanation)


@app.command()
def replay(
    *,
    log: LogFolder,
    model: Model = "champion",
    min_success_probability: Annotated[
        float | None, typer.Option(help="Stand aside below this probability of success.")
    ] = None,
    max_risk: Annotated[
        float | None,
        typer.Option(
            help="Stand aside so that accepted picks fail at most so often, by the model's "
            "risk curve."
        ),
    ] = None,
    k: Annotated[int | None, typer.Option(help="Look at the first K candidates only.")] = None,
    workdir: Workdir = None,
    overrides: Overrides = None,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Decide a log once more under another model, threshold or K, and say what changes."""
    from rich.console import Console  # noqa: PLC0415  # as the others: only for this verb

    from harness_core.stages.replay import ReplaySettings, replay_folder  # noqa: PLC0415
    from harness_core.stages.replay_words import as_table, notes  # noqa: PLC0415

    settings = ReplaySettings(
        min_success_probability=min_success_probability, max_risk=max_risk, k=k
    )
    workspace = open_workspace(workdir)
    params = read_params(workspace, with_backend(overrides, unsafe_local=unsafe_local))
    result = replay_folder(log, params, workspace, model=model, settings=settings)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else _PIPE_WIDTH)
    console.print(as_table(result))
    for words in notes(result):
        console.print(words)
    print_json(result)
