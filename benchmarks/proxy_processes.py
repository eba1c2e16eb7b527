"""Processes for measuring proxies: an upstream of known speed, and proxies in front of it."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx
import orjson

from harness_core.errors import ParameterError

_START_S: Final = 120.0


@contextlib.contextmanager
def stub(scratch: Path, texts: Sequence[str], *, seconds: float) -> Iterator[str]:
    """An upstream whose candidates take so long; gives its address for chat completions."""
    file = scratch / "candidates.json"
    file.write_bytes(orjson.dumps(list(texts)))
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.peers.stub_api", str(port), str(file)]
    with running([*command, str(seconds)]):
        address = f"http://127.0.0.1:{port}/v1/chat/completions"
        answers(address)
        yield address


@contextlib.contextmanager
def bare_passthrough(upstream: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A proxy that does the least; gives its address for chat completions, and itself."""
    port = free_port()
    origin = upstream.removesuffix("/v1/chat/completions")
    command = [sys.executable, "-m", "benchmarks.peers.bare_passthrough", str(port), origin]
    with running(command) as process:
        address = f"http://127.0.0.1:{port}/v1/chat/completions"
        answers(address)
        yield address, process


@contextlib.contextmanager
def our_proxy(
    upstream: str, model: Path, scratch: Path, workdir: Path, *, k: int
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """`harness proxy` with a model folder; gives its address for chat completions, and itself.

    Raises:
        ParameterError: it does not start, or cannot open the model.
    """
    port = free_port()
    command = [
        *(sys.executable, "-m", "flows.cli", "proxy", "--workdir", str(workdir)),
        *(
            "--upstream",
            upstream.removesuffix("/chat/completions"),
            "--model",
            str(model.resolve()),
        ),
        *("--k", str(k), "--port", str(port), "--log", str(scratch / "decisions")),
        *("--requests-per-minute", "1000000", "--budget-ms", "1000"),
    ]
    with running(command) as process:
        base = f"http://127.0.0.1:{port}"
        if not answers(f"{base}/readyz"):
            raise ParameterError(f"--model {model}: the proxy did not start with it")
        if httpx.get(f"{base}/readyz").json()["model"] is None:
            raise ParameterError(f"--model {model}: the proxy could not open it")
        yield f"{base}/v1/chat/completions", process


@contextlib.contextmanager
def running(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ends with the context."""
    process = subprocess.Popen(  # noqa: S603  # our own programs
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    """Wait until something answers there; say whether it did in time."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            httpx.get(url, timeout=5)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return True
    return False


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
