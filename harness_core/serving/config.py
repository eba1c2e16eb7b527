"""What the proxy is told when it starts: where it sends requests, what it may do, its limits."""

import ipaddress
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from harness_core.errors import ParameterError
from harness_core.records import Record

ProxyMode = Literal["off", "shadow", "rerank", "filter"]
K_LIMIT: Final = 16
"""Candidates of one request that nothing may exceed."""
MODES: Final[tuple[ProxyMode, ...]] = ("off", "shadow", "rerank", "filter")


class ProxyLimits(Record):
    """Bounds of what one client, and all of them together, can ask for."""

    max_body_bytes: int = Field(default=8 * 2**20, gt=0)
    max_header_bytes: int = Field(default=32 * 2**10, gt=0)
    max_reply_bytes: int = Field(default=64 * 2**20, gt=0)
    """Of an answer that is read whole; a longer one is passed on, but neither scored nor logged."""
    requests_per_minute: float = Field(default=6000.0, gt=0)
    """Of one key, as a bucket that holds ten seconds of them."""
    max_concurrent: int = Field(default=128, ge=1)
    """Requests of one key at a time."""
    max_in_flight: int = Field(default=512, ge=1)
    """Requests of all keys at a time."""
    max_scoring: int = Field(default=64, ge=1)
    """Decisions that are being made or wait for it."""
    connect_s: float = Field(default=5.0, gt=0)
    read_s: float = Field(default=300.0, gt=0)
    """Until the upstream begins to answer, and between two parts of an answer."""
    stream_idle_s: float = Field(default=60.0, gt=0)
    """Between two parts of a stream, on either side."""
    body_s: float = Field(default=60.0, gt=0)
    """Until a request's headers, and then its body, have arrived."""
    drain_s: float = Field(default=10.0, gt=0)
    """Between SIGTERM and the end."""


class ProxyConfig(Record):
    """One proxy in front of one upstream."""

    upstream: str
    """Address whose path stands for `/v1`; without a path it is `/v1` itself."""
    mode: ProxyMode = "shadow"
    k: int = Field(default=8, ge=1, le=K_LIMIT)
    """Candidates of a request, where the client does not say."""
    candidate_price: float | None = Field(default=None, ge=0, le=1)
    """What one more candidate costs, in probability of success: with it K is the most that is
    asked for, and fewer where that is not worth it. Without, all K are asked for at once."""
    budget_ms: float = Field(default=150.0, gt=0, le=60_000)
    """Time for a decision once the last candidate is there."""
    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65_535)
    keys: tuple[SecretStr, ...] = ()
    """Who may ask; empty for whoever can connect."""
    upstream_key: SecretStr | None = None
    """Sent to the upstream instead of what the client sent."""
    webhook_secret: SecretStr | None = None
    """Signs the requests to look for another model."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_public: bool = False
    """Whether others may connect without keys and TLS."""
    poll_s: float = Field(default=5.0, gt=0)
    """Between two looks for another model."""
    limits: ProxyLimits = ProxyLimits()

    @property
    def base(self) -> "UpstreamBase":
        """The upstream's address in parts."""
        return UpstreamBase.of(self.upstream)


class UpstreamBase(NamedTuple):
    """The one address that requests and keys are sent to."""

    origin: str
    prefix: str

    @classmethod
    def of(cls, address: str) -> Self:
        """Take an address apart.

        Raises:
            ParameterError: it is no address of a server, or holds more than one.
        """
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ParameterError(f"--upstream: expected http(s)://host[:port][/path]; {address!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ParameterError(
                "--upstream: an address with a user, a query or a fragment is not taken; "
                "give a key with --upstream-key-env"
            )
        return cls(origin=f"{parts.scheme}://{parts.netloc}", prefix=parts.path.rstrip("/"))

    def url(self, path: str, query: str) -> str:
        """The address of one of our paths (`/v1/…`) there."""
        below = path.removeprefix("/v1") if self.prefix else path
        return f"{self.origin}{self.prefix}{below}" + (f"?{query}" if query else "")


def check_bind(config: ProxyConfig) -> None:
    """Refuse to be open to others by mistake.

    Raises:
        ParameterError: others could connect, without keys or in the clear.
    """
    if (config.tls_cert is None) != (config.tls_key is None):
        raise ParameterError("--tls-cert and --tls-key go together")
    if is_loopback(config.host) or config.allow_public:
        return
    missing = [
        *(["keys (--api-key-env)"] if not config.keys else []),
        *(["TLS (--tls-cert, --tls-key)"] if config.tls_cert is None else []),
    ]
    if missing:
        raise ParameterError(
            f"--host {config.host} lets others connect: give {' and '.join(missing)}, "
            "or say --allow-public if something before the proxy does that"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
