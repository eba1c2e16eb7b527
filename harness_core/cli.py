"""The command line of the library: one verb a stage, and the verbs around a model.

One JSON object goes to stdout; progress and refusals in words go to stderr. Exit codes: 0 done,
2 usage or parameters, 3 data, 4 promotion refused, 5 no isolation, 1 anything unexpected.
"""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from harness_core.commands import decisions, proxy, review
from harness_core.commands.log import log_to_stderr
from harness_core.commands.options import (
    Formats,
    Model,
    Overrides,
    Sources,
    UnsafeLocal,
    Workdir,
    open_workspace,
    pair_sources,
    print_json,
    read_params,
    with_backend,
)
from harness_core.errors import AuditFailed, HarnessError, ParameterError, PromotionRefused
from harness_core.settings import Settings
from harness_core.stages.dag import Workspace
from harness_core.stages.execute import execute
from harness_core.stages.project import locked_digests

_PIPE_WIDTH: Final = 200
"""Columns of a table where nobody said how wide the terminal is."""

app: Final = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

audits: Final = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(audits, name="audit", help="Look for ways to be paid without merit.")
for verbs in (proxy.app, decisions.app, review.app):
    app.add_typer(verbs)


@app.callback()
def setup(
    *, quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only refusals.")] = False
) -> None:
    """A controller for LLM agents, learnt offline from existing logs."""
    log_to_stderr(quiet=quiet)


def _run_stage(stage: str, workdir: Path | None, overrides: list[str] | None) -> None:
    workspace = open_workspace(workdir)
    report = execute(stage, read_params(workspace, overrides), workspace)
    print_json(report.model_dump(mode="json"))


@app.command()
def sample(
    workdir: Workdir = None, overrides: Overrides = None, *, unsafe_local: UnsafeLocal = False
) -> None:
    """Write sample logs: a simulated coding agent plays the problems that ship with harness."""
    _run_stage("sample", workdir, with_backend(overrides, unsafe_local=unsafe_local))


@app.command()
def ingest(
    sources: Sources = None,
    formats: Formats = None,
    workdir: Workdir = None,
    overrides: Overrides = None,
) -> None:
    """Read raw logs into tables; rows that cannot be read go to `data/quarantine/`."""
    from harness_core.stages.sources import land_source  # noqa: PLC0415  # brings the importers

    workspace = open_workspace(workdir)
    for item in pair_sources(sources, formats):
        land_source(Path(item["path"]), item["format"], workspace)
    _run_stage("ingest", workspace.root, overrides)


@app.command()
def validate(workdir: Workdir = None, overrides: Overrides = None) -> None:
    """Check the tables with Great Expectations; a critical failure stops."""
    _run_stage("validate", workdir, overrides)


@app.command()
def rewards(
    workdir: Workdir = None, overrides: Overrides = None, *, unsafe_local: UnsafeLocal = False
) -> None:
    """Compute every reward component, running programs in the sandbox."""
    _run_stage("rewards", workdir, with_backend(overrides, unsafe_local=unsafe_local))


@audits.command("rewards")
def audit_rewards(
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    literal: Annotated[
        bool, typer.Option("--literal", help="Show the article's own scheme beside it.")
    ] = False,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Try every cheat we know against the present weights; exit with 3 if one earns too much."""
    from harness_core.stages.audit import read_table  # noqa: PLC0415  # brings the sandbox
    from harness_core.stages.audit_words import as_json, as_table  # noqa: PLC0415

    workspace = open_workspace(workdir)
    refusal: AuditFailed | None = None
    try:
        params = read_params(workspace, with_backend(overrides, unsafe_local=unsafe_local))
        execute("audit", params, workspace)
    except AuditFailed as error:
        refusal = error
    audited = read_table(workspace)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else _PIPE_WIDTH)
    console.print(as_table(audited, literal=literal))
    print_json(as_json(audited, literal=literal))
    if refusal is not None:
        raise refusal


@app.command()
def transitions(workdir: Workdir = None, overrides: Overrides = None) -> None:
    """Build transitions, decision groups and the split by task."""
    _run_stage("transitions", workdir, overrides)


@app.command()
def features(
    workdir: Workdir = None, overrides: Overrides = None, *, unsafe_local: UnsafeLocal = False
) -> None:
    """Encode states and actions."""
    _run_stage("features", workdir, with_backend(overrides, unsafe_local=unsafe_local))


@app.command()
def train(workdir: Workdir = None, overrides: Overrides = None) -> None:
    """Train the critic and its cross-fitting folds."""
    _run_stage("train", workdir, overrides)


@app.command("distill")
def distil(
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    register: Annotated[
        bool, typer.Option(help="Register the student in MLflow under a name of its own.")
    ] = True,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Distil the trained model into a student without a transformer.

    The exit code is 4 if the student lost too much.
    """
    from harness_core.stages import distil as distillation  # noqa: PLC0415  # brings torch

    workspace = open_workspace(workdir)
    params = read_params(workspace, with_backend(overrides, unsafe_local=unsafe_local))
    result = distillation.run(params, workspace, register=register)
    print_json(result)
    if not result["kept"]:
        raise PromotionRefused(f"the student lost too much. {distillation.as_words(result)}")


@app.command()
def evaluate(
    sources: Sources = None,
    formats: Formats = None,
    model: Model = "candidate",
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Judge a model on held-out tasks, or with --source on logs it was never trained on."""
    workspace = open_workspace(workdir)
    overrides = with_backend(overrides, unsafe_local=unsafe_local)
    params = read_params(workspace, overrides)
    if not sources:
        if model != "candidate":
            raise ParameterError("--model: name the logs to judge it on with --source")
        _run_stage("evaluate", workspace.root, overrides)
        return
    from harness_core.stages.foreign import evaluate_foreign  # noqa: PLC0415  # brings torch

    pairs = [(Path(item["path"]), item["format"]) for item in pair_sources(sources, formats)]
    print_json({"evaluation": evaluate_foreign(params, workspace, pairs, model=model)})


@app.command()
def calibrate(workdir: Workdir = None, overrides: Overrides = None) -> None:
    """Try reward weights on a part of the tasks: is the policy they lead to too clever?"""
    from harness_core.evaluation.sweep_report import as_markdown  # noqa: PLC0415  # brings torch
    from harness_core.stages import calibrate as calibration  # noqa: PLC0415

    workspace = open_workspace(workdir)
    result = calibration.run(read_params(workspace, overrides), workspace)
    print_json(result)
    sys.stderr.write("\n" + as_markdown(result))


@app.command()
def compare(
    workdir: Workdir = None, overrides: Overrides = None, *, unsafe_local: UnsafeLocal = False
) -> None:
    """Compare the trained model with the champion, family by family, and write the verdict."""
    _run_stage("compare", workdir, with_backend(overrides, unsafe_local=unsafe_local))


@app.command()
def register(workdir: Workdir = None, overrides: Overrides = None) -> None:
    """Register the trained model in MLflow; promote it if the verdict says so, else exit with 4."""
    from harness_core.stages import register as registration  # noqa: PLC0415  # brings MLflow

    workspace = open_workspace(workdir)
    params = read_params(workspace, overrides)
    context = registration.run_context(workspace, params, dvc_digests=locked_digests(workspace))
    figures = registration.run(params.registry, workspace, run_context=context).figures
    print_json(figures)
    if not figures["promoted"]:
        raise PromotionRefused("the gate kept the champion; the reasons stand in the report")


@app.command()
def champion(workdir: Workdir = None, overrides: Overrides = None) -> None:
    """Say which model is in use, and where its folder is."""
    from harness_core.stages import register as registration  # noqa: PLC0415  # brings MLflow

    workspace = open_workspace(workdir)
    registry = read_params(workspace, overrides).registry
    found = registration.describe_champion(registry, workspace)
    if found["champion"] is not None:
        found["folder"] = str(registration.fetch_version("champion", workspace))
    print_json(found)


@app.command()
def score(
    model: Model = "champion",
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Read {"state": …, "candidates": […], "goal": …} from stdin and print the decision."""
    from harness_core.stages.score import score_request  # noqa: PLC0415  # brings torch

    workspace = open_workspace(workdir)
    params = read_params(workspace, with_backend(overrides, unsafe_local=unsafe_local))
    print_json(score_request(sys.stdin.buffer.read(), params, workspace, model=model))


@app.command()
def doctor(
    workdir: Workdir = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what works and what does not on this machine."""
    from harness_core.stages.doctor import examine, in_words  # noqa: PLC0415  # brings the vendors

    findings = examine(Workspace((workdir or Settings().workdir).resolve()))
    if as_json:
        print_json(
            {
                "healthy": all(item.ok for item in findings),
                "checks": [item.model_dump() for item in findings],
            }
        )
    else:
        sys.stdout.write(in_words(findings) + "\n")
    if not all(item.ok for item in findings if item.required):
        raise typer.Exit(1)


def run_app(application: typer.Typer, arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code; our own refusals become words, not traces."""
    try:
        result = application(arguments, standalone_mode=False)
    except HarnessError as error:
        sys.stderr.write(f"harness: {error}\n")
        return error.exit_code
    except typer.Abort:
        return 130
    except Exception as error:
        # Usage errors carry their own text and code; everything else keeps its traceback.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", 2))
    return result if isinstance(result, int) else 0
