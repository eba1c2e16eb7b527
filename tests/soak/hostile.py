"""Many thousand hostile candidates in a row, slow ones and box-killers among them.

python -m tests.soak.hostile [number]

Prints one line of JSON: how many of which kind, what they left on the host, and how the memory of
this process, the grader, grew. Exit code 1 if a check passed or anything is left.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any, Final

from harness_core.params import load_params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import GradeJob, Grader
from tests.sandbox.host import (
    Snapshot,
    descendants,
    inhabitants,
    namespaces_of,
    resident_bytes,
)
from tests.sandbox.hostile import CHECKS, hostile

N: Final = 20_000
SLOW_EVERY: Final = 50
KILLER_EVERY: Final = 20
BATCH: Final = 500
WARM_UP: Final = 4
"""Batches after which caches are full, so that growth is a leak."""
_PATIENCE_S: Final = 10.0


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else N
    limits = load_params(Path(__file__).parents[2] / "params.yaml").sandbox
    with tempfile.TemporaryDirectory() as home:
        report = soak(n, limits.model_copy(update={"cpu_s": 1, "wall_s": 1.0}), Path(home))
    sys.stdout.write(f"{json.dumps(report)}\n")
    return int(bool(report["checks_passed"] or report["left"] or report["inhabitants"]))


def soak(n: int, limits: SandboxConfig, home: Path) -> dict[str, Any]:
    """Grade `n` hostile candidates and say what came of it."""
    os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = str(home)
    before = Snapshot.take(home)
    memory: list[float] = []
    passed = flagged = 0
    began = time.monotonic()
    with open_sandbox(limits) as sandbox:
        grader = Grader(sandbox)
        candidates = hostile(n=n, slow_every=SLOW_EVERY, killer_every=KILLER_EVERY)
        while batch := list(islice(candidates, BATCH)):
            verdicts = grader.grade([GradeJob(program, "f", CHECKS) for program in batch])
            passed += sum(verdict.n_passed for verdict in verdicts)
            flagged += sum(verdict.tampered for verdict in verdicts)
            memory.append(resident_bytes() / (1 << 20))
            sys.stderr.write(f"{len(memory) * BATCH} of {n}\n")
        boxes = namespaces_of(descendants(os.getpid()))
    seconds = time.monotonic() - began
    left_in_boxes = _patiently_gone(boxes)
    return {
        "candidates": n,
        "slow": n // SLOW_EVERY,
        "box_killers": sum(_is_killer(number) for number in range(n)),
        "seconds": round(seconds, 1),
        "candidates_per_s": round(n / seconds, 1),
        "checks_passed": passed,
        "flagged": flagged,
        "inhabitants": len(left_in_boxes),
        "left": before.changes(Snapshot.take(home)),
        "grader_mib": {
            "first": round(memory[0], 1),
            "last": round(memory[-1], 1),
            "growth_per_1000": _growth(memory),
        },
    }


def _is_killer(number: int) -> bool:
    return (number + 1) % KILLER_EVERY == 0 and (number + 1) % SLOW_EVERY != 0


def _growth(memory: list[float]) -> float | None:
    """MiB a thousand candidates after the warm-up, by least squares."""
    steady = memory[WARM_UP:]
    if len(steady) < 2:  # a line needs two points
        return None
    line = statistics.linear_regression(range(len(steady)), steady)
    return round(line.slope * 1000 / BATCH, 3)


def _patiently_gone(boxes: frozenset[str]) -> list[int]:
    deadline = time.monotonic() + _PATIENCE_S
    while (left := inhabitants(boxes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


if __name__ == "__main__":
    sys.exit(main())
