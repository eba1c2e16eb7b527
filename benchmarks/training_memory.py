"""Memory and cost of training on features that lie on disc, from a small log to a large one.

Each size is measured in a process of its own (`python -m benchmarks.training_memory`), which writes
the features of a generated log, maps them into memory and trains on them.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from benchmarks.agent_log import HORIZON, N_KINDS, Projections, Runs, as_arrays, play
from benchmarks.peers.harness_iql import comparable, spec_of, training_data
from benchmarks.peers.trainer import Shape
from harness_core.errors import HarnessError
from harness_core.features.batch import Floats, TransitionArrays
from harness_core.learners.trainer import fit

LIMIT_GIB: Final = 4.0
_SMALLEST: Final = 10_000
_RUNS_A_CHUNK: Final = 5_000
_N_UPDATES: Final = 300
_COLUMNS: Final = ("state", "action", "next_state")


def memory_figures(n_transitions: int, shape: Shape, projections: Projections) -> dict[str, Any]:
    """Peak memory and cost per transition at 10 k, 100 k, … up to the size asked for.

    `flatness` is the cost of the largest log divided by that of the smallest.
    """
    if not n_transitions:
        return {}
    counts = [n_transitions]
    while counts[-1] > _SMALLEST:
        counts.append(max(_SMALLEST, counts[-1] // 10))
    found = [
        _in_a_process(
            n,
            shape,
            n_state=projections.state.shape[1],
            n_action=N_KINDS + projections.action.shape[1],
        )
        for n in reversed(counts)
    ]
    costs = ("prepare_us_per_transition", "update_us_per_transition")
    peak = max(item["peak_rss_gib"] for item in found)
    return {
        "sizes": found,
        "peak_rss_gib": peak,
        "limit_gib": LIMIT_GIB,
        "is_within_limit": peak < LIMIT_GIB,
        "flatness": {name: round(found[-1][name] / found[0][name], 2) for name in costs},
    }


def _in_a_process(
    n_transitions: int, shape: Shape, *, n_state: int, n_action: int
) -> dict[str, Any]:
    job = {
        **asdict(shape),
        "n_transitions": n_transitions,
        "n_state": n_state,
        "n_action": n_action,
    }
    done = subprocess.run(  # noqa: S603  # this very module
        [sys.executable, "-m", "benchmarks.training_memory", json.dumps(job)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise HarnessError(f"training on {n_transitions:,} transitions failed: {done.stderr}")
    return cast("dict[str, Any]", json.loads(done.stdout))


def measure(
    n_transitions: int, shape: Shape, projections: Projections, *, n_updates: int = _N_UPDATES
) -> dict[str, Any]:
    """Figures of this very process, which should have done nothing else."""
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        arrays = _mapped(Path(folder), n_transitions, projections, seed=shape.seed)
        base_gib = _peak_gib()
        n_rows = len(arrays.trajectory)
        spec = spec_of(arrays, shape.hidden_sizes)
        config = comparable(shape).model_copy(update={"max_updates": 1})
        began = time.perf_counter()
        fit(training_data(arrays, spec, batch_size=shape.batch_size), spec, config, seed=0)
        prepared = time.perf_counter()
        config = config.model_copy(update={"max_updates": 1 + n_updates})
        fit(training_data(arrays, spec, batch_size=shape.batch_size), spec, config, seed=0)
        ended = time.perf_counter()
        n_learnt = n_updates * shape.batch_size
        size = sum(getattr(arrays, name).nbytes for name in _COLUMNS)
        return {
            "n_transitions": n_rows,
            "features_gib": round(size / 2**30, 3),
            "before_training_gib": round(base_gib, 3),
            "peak_rss_gib": round(_peak_gib(), 3),
            "prepare_us_per_transition": round(1e6 * (prepared - began) / n_rows, 3),
            "update_us_per_transition": round(
                1e6 * (ended - prepared - (prepared - began)) / n_learnt, 3
            ),
        }


def _mapped(
    folder: Path, n_transitions: int, projections: Projections, *, seed: int
) -> TransitionArrays:
    """A log of about this size whose features are files; no more than a chunk is ever in memory."""
    rng = np.random.default_rng([seed, 2])
    chunks: list[Runs] = []
    n_rows = n_runs = 0
    while n_rows < n_transitions:
        wanted = max(1, (n_transitions - n_rows) // HORIZON)
        runs = play(min(_RUNS_A_CHUNK, wanted), rng)
        for name, values in zip(_COLUMNS, projections.features(runs, rng), strict=True):
            with (folder / name).open("ab") as sink:
                sink.write(values.tobytes())
        chunks.append(runs)
        n_rows += len(runs.run)
    fields = {
        name: np.concatenate([getattr(runs, name) for runs in chunks])
        for name in Runs.__slots__
        if name != "run"
    }
    for runs in chunks:
        runs.run[:] += n_runs
        n_runs = int(runs.run[-1]) + 1
    whole = Runs(run=np.concatenate([runs.run for runs in chunks]), **fields)
    state, action, next_state = (_map(folder / name, n_rows) for name in _COLUMNS)
    return as_arrays(whole, state=state, action=action, next_state=next_state)


def _map(path: Path, n_rows: int) -> Floats:
    """Copy-on-write, because torch warns of memory that it cannot write to."""
    width = path.stat().st_size // (4 * n_rows)
    return np.memmap(path, dtype=np.float32, mode="c", shape=(n_rows, width))


def _peak_gib() -> float:
    """Most resident memory this process ever had, mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _main(job: dict[str, Any]) -> None:
    projections = Projections.draw(
        n_state=job.pop("n_state"), n_action=job.pop("n_action"), seed=job["seed"]
    )
    n_transitions = job.pop("n_transitions")
    shape = Shape(**{**job, "hidden_sizes": tuple(job["hidden_sizes"])})
    sys.stdout.write(json.dumps(measure(n_transitions, shape, projections)) + "\n")


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
