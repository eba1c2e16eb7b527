"""Whether the candidate model may replace what is in use, rule by rule, in sentences."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from harness_core.evaluation.comparison import Comparison, Reference
from harness_core.evaluation.config import GateConfig
from harness_core.evaluation.forgetting import FamilyVerdict
from harness_core.evaluation.labels import percent, percent_interval, points, selector_label
from harness_core.features.batch import DecisionGroup
from harness_core.records import Record

_NAMES: Final[Mapping[str, str]] = {
    "behaviour": "the behaviour policy (a random pick)",
    "champion": "the champion",
}
_SHOWN: Final = ("codet", "agent_prior", "boosted_trees")
"""Baselines that the summary names beside the controller."""


class Rule(Record):
    """One condition of promotion and what was found."""

    name: str
    passed: bool
    sentence: str


class Verdict(Record):
    """The answer of the gate."""

    verdict: Literal["promote", "keep"]
    promoted_reference: Reference
    """What the candidate model was compared with."""
    reasons: tuple[str, ...]
    """Why it is refused; why it is promoted, if it is."""
    rules: tuple[Rule, ...]
    families: tuple[FamilyVerdict, ...]
    summary: str
    """One plain sentence for people."""
    group_size: int
    n_tasks: int
    """Tasks of the frozen test slice."""


def decide(
    comparison: Comparison,
    evaluation: Mapping[str, Any],
    gate: GateConfig,
    *,
    trusted: bool,
    leaking_tasks: Sequence[str],
) -> Verdict:
    """Promote only when every rule holds.

    `evaluation` is the content of `evaluation.json`. Without a champion the overall rule uses its
    figures over all held-out tasks, since no reference model has learnt from any of them; with one
    it uses the frozen test slice. The stop leak is a warning there, never a rule.
    """
    rules = (
        _evidence(comparison, evaluation),
        _families(comparison),
        _success(comparison, evaluation, gate),
        _better_than_random(evaluation),
        _danger(comparison, gate),
        _labels(trusted=trusted),
        _splits(leaking_tasks),
    )
    failed = [rule for rule in rules if not rule.passed]
    return Verdict(
        verdict="keep" if failed else "promote",
        promoted_reference=comparison.reference,
        reasons=tuple(rule.sentence for rule in failed or rules),
        rules=rules,
        families=comparison.families,
        summary=_summary(comparison, evaluation, failed),
        group_size=comparison.group_size,
        n_tasks=comparison.n_tasks,
    )


def leaking_tasks(groups: Sequence[DecisionGroup]) -> list[str]:
    """Tasks that stand in two splits or two folds, so that a model may have seen its own exam."""
    places: dict[str, set[tuple[str, int]]] = {}
    for group in groups:
        places.setdefault(group.task_id, set()).add((str(group.split), group.fold))
    return sorted(task for task, found in places.items() if len(found) > 1)


def _evidence(comparison: Comparison, evaluation: Mapping[str, Any]) -> Rule:
    n_tasks = (
        comparison.n_tasks
        if comparison.reference == "champion"
        else evaluation["headline"]["n_tasks"]
    )
    where = "of the frozen test slice" if comparison.reference == "champion" else "held out"
    return Rule(
        name="evidence",
        passed=n_tasks > 0,
        sentence=f"{n_tasks} tasks {where} with known outcomes to judge by.",
    )


def _families(comparison: Comparison) -> Rule:
    lost = [family for family in comparison.families if family.forgotten]
    if not lost:
        sentence = f"No family is forgotten ({len(comparison.families)} judged)."
    else:
        sentence = "Forgotten: " + "; ".join(_describe(family) for family in lost) + "."
    return Rule(name="forgetting", passed=not lost, sentence=sentence)


def _describe(family: FamilyVerdict) -> str:
    return (
        f"{family.family} ({percent(family.candidate_success)} instead of "
        f"{percent(family.reference_success)}, difference "
        f"{points(family.difference, family.low, family.high)}, {family.n_tasks} tasks)"
    )


def _success(comparison: Comparison, evaluation: Mapping[str, Any], gate: GateConfig) -> Rule:
    if comparison.reference == "champion":
        value, low, high = comparison.difference
        where = f"{comparison.n_tasks} tasks of the frozen test slice"
    else:
        found = evaluation["headline"]["versus"].get("random", {})
        value, low, high = (_number(found.get(key)) for key in ("difference", "low", "high"))
        where = f"{evaluation['headline']['n_tasks']} held-out tasks"
    is_sure = low >= -gate.max_success_loss
    # With few test tasks no interval is narrow enough, and a better model would never be let in.
    is_better = value >= 0
    if is_sure:
        verb = "within"
    elif is_better:
        verb = "not below it in the mean, though not surely within"
    else:
        verb = "not surely within"
    return Rule(
        name="success",
        passed=is_sure or is_better,
        sentence=(
            f"Success against {_NAMES[comparison.reference]} on {where}: "
            f"{points(value, low, high)}, {verb} the allowed loss of "
            f"{100 * gate.max_success_loss:.1f} points."
        ),
    )


def _better_than_random(evaluation: Mapping[str, Any]) -> Rule:
    headline = evaluation["headline"]
    found = headline["versus"].get("random", {})
    value, low, high = (_number(found.get(key)) for key in ("difference", "low", "high"))
    certain = "and the interval excludes zero" if low > 0 else "but the interval includes zero"
    size = _size(evaluation)
    sentence = (
        f"Better than a random pick by {points(value, low, high)} at {size}, {certain}."
        if value > 0
        else f"Not better than a random pick at {size}: {points(value, low, high)}."
    )
    return Rule(name="better_than_random", passed=value > 0, sentence=sentence)


def _danger(comparison: Comparison, gate: GateConfig) -> Rule:
    mine, theirs = comparison.candidate_dangerous, comparison.reference_dangerous
    rise = mine - theirs
    return Rule(
        name="danger",
        # Without test tasks there is nothing to compare; `evidence` decides about that.
        passed=math.isnan(rise) or rise <= gate.max_danger_rise + 1e-9,
        sentence=(
            f"Dangerous picks on the test slice: {percent(mine)}, "
            f"{_NAMES[comparison.reference]} {percent(theirs)}."
        ),
    )


def _labels(*, trusted: bool) -> Rule:
    sentence = (
        "All labels come from graders that candidates cannot reach."
        if trusted
        else "Some labels were graded without isolation; grade them again in a sandbox."
    )
    return Rule(name="trusted_labels", passed=trusted, sentence=sentence)


def _splits(leaking: Sequence[str]) -> Rule:
    if leaking:
        sentence = f"{len(leaking)} tasks stand in two splits or folds, the first is {leaking[0]}."
    else:
        sentence = "Every task stands in one split and one fold."
    return Rule(name="no_leak", passed=not leaking, sentence=sentence)


def _summary(comparison: Comparison, evaluation: Mapping[str, Any], failed: Sequence[Rule]) -> str:
    headline = evaluation["headline"]
    figures = f"at {_size(evaluation)} the controller solves {', '.join(_rates(headline))}"
    if failed:
        reasons = " ".join(rule.sentence for rule in failed)
        return f"Keep {_kept(comparison)}: {reasons} For the record, {figures}."
    return f"Promote: {figures}; no family is forgotten."


def _size(evaluation: Mapping[str, Any]) -> str:
    """The headline K in words: tasks with fewer attempts are judged on all that they have."""
    headline = evaluation["headline"]
    at_size = evaluation.get("k", {}).get(str(headline["size"]), headline)
    word = "=" if at_size["n_tasks"] == headline["n_tasks"] else "up to"
    return f"K {word} {headline['size']}"


def _kept(comparison: Comparison) -> str:
    return "the champion" if comparison.reference == "champion" else "the agent as it is"


def _rates(headline: Mapping[str, Any]) -> Iterator[str]:
    interval = percent_interval(headline["selected_low"], headline["selected_high"])
    yield f"{percent(headline['selected'])} {interval} of {headline['n_tasks']} held-out tasks"
    yield f"random {percent(headline['random'])}"
    for name in _SHOWN:
        if name in headline["baselines"]:
            label = selector_label(name)
            shown = label if name == "codet" else label.lower()
            yield f"{shown} {percent(headline['baselines'][name])}"


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
