"""Every method that the table of the selection benchmark shows; random and oracle are added there.

A method is given a pack and a seed and returns a selector, or None where the pack has nothing for
it. Whatever learns is cross-fitted: a task is scored by what learnt from the other folds alone.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from benchmarks.selection import blocks, linear, networks, policies, rules, trees
from benchmarks.selection.crossfitting import OfOnePack
from benchmarks.selection.pack import Pack
from benchmarks.selection.peers import d3rlpy_iql
from harness_core.evaluation.baselines import BASELINES
from harness_core.evaluation.selection import Selector

Method = Callable[[Pack, int], Selector | None]
"""From a pack and a seed; raises `PeerMissing` where a package is not installed."""


def _rule(name: str) -> Method:
    return lambda pack, seed: rules.known_rule(name, pack)  # noqa: ARG005  # nothing is drawn


def _trees(columns: trees.Columns) -> Method:
    return partial(trees.boosted_trees, columns=columns)


_LOGISTIC: Final = OfOnePack(linear.logistic)
_RANKED: Final = OfOnePack(trees.classifier_and_ranker)


def _linear_and_trees(pack: Pack, seed: int) -> Selector | None:
    """Logistic regression, and classifier and ranker together, z-scores added."""
    linear_part, ranked = _LOGISTIC(pack, seed), _RANKED(pack, seed)
    if linear_part is None or ranked is None:
        return None
    return trees.ZScoresAdded((linear_part, ranked))


RULES: Final[Mapping[str, Method]] = MappingProxyType(
    {
        **{name: _rule(name) for name in BASELINES},
        "runs": rules.runs,
        "text_mode": rules.text_mode,
        "forced_check": rules.forced_check,
    }
)
"""Nothing is learnt from other tasks, but for the agent's own rate of success."""

LEARNT: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "logistic": _LOGISTIC,
        "trees_static": _trees(blocks.static),
        "trees_execution": _trees(blocks.execution),
        "trees": _trees(blocks.everything),
        "trees_set": _trees(blocks.with_set_relative),
        "trees_set_rank": _RANKED,
        "linear_and_trees": _linear_and_trees,
        "mc_value": partial(networks.value_of_the_end, learner="mc"),
        "behaviour_cloning": partial(networks.worth_of_the_last_action, learner="bc"),
        "iql_value": partial(networks.value_of_the_end, learner="iql"),
        "iql_q": partial(networks.worth_of_handing_in, learner="iql"),
        "iql_q_before": partial(networks.worth_of_the_last_action, learner="iql"),
        "awr": policies.awr,
        "awr_all_features": policies.awr_on_all_features,
        "reward_weighted_bc": policies.reward_weighted,
        "d3rlpy_iql": d3rlpy_iql,
        "controller": networks.controller,
    }
)

METHODS: Final[Mapping[str, Method]] = MappingProxyType({**RULES, **LEARNT})
