"""Whether it helps to learn from all packs together: alone against together, pack by pack.

All sources go through one working folder, so that both ways see the same features; tasks that
several sources share are in one fold, so no model has seen the task that it judges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.selection import networks
from benchmarks.selection.pack import Pack
from benchmarks.selection.packs import PackSpec, offers_choice, prepare_pack
from benchmarks.selection.tables import sizes_of
from harness_core.errors import NoDataError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import gap_closed, json_ready
from harness_core.evaluation.selection import ORACLE, RANDOM, Selector, judge
from harness_core.evaluation.subsets import draw_subsets
from harness_core.features.batch import TransitionArrays

_ALONE: Final = "alone"
_TOGETHER: Final = "together"
_HEADLINE: Final = 8


def prepare_together(
    specs: Mapping[str, PackSpec], root: Path, packs: Path, overrides: Sequence[str]
) -> Pack:
    """One pack of the sources of several."""
    spec = PackSpec(sources=tuple(source for item in specs.values() for source in item.sources))
    return prepare_pack("together", spec, root, packs, overrides)


def mixing_table(
    together: Pack, *, n_subsets: int, bootstrap: Bootstrap, seed: int
) -> dict[str, Any]:
    """Success of the controller by source, trained on that source alone and on all."""
    everywhere = networks.controller(together, seed)
    rows = {}
    for source in sorted({group.source for group in together.groups}):
        own = restricted(together, source)
        try:
            alone = networks.controller(own, seed)
        except NoDataError as error:
            rows[source] = {"left_out": str(error)}
            continue
        ways = {_ALONE: alone, _TOGETHER: everywhere}
        rows[source] = _row(own, ways, n_subsets=n_subsets, bootstrap=bootstrap, seed=seed)
    result: dict[str, Any] = json_ready(rows)
    return result


def restricted(pack: Pack, source: str) -> Pack:
    """A pack's groups of one source, and the transitions of the tasks of these."""
    groups = tuple(group for group in pack.groups if group.source == source)
    inside = np.isin(pack.transitions.task_id, sorted({group.task_id for group in groups}))
    fields = {name: getattr(pack.transitions, name)[inside] for name in TransitionArrays.__slots__}
    return replace(pack, name=source, groups=groups, transitions=TransitionArrays(**fields))


def _row(
    own: Pack,
    ways: Mapping[str, Selector],
    *,
    n_subsets: int,
    bootstrap: Bootstrap,
    seed: int,
) -> dict[str, Any]:
    groups = offers_choice(own.groups)
    sizes = [size for size in sizes_of(groups) if size <= _HEADLINE]
    if not sizes:
        return {"left_out": "too few tasks offer a choice"}
    subsets = draw_subsets(groups, size=sizes[-1], n_subsets=n_subsets, seed=seed)
    outcomes = judge(subsets, ways)
    tasks, values = outcomes.by_task(outcomes.success)
    column = dict(zip(outcomes.selectors, values.T, strict=True))
    random, oracle = column[RANDOM].mean(), column[ORACLE].mean()
    found = bootstrap.difference(column[_TOGETHER] - column[_ALONE])
    return {
        "k": sizes[-1],
        "n_tasks": len(tasks),
        "random": random,
        "oracle": oracle,
        **{name: column[name].mean() for name in (_ALONE, _TOGETHER)},
        "gap_alone": float(gap_closed(column[_ALONE].mean(), random, oracle)),
        "gap_together": float(gap_closed(column[_TOGETHER].mean(), random, oracle)),
        "together_gains": found.value,
        "gain_interval": [found.low, found.high],
    }
