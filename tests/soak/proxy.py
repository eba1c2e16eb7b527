"""The proxy under load for minutes: a stub upstream, K candidates, clients that leave, new models.

python -m tests.soak.proxy [--minutes 10] [--rate 50] [--model FOLDER] [--kill-every 60]

Half of the requests are scored in shadow, half are ranked; one in fifty is given up by its client.
The model is written anew every half a minute, and the scoring process is killed now and then.
Before memory is watched, more is asked at once than ever after, with more texts than are remembered
and one new model after the other: what grows from then on has no end. Without `--model` one is
trained on sample logs first. Prints one line of JSON: among others what the proxy added to the
time that the upstream says it needed, and how long it took to end when asked to. Exit code 1 if a
request failed, a decision is missing from the log or there twice, or memory grew.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from benchmarks.peers.stub_api import SECONDS
from benchmarks.process_usage import Memory, family
from benchmarks.proxy import BODY
from benchmarks.proxy_processes import our_proxy, stub
from benchmarks.sample_models import VARIANTS, train_models
from harness_core.serving.decision_log import read_log
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import problem_pool

K: Final = 4
CANDIDATE_S: Final = 0.02
LEAVES_EVERY: Final = 50
MAX_SLOPE_MB_PER_MIN: Final = 0.1
"""1 MB in 10 minutes."""
SETTLED_MIN: Final = 5.0
"""A line through less time says more of the machine than of the proxy."""
AT_ONCE: Final = 120
"""Requests before memory is watched: hardly less than one client may have open."""
FILL_S: Final = 300.0
N_FIRST_SWAPS: Final = 6
N_FIRST_TEXTS: Final = 8192
"""More than is remembered of texts."""
MAX_SOCKETS: Final = 32
"""Idle connections to the upstream are kept for a while."""
SWAP_EVERY_S: Final = 30.0
OPENED_S: Final = 15.0
"""After a model was written anew; for a moment two are open, and then no sample is taken."""
_DRAIN_S: Final = 3.0
_SURE: Final = 2.0
"""Standard errors by which a slope has to be above the limit: ten minutes of a process that gets
and gives back some MB with each model tell 0.1 from 0.3 MB a minute, thirty tell it from 0.15."""


def main() -> int:
    """Run it, say what was found, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--model", type=Path, help="a model folder")
    parser.add_argument(
        "--kill-every", type=float, default=0.0, help="seconds between kills of the scoring process"
    )
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = (
            options.model or train_models(scratch / "trained", {"shipped": VARIANTS["shipped"]})[0]
        )
        # A copy, since a model that is written anew is picked up as a new one.
        model = scratch / "model"
        shutil.copytree(given, model)
        texts = problem_pool(load_problems()[0], seed=0).programs
        upstream = stack.enter_context(stub(scratch, texts, seconds=CANDIDATE_S))
        url, process = stack.enter_context(
            our_proxy(upstream, model, scratch, scratch / "workdir", k=K)
        )
        memory = Memory(process)
        before = n_sockets(process.pid)
        seen = asyncio.run(
            load(
                url,
                model,
                memory,
                rate=options.rate,
                seconds=60 * options.minutes,
                kill=lambda: kill_scorer(process.pid),
                kill_every=options.kill_every or float("inf"),
            )
        )
        time.sleep(_DRAIN_S)
        left = n_sockets(process.pid) - before
        asked = time.perf_counter()
        process.terminate()
        process.wait(timeout=20)
        drain_s = time.perf_counter() - asked
        logged = Counter(entry.decision_id for entry in read_log(scratch / "decisions"))
    answered: set[str] = seen.pop("decision_ids")
    added: dict[str, list[float]] = seen.pop("added_s")
    figures = {
        **seen,
        "added_ms": {
            mode: {
                f"p{share}": round(1e3 * float(np.percentile(times, share)), 1)
                for share in (50, 95, 99)
            }
            for mode, times in sorted(added.items())
        },
        "drain_s": round(drain_s, 2),
        "rss_slope_mb_per_min": memory.slopes(),
        "slope_error_mb_per_min": memory.slope_errors(),
        "sockets_left": left,
        "exit_code": process.returncode,
        "not_logged": len(answered - logged.keys()),
        "logged_twice": sum(n > 1 for n in logged.values()),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    slopes, errors = memory.slopes(), memory.slope_errors()
    # A scoring process that was killed begins anew, and so does its memory.
    watched = ["own"] if options.kill_every else ["own", "children"]
    is_flat = options.minutes < SETTLED_MIN or all(
        (slopes[one] or 0.0) - _SURE * (errors[one] or 0.0) <= MAX_SLOPE_MB_PER_MIN
        for one in watched
    )
    clean = ("errors", "not_logged", "logged_twice", "exit_code")
    return 0 if is_flat and left <= MAX_SOCKETS and not any(figures[name] for name in clean) else 1


async def load(
    url: str,
    model: Path,
    memory: Memory,
    *,
    rate: float,
    seconds: float,
    kill: Callable[[], int],
    kill_every: float,
) -> dict[str, Any]:
    """Send requests at a steady rate; the model is written anew from time to time."""
    seen: dict[str, Any] = {"requests": 0, "errors": 0, "left": 0, "swaps": 0, "kills": 0}
    seen |= {"reasons": Counter(), "decision_ids": set(), "added_s": {}}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        async with asyncio.timeout(FILL_S):
            await fill(client, url, model, seen)
        seen["added_s"].clear()  # what was asked at once says nothing of a steady rate
        began = swapped = killed = noted = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                group.create_task(one(client, url, number, seen))
                now = time.perf_counter()
                if now - noted > 1 and now - swapped > OPENED_S:
                    noted = now
                    memory.note()
                if now - swapped > SWAP_EVERY_S:
                    swapped = now
                    write_anew(model, seen)
                if now - killed > kill_every:
                    killed = now
                    seen["kills"] += kill()
    return seen


async def fill(client: httpx.AsyncClient, url: str, model: Path, seen: dict[str, Any]) -> None:
    """Ask for the most at once, with new models meanwhile, until whatever has a bound is full."""
    n_texts = n_swaps = 0
    version = await version_in_use(client, url)
    write_anew(model, seen)
    while n_texts < N_FIRST_TEXTS or n_swaps < N_FIRST_SWAPS:
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(one(client, url, number, seen))
        n_texts += AT_ONCE // 2 * (1 + K)
        if version != (version := await version_in_use(client, url)):
            n_swaps += 1
            write_anew(model, seen)


async def version_in_use(client: httpx.AsyncClient, url: str) -> str | None:
    """The model that the proxy decides with."""
    answer = await client.get(url.replace("/v1/chat/completions", "/readyz"))
    found: str | None = answer.json()["model"]
    return found


def write_anew(model: Path, seen: dict[str, Any]) -> None:
    """Make another model of it, as far as the proxy can tell."""
    os.utime(model / "manifest.json")
    seen["swaps"] += 1


async def one(client: httpx.AsyncClient, url: str, number: int, seen: dict[str, Any]) -> None:
    """One request, or one that is given up."""
    seen["requests"] += 1
    mode = "rerank" if number % 2 else "shadow"
    headers = {"x-harness-mode": mode}
    if number % LEAVES_EVERY == 0:
        seen["left"] += 1
        with contextlib.suppress(httpx.TimeoutException):
            await client.post(url, json=BODY, headers=headers, timeout=CANDIDATE_S / 4)
        return
    began = time.perf_counter()
    try:
        answer = await client.post(url, json=BODY, headers=headers)
        taken = time.perf_counter() - began
        is_valid = bool(answer.json()["choices"][0]["message"]["content"])
    except (httpx.HTTPError, KeyError, IndexError, ValueError) as error:
        seen["errors"] += 1
        seen["reasons"][type(error).__name__] += 1
        return
    seen["errors"] += answer.status_code != 200 or not is_valid
    seen["reasons"][answer.headers.get("x-harness-reason", "shadow")] += 1
    if SECONDS in answer.headers:
        seen["added_s"].setdefault(mode, []).append(taken - float(answer.headers[SECONDS]))
    seen["decision_ids"].add(answer.headers["x-controller-decision-id"])


def kill_scorer(pid: int) -> int:
    """Kill what the proxy started; how many that were."""
    own, *children = family(pid)
    del own
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return len(children)


def n_sockets(pid: int) -> int:
    """Open sockets of a process."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    return sum(str(link.readlink()).startswith("socket:") for link in links)


if __name__ == "__main__":
    sys.exit(main())
