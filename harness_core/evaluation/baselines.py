"""What the controller has to beat: selectors that need no training, and the agent prior.

A baseline whose score is the same for all candidates of every group has no signal in the data at
hand; it is left out of the tables instead of being shown as a second `random`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset, whole
from harness_core.features.batch import DecisionGroup, Flags, Floats, Integers
from harness_core.features.set_relative import codet_score

Rule = Callable[[Subset], Floats]

_SPREAD: Final = 1e-6
"""Scores that differ by less are equal up to rounding."""


def first(subset: Subset) -> Floats:
    """The agent's own first attempt."""
    return -np.arange(len(subset.index), dtype=np.float32)


def shortest(subset: Subset) -> Floats:
    """The shortest text."""
    return -subset.signals.n_chars


def longest(subset: Subset) -> Floats:
    """The longest text."""
    return subset.signals.n_chars


def fewest_steps(subset: Subset) -> Floats:
    """The attempt that ended soonest; strong where logs leak how they ended."""
    return -subset.group.n_steps[subset.index].astype(np.float32)


def majority(subset: Subset) -> Floats:
    """The commonest behaviour: equal outputs, else equal final answers, else equal texts."""
    signals = subset.signals
    if signals.outputs.any():
        _, row = np.unique(signals.outputs, axis=0, return_inverse=True)
        return _votes(row.reshape(-1), valid=np.any(signals.outputs, axis=1))
    if signals.answer_key.any():
        return _votes(signals.answer_key, valid=np.not_equal(signals.answer_key, 0))
    return _votes(signals.text_key, valid=np.ones(len(subset.index), dtype=np.bool_))


def visible_checks(subset: Subset) -> Floats:
    """Share of visible checks passed; a candidate without any comes last."""
    return np.asarray(np.nan_to_num(subset.signals.visible_rate, nan=-1.0), dtype=np.float32)


def generated_checks(subset: Subset) -> Floats:
    """Share of model-written checks passed."""
    passed = subset.signals.generated_passed
    if not passed.shape[1]:
        return np.zeros(len(subset.index), dtype=np.float32)
    return np.asarray(passed.mean(axis=1), dtype=np.float32)


def codet(subset: Subset) -> Floats:
    """Dual agreement (Chen et al., 2022): how many candidates pass the same checks × how many.

    Without model-written checks the share of visible checks stands in for the set of checks.
    """
    if subset.signals.generated_passed.shape[1]:
        return codet_score(subset.signals)
    rate = visible_checks(subset)
    votes = _votes(rate, valid=np.greater_equal(rate, 0))
    return np.asarray(votes * np.maximum(rate, 0), dtype=np.float32)


def agreement(subset: Subset) -> Floats:
    """Mean share of the others that return the same output, else that give the same answer."""
    signals = subset.signals
    keys = signals.outputs if signals.outputs.any() else signals.answer_key[:, None]
    if len(keys) == 1:
        return np.zeros(len(keys), dtype=np.float32)
    same = (keys[:, None, :] == keys[None, :, :]) & (keys != 0)[:, None, :]
    shared = same.sum(axis=1) - (keys != 0)  # not with itself
    return np.asarray(shared.mean(axis=1) / (len(keys) - 1), dtype=np.float32)


def agent_prior(subset: Subset) -> Floats:
    """Success rate of the agent that produced the attempt, on other tasks."""
    return subset.signals.agent_prior


def prior_plus_agreement(subset: Subset) -> Floats:
    """Both, as z-scores within the set, added."""
    return _z_score(agent_prior(subset)) + _z_score(agreement(subset))


BASELINES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "first": first,
        "shortest": shortest,
        "longest": longest,
        "fewest_steps": fewest_steps,
        "majority": majority,
        "visible_checks": visible_checks,
        "generated_checks": generated_checks,
        "codet": codet,
        "agreement": agreement,
        "agent_prior": agent_prior,
        "prior_plus_agreement": prior_plus_agreement,
    }
)


def available_baselines(groups: Sequence[DecisionGroup]) -> dict[str, Selector]:
    """The baselines that have a signal in these groups; the agent prior stands in every table."""
    full = whole([group for group in groups if group.size > 1])
    telling = {name for name, rule in BASELINES.items() if any(_tells(rule(s)) for s in full)}
    if not {"agent_prior", "agreement"} <= telling:
        telling.discard("prior_plus_agreement")
    telling.add("agent_prior")
    return {name: _each(rule) for name, rule in BASELINES.items() if name in telling}


def _each(rule: Rule) -> Selector:
    def select(subsets: Sequence[Subset]) -> list[Floats]:
        return [rule(subset) for subset in subsets]

    return select


def _tells(scores: Floats) -> bool:
    return float(np.ptp(scores)) > _SPREAD


def _votes(keys: Integers | Floats, *, valid: Flags) -> Floats:
    """How many candidates of the set share each key; nobody votes for an invalid one."""
    same = keys[:, None] == keys[None, :]
    return np.where(valid, same.sum(axis=1), 0).astype(np.float32)


def _z_score(values: Floats) -> Floats:
    spread = float(values.std())
    if spread <= _SPREAD:
        return np.zeros_like(values)
    return np.asarray((values - values.mean()) / spread, dtype=np.float32)
