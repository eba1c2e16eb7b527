"""The proxy as a web application: its routes, and what begins and ends with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import httpx
import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness_core.errors import ParameterError
from harness_core.rewards.tool_policy import ToolPolicy
from harness_core.serving.auth import Keys, check_signature
from harness_core.serving.chat_dialect import ChatDialect
from harness_core.serving.completions_dialect import CompletionsDialect
from harness_core.serving.config import ProxyConfig
from harness_core.serving.deciding import Decider
from harness_core.serving.endpoint import Endpoint, Services, read_object
from harness_core.serving.judging import DecisionSink
from harness_core.serving.limits import Admission
from harness_core.serving.metrics import ProxyMetrics
from harness_core.serving.model_watch import ModelWatch
from harness_core.serving.openapi import openapi_document
from harness_core.serving.ranking import ModelEndpoint
from harness_core.serving.recorder import Recorder
from harness_core.serving.refusals import Refusal
from harness_core.serving.relay import read_body
from harness_core.serving.responses_dialect import ResponsesDialect
from harness_core.serving.scorer import Scorer
from harness_core.serving.selector import Locate
from harness_core.serving.upstream import Upstream

ReportOutcome = Callable[..., Any]
"""`outcomes.report_outcome` with its log: (decision_id, source=, score=, success=, outcome_id=)."""
_CLOSE_S: Final = 2.0


def build_app(
    config: ProxyConfig,
    *,
    locate: Locate,
    make_decider: Callable[[ProxyMetrics], Decider],
    policy: ToolPolicy,
    sink: DecisionSink | None = None,
    report_outcome: ReportOutcome | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Starlette:
    """The application of one proxy.

    Args:
        config: of the proxy.
        locate: says which model is to be used.
        make_decider: who decides, told where to count.
        policy: tool calls that are denied whatever the model is.
        sink: where decisions are logged; None for nowhere.
        report_outcome: takes outcomes that clients report.
        transport: to the upstream, instead of the network.
    """
    metrics = ProxyMetrics()
    scorer = Scorer(policy, metrics, make_decider(metrics))
    services = Services(
        config=config,
        keys=Keys(config.keys),
        admission=Admission(config.limits),
        upstream=Upstream(config, metrics, transport=transport),
        scorer=scorer,
        recorder=Recorder(sink, metrics),
        metrics=metrics,
    )
    watch = ModelWatch(scorer.decider, metrics, locate=locate, poll_s=config.poll_s)
    own = _OwnRoutes(services, watch, report_outcome)
    app = Starlette(
        routes=[
            *(
                Route(dialect.path, ModelEndpoint(services, dialect), methods=["POST"])
                for dialect in (ChatDialect(), ResponsesDialect(), CompletionsDialect())
            ),
            Route("/v1/embeddings", Endpoint(services, "/v1/embeddings"), methods=["POST"]),
            Route("/v1/models", Endpoint(services, "/v1/models"), methods=["GET"]),
            Route("/v1/models/{name:path}", Endpoint(services, "/v1/models/…"), methods=["GET"]),
            Route("/v1/harness/outcomes", own.outcomes, methods=["POST"]),
            Route("/v1/harness/reload", own.reload, methods=["POST"]),
            Route("/healthz", own.healthz, methods=["GET"]),
            Route("/readyz", own.readyz, methods=["GET"]),
            Route("/metrics", own.metrics, methods=["GET"]),
            Route("/openapi.json", own.openapi, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, Refusal: _refusal, Exception: _broken},
        lifespan=_lifespan(services, watch),
    )
    app.router.redirect_slashes = False
    return app


def _lifespan(
    services: Services, watch: ModelWatch
) -> Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        await watch.refresh()
        looking = asyncio.create_task(watch.run())
        try:
            yield
        finally:
            looking.cancel()
            watch.close()
            await services.recorder.close(timeout_s=_CLOSE_S)
            await services.scorer.close()
            await services.upstream.close()

    return lifespan


class _OwnRoutes:
    """What the proxy answers itself."""

    def __init__(
        self, services: Services, watch: ModelWatch, report_outcome: ReportOutcome | None
    ) -> None:
        self._services = services
        self._watch = watch
        self._report = report_outcome

    async def healthz(self, request: Request) -> Response:
        """The process lives."""
        del request
        return _json({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Requests are answered; a model may still be missing, then nothing is ranked."""
        del request
        version = self._version
        return _json({"status": "ready", "model": version, "mode": self._services.config.mode})

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        self._check_key(request)
        self._services.metrics.in_use(self._version)
        return Response(self._services.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    async def openapi(self, request: Request) -> Response:
        """What all routes take and give."""
        del request
        return _json(openapi_document(has_keys=bool(self._services.keys)))

    async def outcomes(self, request: Request) -> Response:
        """Take in what came of a decision."""
        self._check_key(request)
        with self._services.admission.admitted(_address(request)):
            body = read_object(await read_body(request.receive, self._services.config.limits))
            return await self._take_outcome(body)

    async def _take_outcome(self, body: Mapping[str, Any] | None) -> Response:
        if self._report is None:
            raise Refusal(404, "no_decision_log", "This proxy keeps no decision log (--log).")
        known = {"decision_id", "source", "score", "success", "outcome_id"}
        if body is None or not {"decision_id", "source"} <= body.keys() <= known:
            raise Refusal(
                400, "invalid_value", f"Expected a JSON object of {', '.join(sorted(known))}."
            )
        values = dict(body)
        decision_id = values.pop("decision_id")
        try:
            outcome = await asyncio.to_thread(self._report, decision_id, **values)
        except ParameterError as error:
            raise Refusal(422, "invalid_value", str(error)) from error
        return _json({"outcome_id": outcome.outcome_id, "decision_id": decision_id}, status=201)

    async def reload(self, request: Request) -> Response:
        """Look for another model now; a target for MLflow's webhooks."""
        services = self._services
        body = await read_body(request.receive, services.config.limits)
        if services.config.webhook_secret is not None:
            check_signature(services.config.webhook_secret, request.headers, body)
        else:
            self._check_key(request)
        self._watch.poke()
        return _json({"status": "looking"}, status=202)

    @property
    def _version(self) -> str | None:
        in_use = self._services.scorer.in_use
        return None if in_use is None else in_use.version

    def _check_key(self, request: Request) -> None:
        self._services.keys.identify(Headers(scope=request.scope), address=_address(request))


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status_code=status, media_type="application/json")


async def _refusal(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, Refusal)
    return error.response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
    message = f"{request.method} {request.url.path}: {error.detail}."
    return Refusal(error.status_code, code, message, headers=error.headers).response


async def _broken(request: Request, error: Exception) -> Response:
    del request, error
    return Refusal(500, "internal_error", "The proxy broke; see its log.").response
