"""How fast IQL trains here, beside d3rlpy, TorchRL, a bare loop and the bare matrix products.

All learn from one generated log with networks of one size, batches of one size and as many threads.
They take turns in an order drawn anew for each round, so that what else happens on the machine hits
all alike; a ratio is the median of the ratios within the rounds. A peer that cannot be had is left
out and named under `unavailable`.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch

from benchmarks.agent_log import AgentLog, Projections, generate
from benchmarks.machine import describe_machine
from benchmarks.peers.bare_iql import BareIql
from benchmarks.peers.d3rlpy_elsewhere import D3rlpyElsewhere
from benchmarks.peers.d3rlpy_iql import D3rlpyIql, Study
from benchmarks.peers.harness_iql import HarnessIql, train
from benchmarks.peers.matmuls import Matmuls
from benchmarks.peers.torchrl_iql import TorchrlIql
from benchmarks.peers.trainer import PeerMissing, Shape, Trainer
from benchmarks.ranking import quality
from benchmarks.training_memory import memory_figures
from harness_core.learners.config import TrainConfig

N_STATE: Final = 157
N_ACTION: Final = 134
"""Widths of the shipped features on the logs that the study was made with."""

_MINE: Final = HarnessIql.name
_SEEDS: Final = 3
_FIRST_UPDATES: Final = 10

MakeTrainer = Callable[[AgentLog, Shape], Trainer]

TRAINERS: Final[Mapping[str, MakeTrainer]] = {
    HarnessIql.name: HarnessIql,
    D3rlpyIql.name: D3rlpyIql,
    TorchrlIql.name: TorchrlIql,
    BareIql.name: BareIql,
    Matmuls.name: Matmuls,
}


def all_trainers(*, d3rlpy_python: Path | None) -> dict[str, MakeTrainer]:
    """Everybody, d3rlpy in another interpreter if one is given."""
    if d3rlpy_python is None:
        return dict(TRAINERS)
    return {**TRAINERS, D3rlpyIql.name: partial(D3rlpyElsewhere, python=d3rlpy_python)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    n_state: int = N_STATE
    n_action: int = N_ACTION
    n_runs: int = 3000
    """Runs of the log that is learnt from; half as many are held out."""
    n_updates: int = 100
    """Updates of one round."""
    n_rounds: int = 7
    budget: int = 1500
    """Updates that d3rlpy gets to reach its quality."""
    n_transitions: int = 1_000_000
    """Transitions of the largest log whose memory is measured; 0 leaves memory out."""


def compare(
    sizes: Sizes,
    shape: Shape,
    shipped: TrainConfig,
    *,
    trainers: Mapping[str, MakeTrainer] = TRAINERS,
) -> dict[str, Any]:
    """All figures of `harness bench train`.

    Args:
        sizes: how much is measured.
        shape: networks, batch, threads and seed of all.
        shipped: the section `train` that our own trainer uses to reach d3rlpy's quality.
        trainers: what is compared; our own must be among them.
    """
    machine = describe_machine()
    n_threads = torch.get_num_threads()
    projections = Projections.draw(n_state=sizes.n_state, n_action=sizes.n_action, seed=shape.seed)
    log, held_out = (
        generate(n_runs=n, projections=projections, seed=shape.seed + index)
        for index, n in enumerate((sizes.n_runs, sizes.n_runs // 2))
    )
    ready, unavailable = _ready(trainers, log, shape)
    try:
        rounds = measure(ready, sizes, seed=shape.seed)
        studied = [each for each in ready if isinstance(each, D3rlpyIql | D3rlpyElsewhere)]
        quality = (
            time_to_quality(log, held_out, studied[0].study(held_out, sizes.budget), shape, shipped)
            if studied
            else {"unavailable": unavailable.get(D3rlpyIql.name, "not asked for")}
        )
        memory = memory_figures(sizes.n_transitions, shape, projections)
    finally:
        torch.set_num_threads(n_threads)
        for trainer in ready:
            if isinstance(trainer, D3rlpyElsewhere):
                trainer.close()
    return {
        **summary(rounds),
        "time_to_quality": quality,
        "memory": memory,
        "shape": {
            "n_state": sizes.n_state,
            "n_action": sizes.n_action,
            "hidden_sizes": list(shape.hidden_sizes),
            "batch_size": shape.batch_size,
            "n_threads": shape.n_threads,
            "n_transitions": len(log.runs.run),
            "n_updates": sizes.n_updates,
            "n_rounds": sizes.n_rounds,
        },
        "versions": _versions(ready),
        "unavailable": unavailable,
        "machine": machine,
    }


def _versions(ready: Sequence[Trainer]) -> dict[str, Any]:
    """What computes here, and what in d3rlpy's interpreter if that is another one."""
    elsewhere = [each.versions for each in ready if isinstance(each, D3rlpyElsewhere)]
    return {
        "torch": torch.__version__,
        "products": "oneDNN" if _has_onednn() else "BLAS",
        **({"d3rlpy_interpreter": elsewhere[0]} if elsewhere else {}),
    }


def _ready(
    trainers: Mapping[str, MakeTrainer], log: AgentLog, shape: Shape
) -> tuple[list[Trainer], dict[str, str]]:
    ready: list[Trainer] = []
    unavailable: dict[str, str] = {}
    for name, make in trainers.items():
        try:
            ready.append(make(log, shape))
        except PeerMissing as error:
            unavailable[name] = str(error)
    return ready, unavailable


def measure(trainers: Sequence[Trainer], sizes: Sizes, *, seed: int) -> list[dict[str, float]]:
    """Seconds per update of every trainer, a mapping a round."""
    rng = random.Random(seed)
    for trainer in trainers:  # first calls and caches are no part of anybody's figure
        trainer.seconds_per_update(max(1, sizes.n_updates // 10))
    return [
        {
            trainer.name: trainer.seconds_per_update(sizes.n_updates)
            for trainer in rng.sample(list(trainers), len(trainers))
        }
        for _ in range(sizes.n_rounds)
    ]


def summary(rounds: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Medians over the rounds.

    `ratio` says how many times as fast ours is; for the matrix products alone, how many times their
    time ours takes.
    """
    speed = [name for name in TRAINERS if name in rounds[0] and name != Matmuls.name]
    ratio = {
        name: _ratio([each[name] / each[_MINE] for each in rounds])
        for name in speed
        if name != _MINE
    }
    if Matmuls.name in rounds[0]:
        ratio[Matmuls.name] = _ratio([each[_MINE] / each[Matmuls.name] for each in rounds])
    return {
        "updates_per_s": {
            name: round(1.0 / median(each[name] for each in rounds), 1) for name in speed
        },
        "ratio": {name: item["median"] for name, item in ratio.items()},
        "ratio_range": {name: [item["low"], item["high"]] for name, item in ratio.items()},
    }


def _ratio(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(median(values), 2),
        "low": round(min(values), 2),
        "high": round(max(values), 2),
    }


def time_to_quality(
    log: AgentLog, held_out: AgentLog, peer: Study, shape: Shape, shipped: TrainConfig
) -> dict[str, Any]:
    """Our wall time to the held-out AUC that d3rlpy has after its budget, with what is shipped.

    Ours is trained anew for twice as many updates each time, everything included, until the median
    over seeds has that AUC. `d3rlpy_first_s` is when d3rlpy itself had it for the first time.
    """
    target, budget = peer.auc, peer.n_updates
    ours: dict[str, Any] = {}
    n_updates = _FIRST_UPDATES
    while n_updates <= max(budget, _FIRST_UPDATES):
        ours = _train_ours(log, held_out, n_updates, shape, shipped)
        if ours["auc"] >= target:
            break
        n_updates *= 2
    is_reached = ours["auc"] >= target
    return {
        "target_auc": target,
        "d3rlpy": {
            "seconds": peer.seconds,
            "n_updates": budget,
            "auc": peer.auc,
            "spearman": peer.spearman,
        },
        "d3rlpy_first_s": peer.first_s,
        "harness": ours,
        "is_reached": is_reached,
        "share_of_time": round(ours["seconds"] / peer.seconds, 4) if is_reached else None,
        "share_of_first_time": round(ours["seconds"] / peer.first_s, 4) if is_reached else None,
    }


def _train_ours(
    log: AgentLog, held_out: AgentLog, n_updates: int, shape: Shape, shipped: TrainConfig
) -> dict[str, Any]:
    """Medians over a few seeds."""
    found = []
    for seed in range(shape.seed, shape.seed + _SEEDS):
        config = shipped.model_copy(
            update={
                "learner": "iql",
                "accelerator": "cpu",
                "seed": seed,
                "max_updates": n_updates,
                "n_threads": shape.n_threads,
            }
        )
        began = time.perf_counter()
        ranker = train(log, config)
        seconds = round(time.perf_counter() - began, 3)
        found.append({"seconds": seconds, **quality(ranker, held_out)})
    return {
        "n_updates": n_updates,
        **{key: median(item[key] for item in found) for key in found[0]},
    }


def _has_onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
