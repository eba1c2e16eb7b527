"""The verb `harness proxy`: the controller in front of an agent's model."""

import contextlib
import os
import sys
from collections.abc import Iterator
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
    from harness_core.serving.decision_log import DecisionLog
    from harness_core.serving.spans import DecisionTracer, TraceTarget
    from harness_core.stages.dag import Workspace
    from harness_core.trajectories.decision_log import LogEntry

app: Final = typer.Typer(rich_markup_mode=None)


@app.command()
def proxy(
    *,
    upstream: Annotated[str, typer.Option(help="Address of the API that the agent used so far.")],
    model: Model = "champion",
    mode: Annotated[
        str, typer.Option(help="off, shadow (only log), rerank (best of K) or filter (rules only).")
    ] = "shadow",
    k: Annotated[int, typer.Option("--k", help="Candidates of a request, 1 to 16.")] = 8,
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
    from harness_core.serving.app import build_app  # noqa: PLC0415  # brings the web server
    from harness_core.serving.config import check_bind  # noqa: PLC0415
    from harness_core.serving.server import serve  # noqa: PLC0415

    config = _config(
        upstream=upstream,
        mode=mode,
        k=k,
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
    with _decision_log(log, trace, workspace) as opened:
        from harness_core.commands.served_models import ServedModels  # noqa: PLC0415  # torch

        models = ServedModels(workspace, model, run_programs=run_programs)
        serve(
            build_app(
                config,
                locate=models.locate,
                open_folder=models.open_folder,
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


class _Sink:
    """The decision log and the tracer, as far as they are wanted."""

    def __init__(self, log: "DecisionLog | None", tracer: "DecisionTracer | None") -> None:
        self.log = log
        self._tracer = tracer

    def append(self, entry: "LogEntry") -> None:
        """Log an entry and trace a decision."""
        if self.log is not None:
            self.log.append(entry)
        if self._tracer is not None and entry.record == "decision":
            self._tracer.record(entry)

    def close(self) -> None:
        """End both; once more does nothing."""
        if self.log is not None:
            self.log.close()
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.close()

    def report(self, decision_id: str, **values: Any) -> Any:
        """Log an outcome."""
        from harness_core.serving.outcomes import report_outcome  # noqa: PLC0415  # for servers

        assert self.log is not None  # only then the route is there
        return report_outcome(self.log, decision_id, **values)


@contextlib.contextmanager
def _decision_log(
    folder: Path | None, trace: str | None, workspace: "Workspace"
) -> Iterator[_Sink]:
    from harness_core.serving.decision_log import DecisionLog  # noqa: PLC0415  # for servers

    tracer: DecisionTracer | None = None
    if trace is not None:
        from harness_core.serving.spans import open_tracer  # noqa: PLC0415  # may bring MLflow
        from harness_core.stages.register import STORE  # noqa: PLC0415

        if trace not in {"mlflow", "otlp"}:
            raise ParameterError(f"--trace {trace}: expected mlflow or otlp")
        target: TraceTarget = "mlflow" if trace == "mlflow" else "otlp"
        tracer = open_tracer(target, store=workspace.path(STORE))
    sink = _Sink(None if folder is None else DecisionLog(folder), tracer)
    try:
        yield sink
    finally:
        sink.close()


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
