"""What the proxy counts, for Prometheus."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300)


class ProxyMetrics:
    """Counters of one proxy, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter(
            "harness_proxy_requests",
            "Requests that were answered.",
            ["route", "mode", "status"],
            registry=own,
        )
        self.reasons = Counter(
            "harness_proxy_decisions",
            "Decisions, by the reason that decided.",
            ["mode", "reason"],
            registry=own,
        )
        self.fail_open = Counter(
            "harness_proxy_fail_open",
            "Requests that were answered without a decision, by why there was none.",
            ["reason"],
            registry=own,
        )
        self.filtered = Counter(
            "harness_proxy_filtered_candidates",
            "Candidates that broke a danger rule or that the tool policy denies.",
            registry=own,
        )
        self.upstream_calls = Counter(
            "harness_proxy_upstream_calls",
            "Calls of the upstream, by status; `error` for none.",
            ["status"],
            registry=own,
        )
        self.odd_streams = Counter(
            "harness_proxy_odd_streams",
            "Streams that did not keep to the protocol, by what was odd.",
            ["oddity"],
            registry=own,
        )
        self.tokens = Counter(
            "harness_proxy_tokens", "Tokens that the upstream counted.", ["kind"], registry=own
        )
        self.log_records = Counter(
            "harness_proxy_log_records",
            "Records for the decision log: written, failed or dropped.",
            ["result"],
            registry=own,
        )
        self.model_loads = Counter(
            "harness_proxy_model_loads", "Models that were opened.", ["result"], registry=own
        )
        self.scorer_ends = Counter(
            "harness_proxy_scorer_ends",
            "Scoring processes that died, or hung and were ended; each is followed by another.",
            registry=own,
        )
        self.model = Gauge(
            "harness_proxy_model", "1 for the model in use.", ["version"], registry=own
        )
        self.in_flight = Gauge(
            "harness_proxy_requests_in_flight", "Requests being answered.", registry=own
        )
        self.scoring = Histogram(
            "harness_proxy_scoring_seconds",
            "From the last candidate to the decision.",
            registry=own,
            buckets=_SECONDS,
        )
        self.upstream_seconds = Histogram(
            "harness_proxy_upstream_seconds",
            "Until the upstream began to answer.",
            registry=own,
            buckets=_SECONDS,
        )

    def in_use(self, version: str | None) -> None:
        """Note the model in use."""
        self.model.clear()
        if version is not None:
            self.model.labels(version=version).set(1)

    def used(self, usage: Mapping[str, int]) -> None:
        """Add tokens."""
        for kind in ("prompt_tokens", "completion_tokens"):
            self.tokens.labels(kind=kind.removesuffix("_tokens")).inc(usage.get(kind, 0))

    def render(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self.registry)
