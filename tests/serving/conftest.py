"""A stub upstream and proxies in front of it, each a real server on a port of its own."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness_core.serving.app import build_app
from harness_core.serving.config import ProxyConfig, ProxyLimits
from harness_core.serving.selector import Located, OpenModel
from harness_core.serving.server import server_config
from harness_core.serving.thread_decider import ThreadDecider
from harness_core.trajectories.decision_log import LogEntry
from tests.serving.fake_selector import GOOD_ENOUGH_S, POLICY, ShortestFirst
from tests.serving.servers import running, served
from tests.serving.stub_upstream import Stub


@dataclass
class Sink:
    """A decision log in memory."""

    entries: list[Any] = field(default_factory=list)
    closed: bool = False
    arrived: threading.Condition = field(default_factory=threading.Condition)
    breaks: bool = False

    def append(self, entry: LogEntry) -> None:
        if self.breaks:
            raise OSError("the disk is full")
        with self.arrived:
            self.entries.append(entry)
            self.arrived.notify_all()

    def close(self) -> None:
        self.closed = True

    def has(self, decision_id: str) -> bool:
        with self.arrived:
            return self.arrived.wait_for(
                lambda: any(one.decision_id == decision_id for one in self.entries), GOOD_ENOUGH_S
            )

    def wait_for(self, n: int) -> list[Any]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.entries) >= n, GOOD_ENOUGH_S)
        return self.entries


@dataclass
class Models:
    """What `locate` and `open_folder` of a command would find."""

    selector: Any
    k_max: int | None = None
    version: str | None = "1"
    damaged: bool = False
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def locate(self) -> Located | None:
        return None if self.version is None else Located(self.version, Path(self.version))

    def open_folder(self, located: Located) -> OpenModel:
        if self.damaged:
            raise ValueError("damaged")
        self.opened.append(located.version)
        return OpenModel(
            version=located.version,
            selector=self.selector,
            k_max=self.k_max,
            close=lambda: self.closed.append(located.version),
        )


@dataclass
class Proxied:
    """A running proxy with all that a test may look at."""

    url: str
    stub: Stub
    stub_url: str
    sink: Sink
    models: Models
    outcomes: list[Any]

    @property
    def selector(self) -> ShortestFirst:
        return self.models.selector

    def post(self, body: Any, *, path: str = "/v1/chat/completions", **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(self.url + path, json=body, headers=named, timeout=30)

    def chat(self, model: str, *, mode: str | None = None, **body: Any) -> Any:
        headers = {} if mode is None else {"x_harness_mode": mode}
        return self.post({**ask(model), **body}, **headers)

    def count(self, name: str, **labels: str) -> float:
        text = httpx.get(f"{self.url}/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@dataclass
class Outcome:
    outcome_id: str


def ask(model: str, **body: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "Add two numbers."}
    return {"model": model, "messages": [message], **body}


def python(**fields: Any) -> dict[str, Any]:
    return {"harness": {"language": "python", "entry_point": "add", **fields}}


StartProxy = Callable[..., Proxied]


@contextmanager
def proxied(**options: Any) -> Iterator[Proxied]:
    sink = options.pop("sink", None) or Sink()
    stub = options.pop("stub", None) or Stub()
    selector = options.pop("selector", None) or ShortestFirst()
    models = options.pop("models", None) or Models(selector)
    limits = ProxyLimits(**options.pop("limits", {}))
    make_decider = options.pop("make_decider", None) or (
        lambda _: ThreadDecider(models.open_folder, max_waiting=limits.max_scoring)
    )
    outcomes: list[Any] = []

    def report(decision_id: str, **values: Any) -> Outcome:
        outcomes.append((decision_id, values))
        return Outcome("o1")

    with ExitStack() as stack:
        stub_url = stack.enter_context(served(stub.app))
        values = {"upstream": f"{stub_url}/v1", "mode": "shadow", "budget_ms": 5000.0, "port": 0}
        config = ProxyConfig(**{**values, **options}, limits=limits)
        app = build_app(
            config,
            locate=models.locate,
            make_decider=make_decider,
            policy=POLICY,
            sink=sink,
            report_outcome=report,
        )
        settings = server_config(app, config)
        settings.log_level = "critical"
        url = stack.enter_context(running(settings))
        yield Proxied(url, stub, stub_url, sink, models, outcomes)


@contextmanager
def connected(proxy: Proxied) -> Iterator[socket.socket]:
    host, port = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        yield connection


def says(connection: socket.socket) -> bytes:
    received = b""
    with suppress(TimeoutError, ConnectionError):
        while part := connection.recv(65536):
            received += part
    return received


@pytest.fixture(autouse=True)
def threads_take_short_turns() -> Iterator[None]:
    """Client, proxy and upstream are threads of one process here."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def start() -> Iterator[StartProxy]:
    """Starts a proxy with options of its own."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(proxied(**options))


@pytest.fixture
def proxy(start: StartProxy) -> Proxied:
    return start()
