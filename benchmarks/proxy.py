"""What the proxy adds to a request: over a direct one in shadow, over the slowest candidate of K.

Stub, proxies and client run in processes of their own on loopback. In shadow, requests come at a
steady rate whether answers are there or not; direct ones, ours and a bare pass-through's take turns
by rounds of a second in random order, so that what else happens on the machine hits them alike.
What is added at a percentile is the difference of the two percentiles. Processor time of a request
is told besides: it hardly depends on what else happens. For K candidates it is the time of a
request less what the stub needed, which the stub says.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.peers.stub_api import SECONDS
from benchmarks.process_usage import Memory, Spent
from benchmarks.proxy_processes import (
    answers,
    bare_passthrough,
    free_port,
    our_proxy,
    running,
    stub,
)
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import problem_pool

GOALS_MS: Final = {"shadow": {"added_p99_ms": 5.0}, "rerank": {"added_p95_ms": 40.0}}
_WARM_UP: Final = 20
_CANDIDATE_S: Final = 0.05
"""What the stub needs for a candidate."""


_PROBLEM: Final = load_problems()[0]
BODY: Final = {
    "model": "stub",
    "messages": [{"role": "user", "content": _PROBLEM.prompt}],
}
"""What every request asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    rate: float = 50.0
    """Requests a second in shadow."""
    n_rounds: int = 16
    round_s: float = 1.0
    n_reranked: int = 150
    n_warm_up: int = _WARM_UP
    k: int = 8


@dataclass(slots=True)
class Times:
    """Seconds of requests to one address."""

    seconds: list[float] = field(default_factory=list)
    n_errors: int = 0


def measure_proxy(
    model: Path, sizes: Sizes, *, workdir: Path, optillm_python: Path | None = None, seed: int = 0
) -> dict[str, Any]:
    """The figures of `harness bench proxy`.

    Args:
        model: folder of the model that ranks.
        sizes: how much is measured.
        workdir: folder with the tool policy; it is made if it is not there.
        optillm_python: interpreter of an environment that has optillm.
        seed: chooses the candidates.
    """
    machine = describe_machine()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        texts = problem_pool(_PROBLEM, seed=seed).programs
        upstream = stack.enter_context(stub(scratch, texts, seconds=_CANDIDATE_S))
        bare, other = stack.enter_context(bare_passthrough(upstream))
        ours, process = stack.enter_context(our_proxy(upstream, model, scratch, workdir, k=sizes.k))
        memory = Memory(process, block_s=2.0)
        urls = {"direct": upstream, "ours": ours, "bare": bare}
        used = {"ours": process, "bare": other}
        before = {name: Spent.of(one) for name, one in used.items()}
        shadow = asyncio.run(_shadow(urls, sizes, memory, seed=seed))
        spent = {name: Spent.of(one) - before[name] for name, one in used.items()}
        rerank = asyncio.run(_reranked(ours, sizes, memory))
        optillm = _optillm(optillm_python, upstream, sizes)
    direct = shadow["direct"].seconds
    n_passed = sizes.n_warm_up + sizes.n_rounds * int(sizes.rate * sizes.round_s)
    return {
        "shadow": {
            **_added(shadow["ours"].seconds, direct, 50, 99),
            "of_passthrough": _ratios(shadow["ours"].seconds, shadow["bare"].seconds, 50, 99),
            "cpu_ms": spent["ours"].by_request(n_passed),
        },
        "rerank": _percentiles(rerank.seconds, 50, 95),
        "peers": {
            "passthrough": {
                **_added(shadow["bare"].seconds, direct, 50, 99),
                "cpu_ms": spent["bare"].by_request(n_passed),
            },
            "optillm": optillm,
        },
        "errors": sum(times.n_errors for times in (*shadow.values(), rerank)),
        "rss_slope_mb_per_min": memory.slopes(),
        "goals": GOALS_MS,
        "direct": _percentiles(direct, 50, 99, prefix=""),
        "n_requests": {"shadow": len(shadow["ours"].seconds), "rerank": len(rerank.seconds)},
        "rate": sizes.rate,
        "k": sizes.k,
        "candidate_s": _CANDIDATE_S,
        "machine": machine,
    }


async def send_at_rate(
    client: httpx.AsyncClient,
    url: str,
    times: Times,
    *,
    rate: float,
    seconds: float,
    headers: Mapping[str, str],
) -> None:
    """Send requests at a steady rate, whether the answers are there or not."""
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            group.create_task(_one(client, url, times, headers=headers, less_stub=False))


async def _shadow(
    urls: Mapping[str, str], sizes: Sizes, memory: Memory, *, seed: int
) -> dict[str, Times]:
    rng = np.random.default_rng(seed)
    found = {name: Times() for name in urls}
    headers = {"x-harness-mode": "shadow"}
    async with _client() as client:
        for url in urls.values():
            for _ in range(sizes.n_warm_up):
                await _one(client, url, Times(), headers=headers, less_stub=False)
        for _ in range(sizes.n_rounds):
            for name in rng.permutation(sorted(urls)).tolist():
                url = urls[name]
                await send_at_rate(
                    client,
                    url,
                    found[name],
                    rate=sizes.rate,
                    seconds=sizes.round_s,
                    headers=headers,
                )
                memory.note()
    return found


async def _reranked(url: str, sizes: Sizes, memory: Memory) -> Times:
    times = Times()
    headers = {"x-harness-mode": "rerank", "x-harness-k": str(sizes.k)}
    async with _client() as client:
        for _ in range(sizes.n_warm_up):
            await _one(client, url, Times(), headers=headers, less_stub=True)
        for number in range(sizes.n_reranked):
            await _one(client, url, times, headers=headers, less_stub=True)
            if number % 10 == 0:
                memory.note()
    return times


async def _one(
    client: httpx.AsyncClient,
    url: str,
    times: Times,
    *,
    headers: Mapping[str, str],
    less_stub: bool,
) -> None:
    """One request; an answer that is no decision where one was asked for counts as an error."""
    began = time.perf_counter()
    try:
        response = await client.post(url, json=BODY, headers=dict(headers))
        seconds = time.perf_counter() - began
        valid = bool(response.json()["choices"][0]["message"]["content"])
    except (httpx.HTTPError, KeyError, IndexError, ValueError):
        times.n_errors += 1
        return
    reason = response.headers.get("x-harness-reason", "best_score")
    if response.status_code != 200 or not valid or reason == "timeout":  # noqa: PLR2004
        times.n_errors += 1
        return
    times.seconds.append(seconds - (float(response.headers[SECONDS]) if less_stub else 0.0))


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=256))


def _added(ours: Sequence[float], direct: Sequence[float], *at: int) -> dict[str, float | None]:
    if not ours or not direct:
        return {f"added_p{one}_ms": None for one in at}
    differences = 1000 * (np.percentile(ours, at) - np.percentile(direct, at))
    return {
        f"added_p{one}_ms": round(float(value), 2)
        for one, value in zip(at, differences, strict=True)
    }


def _ratios(ours: Sequence[float], bare: Sequence[float], *at: int) -> dict[str, float | None]:
    """How many times as long requests take as through the bare pass-through."""
    if not ours or not bare:
        return {f"p{one}": None for one in at}
    ratios = np.percentile(ours, at) / np.percentile(bare, at)
    return {f"p{one}": round(float(value), 3) for one, value in zip(at, ratios, strict=True)}


def _percentiles(
    seconds: Sequence[float], *at: int, prefix: str = "added_"
) -> dict[str, float | None]:
    if not seconds:
        return {f"{prefix}p{one}_ms": None for one in at}
    values = 1000 * np.percentile(seconds, at)
    return {
        f"{prefix}p{one}_ms": round(float(value), 2) for one, value in zip(at, values, strict=True)
    }


def _optillm(python: Path | None, upstream: str, sizes: Sizes) -> dict[str, Any] | None:
    """Best of n as optillm has it, on the same stub."""
    if python is None:
        return {"added_p50_ms": None, "reason": "no --optillm-python was given"}
    port = free_port()
    command = [
        str(python),
        # The package is no program, and scripts name the interpreter that they were installed with.
        *(
            "-c",
            "from optillm import main; main()",
            "--approach",
            "bon",
            "--best-of-n",
            str(sizes.k),
        ),
        *("--base-url", upstream.removesuffix("/chat/completions"), "--port", str(port)),
    ]
    environment = {**os.environ, "OPENAI_API_KEY": "sk-none"}
    with running(command, environment=environment):
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        if not answers(f"http://127.0.0.1:{port}/v1/models"):
            return {"added_p50_ms": None, "reason": "optillm did not start"}
        times = asyncio.run(_of_optillm(url, sizes))
    if not times.seconds:
        return {"added_p50_ms": None, "reason": "optillm answered nothing valid"}
    return {**_percentiles(times.seconds, 50, 95), "errors": times.n_errors}


async def _of_optillm(url: str, sizes: Sizes) -> Times:
    times = Times()
    async with _client() as client:
        for number in range(min(sizes.n_reranked, 30) + 3):
            kept = times if number >= 3 else Times()  # noqa: PLR2004  # the first ones warm it up
            began = time.perf_counter()
            try:
                response = await client.post(
                    url, json=BODY, headers={"authorization": "Bearer sk-none"}
                )
                response.raise_for_status()
            except httpx.HTTPError:
                kept.n_errors += 1
                continue
            # It does not pass the stub's time on; the slowest candidate takes what all take.
            kept.seconds.append(time.perf_counter() - began - _CANDIDATE_S)
    return times
