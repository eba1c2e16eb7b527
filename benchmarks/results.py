"""`docs/results.md`: every figure of the benchmarks, made by the commands that it names.

Each command runs in a process of its own and its JSON is kept, so that a run that was cut off goes
on where it was. What a figure was measured on stands beside it: commit, digest of the data, and
the machine.
"""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks.machine import describe_machine
from benchmarks.results_actions import actions_section
from benchmarks.results_selection import selection_section
from benchmarks.results_speed import (
    encode_section,
    proxy_section,
    rewards_section,
    score_section,
    train_section,
)
from benchmarks.results_tables import (
    choices_section,
    closed_loop_section,
    demo_section,
    distil_section,
)
from harness_core.errors import HarnessError
from harness_core.tables import publish_bytes

_LOG: Final = logging.getLogger("harness")

Figures = Mapping[str, Any]


class BenchmarkFailed(HarnessError):
    """A command of the benchmarks did not end well."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One command, and the section that its figures make."""

    arguments: tuple[str, ...]
    title: str
    section: Callable[[Figures], list[str]]
    script: str | None = None
    """A program of the project instead of `harness bench`."""
    beside_min: float = 0.0
    """About how many minutes it takes beside another one; 0 where it must run alone, because it
    measures time or keeps both cores busy."""

    def called(self, arguments: Sequence[str]) -> str:
        """The command as a person types it."""
        return " ".join([f"python {self.script}" if self.script else "harness bench", *arguments])


_AT_ONCE: Final = 2
_SOURCES: Final = (":/", ":/!docs/results.md")
"""What figures depend on: all files but the one that is written from them."""
_PACKS: Final = "{root}/packs"
_ACTIONS: Final = ("ldb", "lats", "reflexion", "tau_bench", "mint_alfworld", "sql")

BENCHES: Final[Mapping[str, Bench]] = MappingProxyType(
    {
        "selection": Bench(
            (
                *("selection", "--workdir", _PACKS, "--jobs", "2"),
                *("--ablation", "parts"),
                *(argument for name in ("codet", "ldb", "lats") for argument in ("--mix", name)),
            ),
            "Selection: best of K on real logs",
            selection_section,
        ),
        "choices": Bench(
            ("choices", "--workdir", _PACKS, "--study", "curriculum", "--study", "old_and_new"),
            "Training: curriculum, old and new logs",
            choices_section,
            beside_min=3,
        ),
        "finetuning": Bench(
            ("choices", "--workdir", _PACKS, "--study", "finetuning"),
            "Training: a fine-tuned encoder",
            choices_section,
            beside_min=7,
        ),
        "distil": Bench(
            (
                *("distil", "--workdir", _PACKS),
                *(part for name in ("codet", "tau_bench") for part in ("--pack", name)),
            ),
            "Students without a transformer",
            distil_section,
            beside_min=5.5,
        ),
        "actions": Bench(
            (
                "actions",
                *(
                    argument
                    for name in _ACTIONS
                    for argument in ("--workdir", f"{name}={_PACKS}/{name}")
                ),
            ),
            "Harness actions, replayed on real logs",
            actions_section,
            beside_min=4,
        ),
        "closed-loop": Bench(
            ("closed-loop", "--workdir", "{root}/closed-loop"),
            "Closed loop on the simulated agent",
            closed_loop_section,
            beside_min=6.5,
        ),
        "demo": Bench(
            ("--workdir", "{root}/demo"),
            "An agent in front of a simulated model, the controller between",
            demo_section,
            script="examples/demo.py",
            beside_min=5,
        ),
        "score": Bench(("score", "--workdir", "{root}/score"), "Time of a decision", score_section),
        "proxy": Bench(
            ("proxy", "--model", "{root}/score/models/student_of_transformer"),
            "The proxy, beside others",
            proxy_section,
        ),
        "encode": Bench(("encode",), "Texts into vectors", encode_section),
        "train": Bench(("train",), "Training", train_section),
        "rewards": Bench(
            ("rewards", "--n-candidates", "1000"), "Grading candidates", rewards_section
        ),
    }
)


def make_results(root: Path, target: Path, *, only: Sequence[str] = (), fresh: bool = True) -> None:
    """Run the commands and write the document.

    Args:
        root: where working folders and the JSON of each command are kept.
        target: the Markdown document.
        only: commands to run; all by default. Others keep the figures they have.
        fresh: run commands whose figures are there again.

    Raises:
        BenchmarkFailed: a command failed; what ran before is kept.
    """
    unknown = sorted(set(only) - BENCHES.keys())
    if unknown:
        raise BenchmarkFailed(f"no benchmark {unknown[0]}; there are {', '.join(BENCHES)}")
    wanted = [
        name
        for name in BENCHES
        if (name in only or not only) and (fresh or not (root / f"{name}.json").exists())
    ]
    run = partial(_run_and_keep, root=root)
    for name in (name for name in wanted if not BENCHES[name].beside_min):
        run(name)
    together = [name for name in wanted if BENCHES[name].beside_min]
    # The longest first, so that both cores end at about the same time.
    together.sort(key=lambda name: -BENCHES[name].beside_min)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(run, together):
            pass
    found = {
        name: json.loads((root / f"{name}.json").read_bytes())
        for name in BENCHES
        if (root / f"{name}.json").exists()
    }
    publish_bytes(target, render(found).encode())


def _run_and_keep(name: str, *, root: Path) -> None:
    """Run a command and keep its record as soon as it is there."""
    record = _run(name, BENCHES[name], root)
    publish_bytes(root / f"{name}.json", json.dumps(record, indent=2).encode())


def render(found: Mapping[str, Figures]) -> str:
    """The document from the records of the commands."""
    lines = [
        "# Results",
        "",
        (
            "Made by `make bench`; every table names the command that prints its figures. Intervals"
            " are 95 %, with whole tasks resampled. A goal that is missed is shown as missed."
        ),
        "",
    ]
    for name, bench in BENCHES.items():
        if name not in found:
            continue
        record = found[name]
        lines += [f"## {bench.title}", "", _provenance(record, bench), ""]
        lines += [*bench.section(record["figures"]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _provenance(record: Figures, bench: Bench) -> str:
    machine = record["machine"]
    changed = ", with changes" if record["changed"] else ""
    return (
        f"`{bench.called(record['arguments'])}` · commit {record['commit']}{changed} · "
        f"{record['seconds'] / 60:.1f} min on {machine['processor']}, {machine['n_cores']} cores, "
        f"Python {machine['python']}"
    )


def _run(name: str, bench: Bench, root: Path) -> dict[str, Any]:
    _LOG.info("benchmark: %s", name)
    arguments = [part.format(root=root) for part in bench.arguments]
    start = time.perf_counter()
    words = [bench.script] if bench.script else ["-m", "flows.cli", "bench"]
    done = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, *words, *arguments],
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise BenchmarkFailed(f"{bench.called(arguments)} ended with {done.returncode}")
    shown = [part.replace(str(root), "data/bench") for part in arguments]
    return {
        "arguments": shown,
        "seconds": time.perf_counter() - start,
        "commit": _git("rev-parse", "--short=12", "HEAD") or "unknown",
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", *_SOURCES)),
        "machine": describe_machine(),
        "figures": json.loads(done.stdout),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603
        ["git", *arguments],  # noqa: S607
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    )
    return done.stdout.strip()
