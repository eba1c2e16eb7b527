"""The console script `harness`: the library's verbs plus `flywheel` and `schedule`."""

import sys
from typing import Annotated, Any

import typer

from benchmarks.cli import bench
from harness_core import cli
from harness_core.cli import app
from harness_core.commands import options
from harness_core.commands.options import Formats, Overrides, Sources, UnsafeLocal, Workdir
from harness_core.settings import Settings

app.add_typer(bench, name="bench", help="Figures of this machine, beside those of other tools.")


@app.command()
def flywheel(
    sources: Sources = None,
    formats: Formats = None,
    workdir: Workdir = None,
    overrides: Overrides = None,
    *,
    force: Annotated[bool, typer.Option(help="Start the flow even if nothing changed.")] = False,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Run the whole flywheel: logs in, a registered model out."""
    from flows import steps  # noqa: PLC0415  # brings DVC
    from flows.surroundings import prepare_prefect  # noqa: PLC0415

    root = workdir or Settings().workdir
    pairs = options.pair_sources(sources, formats)
    changes = options.with_backend(overrides, unsafe_local=unsafe_local)
    prepare_prefect(root.resolve())
    result = None if force else steps.unchanged(root, pairs, changes)
    if result is None:
        from flows.flywheel import flywheel as flow  # noqa: PLC0415  # brings Prefect

        result = flow(workdir=str(root), sources=pairs, overrides=changes)
    options.print_json(result)
    sys.stderr.write(_in_words(result))


@app.command()
def schedule(
    cron: Annotated[str, typer.Option(help="When to run, for example `0 3 * * *`.")],
    workdir: Workdir = None,
    name: Annotated[str, typer.Option(help="Name of the deployment.")] = "scheduled",
) -> None:
    """Serve the flywheel on a schedule, without a work pool, until interrupted."""
    from flows.surroundings import prepare_prefect  # noqa: PLC0415

    root = (workdir or Settings().workdir).resolve()
    prepare_prefect(root)
    from flows.flywheel import flywheel as flow  # noqa: PLC0415  # brings Prefect

    flow.serve(name=name, cron=cron, parameters={"workdir": str(root)})


def _in_words(result: dict[str, Any]) -> str:
    reasons = "".join(f"  - {reason}\n" for reason in result["reasons"])
    version = result["model_version"]
    state = "is the champion now" if result["promoted"] else "is registered, not promoted"
    return (
        f"\n{result['summary']}\n{reasons}"
        f"Model version {version} {state}.\n"
        f"Report: {result['report']}\n"
        f"MLflow: run `make ui` (or `mlflow ui`), then open {result['run_url']}\n"
    )


def main() -> None:
    """Entry point of the console script."""
    sys.exit(cli.run_app(app))


if __name__ == "__main__":
    main()
