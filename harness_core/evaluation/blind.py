"""Statistics of a blind comparison: which side people prefer, and how sure that is.

A preference is +1 for the controller, −1 for the agent alone, 0 for equal. Several judgements of
one pair count as one: the sign of their sum. Pairs of one task are never independent, so tests and
intervals treat the task as the unit.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from scipy.special import betaincinv, stdtrit

from harness_core.evaluation.bootstrap import Interval

Criterion = Literal["correctness", "brevity", "safety"]
CRITERIA: Final[tuple[Criterion, ...]] = ("correctness", "brevity", "safety")
CONFIDENCE: Final = 0.95


class Preference(NamedTuple):
    """What one judge said of one pair in one respect."""

    pair_id: str
    task: str
    sign: int
    """+1 controller, −1 agent alone, 0 equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What all judgements say in one respect."""

    n_controller: int
    """Pairs where the controller's pick was preferred."""
    n_agent: int
    n_equal: int
    n_tasks: int
    share: float | None
    """Of the pairs with a preference, the share that prefers the controller; None without any."""
    low: float | None
    high: float | None
    p_value: float
    """Two-sided sign test over tasks; 1 where there is no preference."""

    @property
    def n_pairs(self) -> int:
        """Pairs judged in this respect."""
        return self.n_controller + self.n_agent + self.n_equal


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindResult:
    """What a whole study says."""

    key: str
    """Digest of pairs, sides and judgements."""
    figures: Mapping[str, Any]
    """Counts, and by criterion the fields of its `Verdict`."""
    words: tuple[str, ...]


def judge_pairs(preferences: Sequence[Preference], *, confidence: float = CONFIDENCE) -> Verdict:
    """The verdict of all judgements in one respect.

    Interval and test treat the task as the unit (`share_interval`, `sign_test`).
    """
    signs, task_of = _by_pair(preferences)
    for_us = sum(sign > 0 for sign in signs.values())
    against = sum(sign < 0 for sign in signs.values())
    nets: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for pair, sign in signs.items():
        if sign:
            nets[task_of[pair]][sign < 0] += 1
    interval = share_interval(list(nets.values()), confidence=confidence)
    decided = for_us + against
    return Verdict(
        n_controller=for_us,
        n_agent=against,
        n_equal=len(signs) - decided,
        n_tasks=len(set(task_of.values())),
        share=for_us / decided if decided else None,
        low=interval.low if decided else None,
        high=interval.high if decided else None,
        p_value=sign_test([ours - theirs for ours, theirs in nets.values()]),
    )


def share_interval(counts: Sequence[Sequence[int]], *, confidence: float = CONFIDENCE) -> Interval:
    """Interval of Σ for / Σ (for + against) over tasks, from one row (for, against) a task.

    That of Clopper and Pearson for as many pairs as ours are worth (Korn and Graubard, 1998): fewer
    than there are by what pairs of one task have in common, and by how few tasks tell that. Where
    all agree nothing tells it, and each task is worth one pair. With one pair a task it is exact.
    """
    table = np.asarray([row for row in counts if sum(row)], dtype=np.float64).reshape(-1, 2)
    n_tasks = len(table)
    if not n_tasks:
        return Interval(math.nan, math.nan)
    sizes = table.sum(axis=1)
    total = float(sizes.sum())
    share = float(table[:, 0].sum()) / total
    if n_tasks == 1:
        # One task says nothing about others, however often it was asked.
        return exact_interval(share, 1, confidence=confidence) if total == 1 else Interval(0.0, 1.0)
    worth = float(n_tasks)
    if 0 < share < 1:
        squares = float(np.square(table[:, 0] - share * sizes).sum())
        worth = min(total, share * (1 - share) * total**2 / squares if squares else total)
        quantile = (1 + confidence) / 2
        worth *= float(stdtrit(total - 1, quantile) / stdtrit(n_tasks - 1, quantile)) ** 2
    return exact_interval(share * worth, worth, confidence=confidence)


def exact_interval(n_for: float, n: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Clopper–Pearson interval of a share of independent trials; NaN, NaN for no trial."""
    if not n:
        return Interval(math.nan, math.nan)
    tail = (1 - confidence) / 2
    low = 0.0 if n_for <= 0 else float(betaincinv(n_for, n - n_for + 1, tail))
    high = 1.0 if n_for >= n else float(betaincinv(n_for + 1, n - n_for, 1 - tail))
    return Interval(low, high)


def sign_test(nets: Sequence[int]) -> float:
    """Two-sided p-value that the sum of `nets` is as far from zero if each sign were a coin's.

    One net count (for − against) a task. Exact: the distribution of the sum is built task by task.
    With one pair a task this is the ordinary sign test.
    """
    sizes = [abs(net) for net in nets if net]
    reach = sum(sizes)
    if not reach:
        return 1.0
    # chances[i] is the probability that the sum is i − reach.
    chances = np.zeros(2 * reach + 1)
    chances[reach] = 1.0
    for size in sizes:
        moved = np.zeros_like(chances)
        moved[size:] += 0.5 * chances[:-size]
        moved[:-size] += 0.5 * chances[size:]
        chances = moved
    distances = np.abs(np.arange(-reach, reach + 1))
    return min(1.0, float(chances[distances >= abs(sum(nets))].sum()))


def agreement(preferences: Sequence[Preference]) -> float | None:
    """Share of pairs judged more than once where all judges said the same; None without any."""
    said: dict[str, list[int]] = defaultdict(list)
    for one in preferences:
        said[one.pair_id].append(one.sign)
    several = [signs for signs in said.values() if len(signs) > 1]
    if not several:
        return None
    return sum(len(set(signs)) == 1 for signs in several) / len(several)


def in_words(verdicts: Mapping[Criterion, Verdict]) -> list[str]:
    """One sentence a criterion, for people."""
    return [_sentence(name, verdict) for name, verdict in verdicts.items()]


def _sentence(name: str, verdict: Verdict) -> str:
    title = name.capitalize()
    if verdict.share is None or verdict.low is None or verdict.high is None:
        if not verdict.n_pairs:
            return f"{title}: nothing was judged."
        return f"{title}: all {verdict.n_pairs} pairs were found equal."
    is_shown = verdict.p_value <= 1 - CONFIDENCE
    if verdict.low > 1 / 2 and is_shown:
        meaning = "the controller's picks are preferred"
    elif verdict.high < 1 / 2 and is_shown:
        meaning = "the agent's own first candidates are preferred"
    else:
        meaning = "no difference is shown"
    decided = verdict.n_controller + verdict.n_agent
    return (
        f"{title}: {meaning}. The controller's pick was preferred in {verdict.n_controller} of "
        f"{decided} pairs with a preference ({verdict.share:.0%}, 95 % interval "
        f"{verdict.low:.0%} to {verdict.high:.0%}, sign test p = {verdict.p_value:.2g}); "
        f"{verdict.n_equal} were equal; {verdict.n_tasks} tasks."
    )


def _by_pair(preferences: Sequence[Preference]) -> tuple[dict[str, int], dict[str, str]]:
    sums: dict[str, int] = defaultdict(int)
    task_of = {}
    for one in preferences:
        sums[one.pair_id] += one.sign
        task_of[one.pair_id] = one.task
    return {pair: (total > 0) - (total < 0) for pair, total in sums.items()}, task_of
