"""What the audit found: one line a probe, the closest comparison that it was in."""

from collections.abc import Iterable
from typing import Any, Final

from harness_core.records import Record

_DIGITS: Final = 6


class Blame(Record):
    """A component that pays a probe more than the honest attempt beside it."""

    component: str
    weight: float
    amount: float
    """weight × (column of the probe − column of the attempt), summed over all actions."""


class Comparison(Record):
    """One probe beside one honest attempt at the same task."""

    task_id: str
    probe: str
    attempt: str
    probe_earns: float
    attempt_earns: float
    is_strict: bool
    """Whether the probe must earn strictly less; else no more."""
    holds: bool
    blamed: tuple[Blame, ...]
    """Components that speak for the probe, the largest amount first. When none does and the rule
    is broken all the same, those that ought to speak for the attempt and are worth nothing."""

    @property
    def margin(self) -> float:
        """By how much the honest attempt earns more."""
        return self.attempt_earns - self.probe_earns

    def in_words(self) -> str:
        """Task, probe, attempt, both sums, and the weights to look at."""
        relation = "less than" if self.is_strict else "no more than"
        weights = ", ".join(
            f"rewards.weights.{item.component}={item.weight:g} ({item.amount:+.2f})"
            for item in self.blamed
        )
        return (
            f"task {self.task_id}: the probe {self.probe} earns {self.probe_earns:.2f}, and must "
            f"earn {relation} the honest attempt {self.attempt} with {self.attempt_earns:.2f}; "
            f"look at {weights or 'all weights: none of them tells the two apart'}"
        )


class ProbeResult(Record):
    """How one probe did over all tasks."""

    probe: str
    tries: str
    n_comparisons: int
    n_broken: int
    worst: Comparison
    """A broken comparison if there is one, else the one with the smallest margin."""
    strict_margin: float | None
    """Smallest margin where the probe must earn strictly less; None where nothing asks for that."""
    blamed: tuple[Blame, ...]
    """Components that any broken comparison blames, each with its largest amount."""

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return self.n_broken == 0

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        worst = self.worst
        return {
            "probe": self.probe,
            "tries": self.tries,
            "passed": self.passed,
            "n_comparisons": self.n_comparisons,
            "n_broken": self.n_broken,
            "worst_margin": _rounded(worst.margin),
            "task": worst.task_id,
            "attempt": worst.attempt,
            "probe_earns": _rounded(worst.probe_earns),
            "attempt_earns": _rounded(worst.attempt_earns),
            "must_be_less": worst.is_strict,
            "strict_margin": _rounded(self.strict_margin),
            "blamed": [
                {
                    "component": item.component,
                    "weight": item.weight,
                    "amount": _rounded(item.amount),
                }
                for item in self.blamed
            ],
        }


class AuditReport(Record):
    """One scheme of weights, audited."""

    tasks: tuple[str, ...]
    n_comparisons: int
    probes: tuple[ProbeResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no probe breaks a rule."""
        return all(item.passed for item in self.probes)

    @property
    def broken(self) -> tuple[ProbeResult, ...]:
        """Probes that break a rule, the worst first."""
        failing = [item for item in self.probes if not item.passed]
        return tuple(sorted(failing, key=lambda item: round(item.worst.margin, _DIGITS)))

    @property
    def blamed(self) -> tuple[str, ...]:
        """Weights that broken comparisons name, sorted."""
        return tuple(sorted({blame.component for item in self.broken for blame in item.blamed}))

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "passed": self.passed,
            "n_tasks": len(self.tasks),
            "n_probes": len(self.probes),
            "n_comparisons": self.n_comparisons,
            "n_broken": len(self.broken),
            "blamed": list(self.blamed),
            "probes": [item.figures() for item in self.probes],
        }


def merged(blames: Iterable[Blame]) -> tuple[Blame, ...]:
    """One blame a component, that with the largest amount; the largest first."""
    largest: dict[str, Blame] = {}
    for item in blames:
        known = largest.get(item.component)
        if known is None or item.amount > known.amount:
            largest[item.component] = item
    return tuple(sorted(largest.values(), key=lambda item: (-item.amount, item.component)))


def _rounded(value: float | None) -> float | None:
    # Without the sum a margin of -0.0 would be printed as one.
    return None if value is None else round(value, _DIGITS) + 0.0
