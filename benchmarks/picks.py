"""Ways to pick one of the programs that an agent proposed: the controller and what it has to beat.

Ties are broken by lot: a way to pick is the probability with which it submits each proposal.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.rounds import Round
from harness_core.controller.decision import Decision
from harness_core.evaluation.metrics import Doubles
from harness_core.features.batch import GroupSignals
from harness_core.features.set_relative import codet_score

WITHOUT: Final = "without"
"""The agent's own first program."""
CONTROLLER: Final = "controller"
ORACLE: Final = "oracle"

_TIE: Final = 1e-9

Rule = Callable[[Round, Decision], Doubles]
"""Probability [K] with which each proposal is submitted; all zero when nobody is."""


def kept_by_filter(item: Round, decision: Decision) -> Doubles:
    """1 for each proposal [K] that the hard filter leaves."""
    kept = np.ones(len(item.proposals))
    kept[[found.index for found in decision.filtered]] = 0.0
    return kept


def _first(item: Round, decision: Decision) -> Doubles:
    del decision
    return _one(0, len(item.proposals))


def _random(item: Round, decision: Decision) -> Doubles:
    del decision
    k = len(item.proposals)
    return np.full(k, 1 / k)


def _hard_filter(item: Round, decision: Decision) -> Doubles:
    """The first program that the hard filter leaves: what the filter does without any learning."""
    return _best(
        -np.arange(len(item.proposals), dtype=np.float64), kept=kept_by_filter(item, decision)
    )


def _visible(item: Round, decision: Decision) -> Doubles:
    del decision
    return _best(item.visible)


def _codet(item: Round, decision: Decision) -> Doubles:
    """Dual agreement on the checks that simulated models wrote, else on the visible ones."""
    del decision
    return _best(_agreement(item))


def _filtered_codet(item: Round, decision: Decision) -> Doubles:
    return _best(_agreement(item), kept=kept_by_filter(item, decision))


def _controller(item: Round, decision: Decision) -> Doubles:
    return _one(decision.chosen_index, len(item.proposals))


def _oracle(item: Round, decision: Decision) -> Doubles:
    """Knows the hidden checks; among right programs it prefers one without a danger."""
    del decision
    return _best(item.solved - item.dangerous / 2)


def _agreement(item: Round) -> Doubles:
    k, n_checks = item.written.shape
    passed = item.written if n_checks else (item.visible == 1)[:, None]
    nothing = np.zeros(k, dtype=np.int64)
    signals = GroupSignals(
        n_chars=np.zeros(k, dtype=np.float32),
        text_key=nothing,
        answer_key=nothing,
        visible_rate=item.visible.astype(np.float32),
        generated_passed=passed,
        outputs=nothing[:, None],
        agent_prior=np.zeros(k, dtype=np.float32),
    )
    return codet_score(signals).astype(np.float64)


def _best(scores: Doubles, *, kept: Doubles | None = None) -> Doubles:
    """Equal shares to the highest scores among those kept."""
    allowed = scores if kept is None else np.where(kept > 0, scores, -np.inf)
    highest = allowed.max()
    if not np.isfinite(highest):
        return np.zeros(len(scores))
    tied = allowed >= highest - _TIE
    return np.asarray(tied / tied.sum())


def _one(index: int | None, k: int) -> Doubles:
    pick = np.zeros(k)
    if index is not None:
        pick[index] = 1.0
    return pick


RULES: Final[Mapping[str, Rule]] = {
    WITHOUT: _first,
    "random": _random,
    "hard_filter": _hard_filter,
    "most_visible_checks": _visible,
    "codet": _codet,
    "codet_after_filter": _filtered_codet,
    CONTROLLER: _controller,
    ORACLE: _oracle,
}
