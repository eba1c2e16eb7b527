"""One batch of verdicts, with what shows whether they can be believed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness_core.rewards.canaries import canaries, refuse_if_fooled
from harness_core.rewards.config import RewardConfig
from harness_core.rewards.flakiness import flaky_checks, n_repeated
from harness_core.rewards.grading import GradeRequest, Judge, Requests, grade
from harness_core.rewards.references import Checks, refuted_checks, without_refuted
from harness_core.sandbox.result import Evidence, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What the judge said, and how far it was looked into."""

    visible: Mapping[GradeRequest, Verdict] = field(default_factory=dict)
    hidden: Mapping[GradeRequest, Verdict] = field(default_factory=dict)
    quarantined: frozenset[tuple[str, ...]] = frozenset()
    refuted: Mapping[Checks, frozenset[int]] = field(default_factory=dict)
    """Checks that the task's own reference fails, so that they grade nobody."""
    layers: tuple[str, ...] = ()
    trusted: bool = True
    n_canaries: int = 0
    n_graded_twice: int = 0

    def figures(self) -> dict[str, Any]:
        """What the report says of the batch."""
        verdicts = [*self.visible.values(), *self.hidden.values()]
        return {
            "layers": list(self.layers),
            "trusted": self.trusted,
            "n_graded": len(self.hidden),
            "n_graded_visible": len(self.visible),
            "n_tampered": sum(verdict.tampered for verdict in verdicts),
            "n_stateful": sum(verdict.stateful for verdict in verdicts),
            "n_refuted_checks": sum(map(len, self.refuted.values())),
            "n_canaries": self.n_canaries,
            "n_graded_twice": self.n_graded_twice,
            "evidence": {
                kind.value: sum(verdict.evidence.count(kind) for verdict in verdicts)
                for kind in Evidence
            },
        }


def judge_batch(requests: Requests, judge: Judge, config: RewardConfig) -> Graded:
    """Judge all programs of a log, canaries among them, and a sample of them twice.

    Raises:
        CanaryPassed: the verdicts are worth nothing.
    """
    # Apart, so that no box ever sees visible and hidden checks together.
    batches = (requests.visible, requests.hidden)
    planted = [canaries(list(batch), n_canaries=config.n_canaries) for batch in batches]
    # Before, so that no false verdict is kept, and after, when every program has had its chance.
    for wanted in planted:
        refuse_if_fooled(wanted[::2], judge)
    visible, hidden = (grade(batch, judge) for batch in batches)
    known = {**visible, **hidden}
    missing = grade([item for item in requests.references if item not in known], judge)
    known |= missing
    refuted = refuted_checks({item: known[item] for item in requests.references})
    for wanted in planted:
        refuse_if_fooled(wanted[1::2], judge)
    flaky = [
        flaky_checks(verdicts, judge, repeat_share=config.repeat_share)
        for verdicts in (visible, hidden)
    ]
    visible, hidden = (without_refuted(verdicts, refuted) for verdicts in (visible, hidden))
    if not config.accept_in_box:
        visible, hidden = (
            {request: verdict.without_in_box() for request, verdict in verdicts.items()}
            for verdicts in (visible, hidden)
        )
    return Graded(
        visible=visible,
        hidden=hidden,
        quarantined=frozenset().union(*flaky),
        refuted=refuted,
        layers=tuple(judge.layers),
        trusted=judge.trusted,
        n_canaries=sum(map(len, planted)),
        n_graded_twice=sum(
            n_repeated(batch, repeat_share=config.repeat_share) for batch in batches
        ),
    )
