"""Selectors that learn nothing, beside those of `harness_core.evaluation.baselines`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from benchmarks.selection.blocks import flag
from benchmarks.selection.pack import Pack
from harness_core.evaluation.baselines import BASELINES, Rule, available_baselines
from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset, whole
from harness_core.features.batch import Floats

_LOADS: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "last_action.summary.program_parses": True,
        "last_action.execution.not_loaded": False,
        "numeric.last_is_error": False,
        "numeric.result_mentions_error": False,
    }
)
"""Flags of a state, and what each is where the last action went through."""
_MOST: Final = 0.5


@dataclass(frozen=True, slots=True)
class ByRule:
    """Applies one rule to every subset."""

    rule: Rule

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of each subset."""
        return [self.rule(subset) for subset in subsets]


def known_rule(name: str, pack: Pack) -> Selector | None:
    """A rule of the baselines; None where it says the same of all candidates of every group."""
    return ByRule(BASELINES[name]) if name in available_baselines(pack.groups) else None


def text_mode(pack: Pack, seed: int) -> Selector | None:  # noqa: ARG001  # nothing is drawn
    """The commonest text; None where no two candidates have the same."""
    return _where_it_tells(_same_text, pack)


def _same_text(subset: Subset) -> Floats:
    """How many candidates of the set have the same normalised text."""
    _, inverse, counts = np.unique(subset.signals.text_key, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse.ravel()], dtype=np.float32)


def runs(pack: Pack, seed: int) -> Selector | None:  # noqa: ARG001  # nothing is drawn
    """Candidates whose last action went through, by lot; None where no column says so.

    It parses, the program loads, and what came back is no error, as far as the state knows.
    """
    states = np.concatenate([group.after for group in pack.groups])
    found = {name: flag(pack.schema, name, states) for name in _LOADS}
    tests = [(*place, _LOADS[name]) for name, place in found.items() if place is not None]
    if not tests:
        return None

    def rule(subset: Subset) -> Floats:
        after = subset.group.after[subset.index]
        passed = [(after[:, column] > border) == wanted for column, border, wanted in tests]
        return np.asarray(np.all(passed, axis=0), dtype=np.float32)

    return _where_it_tells(rule, pack)


def forced_check(pack: Pack, seed: int) -> Selector | None:  # noqa: ARG001  # nothing is drawn
    """The first candidate that passes its checks, else the first (Yi & Song's Forced-CHECK).

    Their ablation makes the agent verify before it submits. Here to verify is to run the visible
    checks, where there are any, and all must hold; else the model-written ones, and more than half
    must hold, since many are wrong. None where a pack has neither.
    """
    groups = pack.groups
    has_visible = any(not np.isnan(group.signals.visible_rate).all() for group in groups)
    if not has_visible and not any(group.signals.generated_passed.shape[1] for group in groups):
        return None
    return ByRule(_first_that_passes)


def _where_it_tells(rule: Rule, pack: Pack) -> Selector | None:
    """None where the rule says the same of all candidates of every group."""
    tells = any(np.ptp(rule(subset)) > 0 for subset in whole(pack.groups))
    return ByRule(rule) if tells else None


def _first_that_passes(subset: Subset) -> Floats:
    signals = subset.signals
    generated = signals.generated_passed
    passed = signals.visible_rate >= 1.0
    if generated.shape[1]:
        passed = np.where(np.isnan(signals.visible_rate), generated.mean(axis=1) > _MOST, passed)
    k = len(subset.index)
    return np.asarray(np.where(passed, k, 0) - np.arange(k), dtype=np.float32)
