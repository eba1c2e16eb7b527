"""One pack's table: every method's picks from the same candidates, with intervals by task."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.peers.trainer import PeerMissing
from benchmarks.selection.diagnose import diagnose
from benchmarks.selection.methods import METHODS
from benchmarks.selection.networks import JudgedController
from benchmarks.selection.pack import Pack
from benchmarks.selection.packs import PackSpec, offers_choice
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import Doubles, gap_closed, json_ready
from harness_core.evaluation.running import running_attempts
from harness_core.evaluation.selection import ORACLE, RANDOM, Outcomes, Selector, judge
from harness_core.evaluation.subsets import draw_subsets, whole
from harness_core.features.batch import DecisionGroup

_LOG: Final = logging.getLogger("harness")

SIZES: Final = (2, 4, 8, 16, 50, 100)
"""K of the tables, where a pack has groups that large."""
OURS: Final = "controller"
_MIN_TASKS: Final = 10
"""A K that fewer tasks offer is left out."""

Row = dict[str, Any]


def pack_table(
    pack: Pack,
    spec: PackSpec,
    *,
    methods: Sequence[str],
    n_subsets: int,
    bootstrap: Bootstrap,
    seed: int,
) -> Row:
    """Everything that the benchmark says of one pack, as plain JSON values."""
    selectors, seconds, missing = fitted(pack, methods, seed=seed)
    groups = offers_choice(pack.groups)
    by_size = {}
    for size in sizes_of(groups):
        subsets = draw_subsets(groups, size=size, n_subsets=n_subsets, seed=seed)
        by_size[str(size)] = size_table(judge(subsets, selectors), bootstrap)
    every = judge(whole(groups), selectors)
    row: Row = {
        "n_tasks": len({group.task_id for group in pack.groups}),
        "n_tasks_with_choice": len({group.task_id for group in groups}),
        "n_attempts": sum(group.size for group in pack.groups),
        "n_transitions": len(pack.transitions.discount),
        "caveat": spec.caveat,
        "attempts": pack.params.transitions.attempts,
        "k": by_size,
        "all": size_table(every, bootstrap),
        "diagnosis": diagnose(pack, selectors, bootstrap),
        "seconds": seconds,
        "not_shown": missing,
    }
    controller = selectors.get(OURS)
    if spec.running_steps and isinstance(controller, JudgedController):
        row["running"] = running_attempts(controller.judged, pack.transitions)
    ready: Row = json_ready(row)
    return ready


def fitted(
    pack: Pack, methods: Sequence[str], *, seed: int
) -> tuple[dict[str, Selector], dict[str, float], dict[str, str]]:
    """Selectors by name, what each took to fit, and why others are not there."""
    selectors: dict[str, Selector] = {}
    seconds: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name in methods:
        start = time.perf_counter()
        try:
            selector = METHODS[name](pack, seed)
        except PeerMissing as error:
            missing[name] = str(error)
            continue
        if selector is None:
            missing[name] = "says nothing in this pack"
            continue
        selectors[name] = selector
        seconds[name] = round(time.perf_counter() - start, 2)
        _LOG.info("benchmark: %s: %s fitted in %.1f s", pack.name, name, seconds[name])
    return selectors, seconds, missing


def sizes_of(groups: Sequence[DecisionGroup]) -> list[int]:
    """The K that enough tasks offer."""
    largest = np.array([group.size for group in groups])
    return [size for size in SIZES if int((largest >= size).sum()) >= _MIN_TASKS]


def size_table(outcomes: Outcomes, bootstrap: Bootstrap) -> Row:
    """Success and gap closed of every method at one K, and what ours gains over it, in pairs."""
    tasks, values = outcomes.by_task(outcomes.success)
    column = dict(zip(outcomes.selectors, values.T, strict=True))
    samples = dict(zip(outcomes.selectors, bootstrap.means(values).T, strict=True))
    return {
        "n_tasks": len(tasks),
        "random": float(column[RANDOM].mean()),
        "oracle": float(column[ORACLE].mean()),
        "methods": {
            name: {
                "success": float(column[name].mean()),
                **_gap(column, samples, name, bootstrap),
                **_gain(column, name, bootstrap),
            }
            for name in outcomes.selectors
            if name not in {RANDOM, ORACLE}
        },
    }


def _gap(
    column: Mapping[str, Doubles], samples: Mapping[str, Doubles], name: str, bootstrap: Bootstrap
) -> Row:
    interval = bootstrap.interval(gap_closed(samples[name], samples[RANDOM], samples[ORACLE]))
    means = [column[key].mean() for key in (name, RANDOM, ORACLE)]
    return {
        "gap_closed": float(gap_closed(*means)),
        "gap_interval": [interval.low, interval.high],
    }


def _gain(column: Mapping[str, Doubles], name: str, bootstrap: Bootstrap) -> Row:
    """What the controller gains over a method, with its interval; nothing over itself."""
    if name == OURS or OURS not in column:
        return {}
    found = bootstrap.difference(column[OURS] - column[name])
    return {"controller_gains": found.value, "gain_interval": [found.low, found.high]}
