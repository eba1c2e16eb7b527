"""What each part of the controller is worth: the same training without it.

Everything is judged out of fold on the same random candidates; differences are to the first row,
the controller as it is shipped, in pairs of tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from benchmarks.selection import networks
from benchmarks.selection.pack import Pack
from benchmarks.selection.packs import offers_choice
from benchmarks.selection.tables import sizes_of
from harness_core.controller.combination import CRITIC_ALONE
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.metrics import gap_closed, json_ready
from harness_core.evaluation.selection import ORACLE, RANDOM, Selector, judge
from harness_core.evaluation.subsets import Subset, draw_subsets
from harness_core.features.batch import DecisionGroup, GroupSignals

Row = dict[str, Any]
_SHIPPED: Final = "as shipped"
_LARGEST: Final = 16


def parts(pack: Pack, *, n_subsets: int, bootstrap: Bootstrap, seed: int) -> list[Row]:
    """Rows with one part left out each."""
    shipped = networks.controller(pack, seed)
    variants: dict[str, tuple[Pack, Selector]] = {_SHIPPED: (pack, shipped)}
    if isinstance(shipped, networks.JudgedController):
        variants["without stage two"] = (pack, _without_stage_two(shipped))
        for name, other in _OTHERS.items():
            variants[name] = (pack, networks.controller_with(pack, seed, **other))
    if any(_has_made(group) for group in pack.groups):
        varied = _changed(pack, _without_made)
        variants["without made inputs"] = (varied, networks.controller(varied, seed))
    return _rows(variants, n_subsets=n_subsets, bootstrap=bootstrap, seed=seed)


def _rows(
    variants: Mapping[str, tuple[Pack, Selector]],
    *,
    n_subsets: int,
    bootstrap: Bootstrap,
    seed: int,
) -> list[Row]:
    rows: list[Row] = []
    base: dict[int, Any] = {}
    drawn: dict[tuple[int, int], list[Subset]] = {}
    for name, (pack, selector) in variants.items():
        groups = offers_choice(pack.groups)
        for size in (size for size in sizes_of(groups) if size <= _LARGEST):
            # Variants of one pack share the subsets, which remember what is relative to each.
            if (id(pack), size) not in drawn:
                drawn[id(pack), size] = draw_subsets(
                    groups, size=size, n_subsets=n_subsets, seed=seed
                )
            outcomes = judge(drawn[id(pack), size], {name: selector})
            _, values = outcomes.by_task(outcomes.success)
            column = dict(zip(outcomes.selectors, values.T, strict=True))
            reference = base.setdefault(size, column[name])
            found = bootstrap.difference(column[name] - reference)
            means = [column[key].mean() for key in (name, RANDOM, ORACLE)]
            rows.append(
                {
                    "name": name,
                    "k": size,
                    "success": means[0],
                    "gap_closed": float(gap_closed(*means)),
                    "difference": found.value,
                    "interval": [found.low, found.high],
                }
            )
    ready: list[Row] = json_ready(rows)
    return ready


def _without_stage_two(shipped: networks.JudgedController) -> Selector:
    models = {
        fold: Model(critic=model.critic, combination=CRITIC_ALONE)
        for fold, model in shipped.judged.folds.items()
    }
    return networks.JudgedController(CrossFit(final=models[0], folds=models))


def _changed(pack: Pack, change: Callable[[GroupSignals], GroupSignals]) -> Pack:
    groups = tuple(replace(group, signals=change(group.signals)) for group in pack.groups)
    return replace(pack, groups=groups)


def _has_made(group: DecisionGroup) -> bool:
    return bool(group.signals.made_outputs.shape[1])


def _without_made(signals: GroupSignals) -> GroupSignals:
    return replace(signals, made_outputs=np.zeros((len(signals.n_chars), 0), dtype=np.int64))


_OTHERS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "without trees": {"has_trees": False},
        "with a linear head": {"linear_share": 0.5},
        "without pairwise loss": {"pairwise_weight": 0.0},
    }
)
"""Parts that are trained apart from the others, and what stands in their place."""

Study = Callable[..., Sequence[Row]]

ABLATIONS: Final[Mapping[str, Study]] = MappingProxyType({"parts": parts})
