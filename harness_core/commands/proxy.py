"""The verb `harness proxy`: the controller in front of an agent's model."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer
from pydantic import SecretStr, ValidationError

from harness_core.commands.options import Model, Workdir, open_workspace
from harness_core.errors import ParameterError

if TYPE_CHECKING:
    from harness_core.rewards.tool_policy import ToolPolicy
    from harness_core.serving.config import ProxyConfig
    from harness_core.stages.dag import Workspace

app: Final = typer.Typer(rich_markup_mode=None)
_NICE: Final = 10
"""How far scoring stands back where nobody waits for it."""


@app.command()
def proxy(
    *,
    upstream: Annotated[str, typer.Option(help="Address of the API that the agent used so far.")],
    model: Model = "champion",
    mode: Annotated[
        str, typer.Option(help="off, shadow (only log), rerank (best of K) or filter (rules only).")
    ] = "shadow",
    k: Annotated[int, typer.Option("--k", help="Candidates of a request, 1 to 16.")] = 8,
    candidate_price: Annotated[
        float | None,
        typer.Option(
            help="Gain in probability of success that one more candidate must bring; K is then the "
            "most that is asked for."
        ),
    ] = None,
    budget_ms: Annotated[float, typer.Option(help="Time for a decision, else fail open.")] = 150.0,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8100,
    log: Annotated[
        Path | None, typer.Option("--log", help="Folder of the decision log; none by default.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with our clients' keys, one a word.")
    ] = None,
    upstream_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key for the upstream.")
    ] = None,
    webhook_secret_env: Annotated[
        str | None, typer.Option(help="Environment variable with the secret of MLflow's webhook.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Listen for others without keys and TLS.")
    ] = False,
    requests_per_minute: Annotated[float, typer.Option(help="Of one key.")] = 6000.0,
    max_concurrent: Annotated[int, typer.Option(help="Requests of one key at a time.")] = 128,
    poll_s: Annotated[float, typer.Option(help="Seconds between looks for another model.")] = 5.0,
    run_programs: Annotated[
        bool,
        typer.Option(
            "--run-programs",
            help="Run Python candidates in the sandbox for a better choice; raise --budget-ms.",
        ),
    ] = False,
    trace: Annotated[
        str | None, typer.Option(help="Also write spans of decisions: mlflow or otlp.")
    ] = None,
    workdir: Workdir = None,
) -> None:
    """Serve an OpenAI-compatible API in front of another one; the agent changes its base_url only.

    Answers are the upstream's own in `shadow`, and the controller's pick of K in `rerank`. Whatever
    breaks, the agent gets a valid answer of the upstream; what the rules deny stays denied.
    """
    from harness_core.commands.decision_sink import open_sink  # noqa: PLC0415
    from harness_core.commands.scoring import scoring_command  # noqa: PLC0415
    from harness_core.commands.served_models import ServedModels  # noqa: PLC0415
    from harness_core.serving.app import build_app  # noqa: PLC0415  # brings the web server
    from harness_core.serving.config import check_bind  # noqa: PLC0415
    from harness_core.serving.process_decider import ProcessDecider  # noqa: PLC0415
    from harness_core.serving.server import serve  # noqa: PLC0415

    config = _config(
        upstream=upstream,
        mode=mode,
        k=k,
        candidate_price=candidate_price,
        budget_ms=float(budget_ms),
        host=host,
        port=port,
        keys=tuple(SecretStr(key) for key in (_secret(api_key_env) or "").split()),
        upstream_key=_as_secret(_secret(upstream_key_env)),
        webhook_secret=_as_secret(_secret(webhook_secret_env)),
        tls_cert=tls_cert,
        tls_key=tls_key,
        allow_public=allow_public,
        poll_s=float(poll_s),
        limits={
            "requests_per_minute": float(requests_per_minute),
            "max_concurrent": max_concurrent,
        },
    )
    check_bind(config)
    workspace = open_workspace(workdir)
    command = scoring_command(
        workspace, run_programs=run_programs, niceness=_NICE if mode == "shadow" else 0
    )
    with open_sink(log, trace, workspace) as opened:
        serve(
            build_app(
                config,
                locate=ServedModels(workspace, model).locate,
                make_decider=lambda metrics: ProcessDecider(
                    command,
                    max_waiting=config.limits.max_scoring,
                    note_end=metrics.scorer_ends.inc,
                ),
                policy=_policy(workspace),
                sink=opened,
                report_outcome=None if opened.log is None else opened.report,
            ),
            config,
            announce=lambda address: _announce(address, mode),
        )


def _announce(address: str, mode: str) -> None:
    """One line of JSON, so that whoever started us can go on."""
    line = orjson.dumps({"base_url": f"{address}/v1", "mode": mode}).decode()
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _config(**values: Any) -> "ProxyConfig":
    from harness_core.serving.config import ProxyConfig, ProxyLimits  # noqa: PLC0415

    try:
        limits = ProxyLimits(**values.pop("limits"))
        config = ProxyConfig(**values, limits=limits)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(first["loc"][-1]).replace("_", "-")
        raise ParameterError(f"--{name}: {first['msg']}") from error
    config.base  # noqa: B018  # refuses an address that is none
    return config


def _policy(workspace: "Workspace") -> "ToolPolicy":
    """The working folder's own, so that it can be made stricter without another model."""
    from harness_core.rewards.tool_policy import load_policy  # noqa: PLC0415
    from harness_core.stages.dag import POLICY  # noqa: PLC0415

    return load_policy(workspace.path(POLICY))


def _secret(name: str | None) -> str | None:
    """What an environment variable holds; secrets never stand on a command line."""
    if name is None:
        return None
    value = os.environ.get(name, "").strip()
    if not value:
        raise ParameterError(f"the environment variable {name} is empty or not set")
    return value


def _as_secret(value: str | None) -> SecretStr | None:
    return None if value is None else SecretStr(value)
