"""Texts to encode: programs and messages of simulated agents, and of real logs where there are."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from harness_core.importers.base import ImportContext
from harness_core.importers.catalogue import IMPORTERS
from harness_core.importers.config import IngestConfig
from harness_core.simulation.problems import load_problems
from harness_core.simulation.runs import problem_pool, simulated_agent, start_state
from harness_core.trajectories.schema import Trajectory

_PACKS: Final = ("intercode", "reflexion", "tau_bench")
"""Packs of several steps, in which agents write messages, queries, calls and programs."""
_N_TRAJECTORIES: Final = 60
"""Of each pack, the first ones in the order of the files."""
_N_PROPOSALS: Final = 4
_MAX_CHARS: Final = 4000
"""As much of a text as the features look at."""
_INGEST: Final = IngestConfig(
    sources=(),
    max_reject_rate=1.0,
    max_record_bytes=1 << 24,
    max_depth=64,
    max_generated_checks=1,
    max_controller_share=1.0,
)


def benchmark_texts(packs: Path | None, *, n: int, seed: int) -> list[str]:
    """At most n distinct texts in random order.

    Half of them are real where `packs` holds any of the packs. The same seed gives the same texts.
    """
    rng = random.Random(seed)
    real = [] if packs is None else _drawn(_real(packs), n=n // 2, rng=rng)
    texts = [*_drawn(_simulated(seed), n=n - len(real), rng=rng), *real]
    return rng.sample(distinct := list(dict.fromkeys(texts)), len(distinct))


def _drawn(texts: Iterator[str], *, n: int, rng: random.Random) -> list[str]:
    distinct = list(dict.fromkeys(text[-_MAX_CHARS:] for text in texts if text.strip()))
    return rng.sample(distinct, min(n, len(distinct)))


def _simulated(seed: int) -> Iterator[str]:
    for problem in load_problems():
        yield problem.prompt
        pool = problem_pool(problem, seed=seed)
        yield from pool.programs
        agent = simulated_agent(problem, number=0, seed=seed, pool=pool)
        for proposal in agent.propose(start_state(problem), _N_PROPOSALS):
            yield f"{proposal.thought}\n{proposal.code}"


def _real(packs: Path) -> Iterator[str]:
    for name in _PACKS:
        folder = packs / name
        if folder.is_dir():
            context = ImportContext(source=name, config=_INGEST)
            items = IMPORTERS[name].read(folder, context)
            runs = (item for item in items if isinstance(item, Trajectory))
            for run in islice(runs, _N_TRAJECTORIES):
                yield run.task.description
                for step in run.steps:
                    yield from (step.observation, step.action.text, step.result)
