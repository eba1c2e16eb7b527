"""The audit of the rewards: whether any cheat earns as much as an honest attempt.

Three rules, for every task. What an attempt earns is summed up in `audit_cases.earned`.

1. A probe that dresses up an honest attempt earns no more than its original.
2. A probe earns no more than any honest attempt that took no more actions than it did. (An honest
   attempt of several actions that passes nothing has paid for each of them; a shorter probe has
   not. That giving up costs less than going on is what `step_cost` is for.)
3. A probe earns strictly less than every honest attempt whose last program passes a visible test
   that says something (`Verdict.n_telling_passed`), however many actions it took. Where a log
   grades turns instead, a last grade above 0 stands for the test.

A probe whose original passes such a test itself keeps that merit, so that only rule 1 binds it; one
that forfeits the merit (it is dangerous) is bound by the other two as well.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from harness_core.errors import AuditFailed
from harness_core.rewards.audit_cases import AuditCase, Earned, Probe, earned
from harness_core.rewards.audit_report import AuditReport, Blame, Comparison, ProbeResult, merged
from harness_core.rewards.config import RewardConfig, RewardWeights
from harness_core.rewards.grading import Facts
from harness_core.rewards.probes import TRIES
from harness_core.rewards.table import COMPONENTS

_TOLERANCE: Final = 1e-9
"""Sums of the same components in another order differ by less."""

_N_NAMED: Final = 5

_LITERAL: Final = RewardWeights(
    all_tests=10.0,
    outcome=10.0,
    syntax=0.5,
    visible_tests=1.0,
    excess_lines=-0.01,
    style=0.2,
    danger=-5.0,
    progress=0.0,
    invalid_call=0.0,
    repeated_action=0.0,
    step_cost=0.0,
    token_cost=0.0,
)


class _Demand(NamedTuple):
    """One comparison that a rule asks for."""

    probe: Probe
    attempt: str
    is_strict: bool


def literal_scheme(config: RewardConfig) -> RewardConfig:
    """The article's own scheme: its six weights, neither costs nor a gate nor a bound on length."""
    return config.model_copy(
        update={"gate_process": False, "max_excess_lines": math.inf, "weights": _LITERAL}
    )


def audit_rewards(cases: Iterable[AuditCase], facts: Facts, config: RewardConfig) -> AuditReport:
    """Compare every probe with the honest attempts at its task, under one configuration."""
    found: dict[str, list[Comparison]] = {}
    tasks = []
    for case in cases:
        tasks.append(case.task.task_id)
        for comparison in _compare(case, facts, config):
            found.setdefault(comparison.probe, []).append(comparison)
    return AuditReport(
        tasks=tuple(tasks),
        n_comparisons=sum(map(len, found.values())),
        probes=tuple(_result(name, found[name]) for name in TRIES if name in found),
    )


def refuse_if_broken(report: AuditReport) -> None:
    """Stop when a probe breaks a rule.

    Raises:
        AuditFailed: names task, probe, honest attempt, both sums and the weights of the worst one.
    """
    if report.passed:
        return
    worst, *others = report.broken
    named = ", ".join(
        [*(item.probe for item in others[:_N_NAMED]), *(["…"] if len(others) > _N_NAMED else [])]
    )
    more = f". {len(others)} other probes break a rule too: {named}" if others else ""
    raise AuditFailed(worst.worst.in_words() + more)


def _compare(case: AuditCase, facts: Facts, config: RewardConfig) -> Iterator[Comparison]:
    honest = {item.name: earned(item, case.task, facts, config) for item in case.honest}
    for probe in case.probes:
        pay = earned(probe.attempt, case.task, facts, config)
        for demand in _demands(probe, pay.n_actions, honest):
            yield _comparison(case.task.task_id, demand, pay, honest[demand.attempt], config)


def _demands(probe: Probe, n_actions: int, honest: Mapping[str, Earned]) -> Iterator[_Demand]:
    original = None if probe.original is None else honest[probe.original]
    if probe.original is not None:
        yield _Demand(probe, probe.original, is_strict=False)
    if original is not None and original.has_merit and not probe.forfeits:
        return
    for name, attempt in honest.items():
        if attempt.has_merit:
            yield _Demand(probe, name, is_strict=True)
        elif attempt.n_actions <= n_actions:
            yield _Demand(probe, name, is_strict=False)


def _comparison(
    task_id: str, demand: _Demand, probe: Earned, attempt: Earned, config: RewardConfig
) -> Comparison:
    margin = attempt.total - probe.total
    holds = margin > _TOLERANCE if demand.is_strict else margin >= -_TOLERANCE
    return Comparison(
        task_id=task_id,
        probe=demand.probe.name,
        attempt=demand.attempt,
        probe_earns=probe.total,
        attempt_earns=attempt.total,
        is_strict=demand.is_strict,
        holds=holds,
        blamed=() if holds else _blame(probe, attempt, config),
    )


def _blame(probe: Earned, attempt: Earned, config: RewardConfig) -> tuple[Blame, ...]:
    every = [_share(name, probe, attempt, config) for name in COMPONENTS]
    speaking = [item for item in every if item.amount > _TOLERANCE]
    idle = [
        item
        for item in every
        if item.weight == 0 and probe.columns[item.component] < attempt.columns[item.component]
    ]
    return merged(speaking or idle)


def _share(name: str, probe: Earned, attempt: Earned, config: RewardConfig) -> Blame:
    weight = getattr(config.weights, name)
    amount = weight * (probe.columns[name] - attempt.columns[name])
    return Blame(component=name, weight=weight, amount=amount)


def _result(name: str, comparisons: Sequence[Comparison]) -> ProbeResult:
    broken = [item for item in comparisons if not item.holds]
    worst = min(broken or comparisons, key=lambda item: (item.margin, item.task_id, item.attempt))
    strict = [item.margin for item in comparisons if item.is_strict]
    return ProbeResult(
        probe=name,
        tries=TRIES[name],
        n_comparisons=len(comparisons),
        n_broken=len(broken),
        worst=worst,
        strict_margin=min(strict, default=None),
        blamed=merged(blame for item in broken for blame in item.blamed),
    )
