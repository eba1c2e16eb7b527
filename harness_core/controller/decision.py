"""What the controller answers."""

from enum import StrEnum

from pydantic import Field

from harness_core.records import Record
from harness_core.trajectories.vocabulary import ActionKind


class Reason(StrEnum):
    """Why the decision is what it is."""

    BEST_SCORE = "best_score"
    EXPLORATION = "exploration"
    ONLY_CANDIDATE = "only_candidate"
    LOW_CONFIDENCE = "low_confidence"
    """The best candidate is below the threshold: the fallback decided."""
    ALL_FILTERED = "all_filtered"
    """Every candidate is dangerous: nothing is chosen, whatever the fallback."""
    POLICY = "policy"
    """The actor's most likely intervention."""
    GOOD_ENOUGH = "good_enough"
    """The best attempt so far is likely enough to succeed: hand it in."""
    NOT_GOOD_ENOUGH = "not_good_enough"
    """It is not: the actor's most likely way to go on."""
    FORCED_CHECK = "forced_check"
    """The baseline that tests once before anything is handed in."""
    NOTHING_LEGAL = "nothing_legal"
    """No intervention that the harness offers makes sense in this state."""


class FilteredCandidate(Record):
    """A candidate that the hard filter took out, or that a person has to agree to."""

    index: int
    rules: tuple[str, ...]
    """Identifiers of the danger rules that it broke, and `policy:<id>` of the tool policy."""


class Decision(Record):
    """One decision, with everything needed to explain, log and replay it."""

    decision_id: str
    chosen_index: int | None
    """Index into the candidates as given; None when nobody was chosen."""
    scores: tuple[float | None, ...]
    """Score of each candidate, higher is better; None for one that was filtered."""
    component_scores: tuple[dict[str, float], ...]
    """Expected weighted reward by component, one mapping a candidate."""
    success_probability: float | None = Field(ge=0, le=1)
    """Calibrated probability that the best candidate succeeds."""
    reason: Reason
    fallback: str | None
    """Name of the fallback that decided, if one did."""
    filtered: tuple[FilteredCandidate, ...]
    needs_review: tuple[FilteredCandidate, ...] = ()
    """Candidates that the tool policy lets pass only if a person agrees; they are scored."""
    review: bool = False
    """Whether the chosen candidate is one of them: it must not be run before somebody agreed."""
    beyond_k_max: bool = False
    """Whether more candidates were scored than the model was shown to choose well from: the best
    score may then be the largest error. Nothing is left out for it."""
    propensity: float = Field(ge=0, le=1)
    """Probability with which this choice was made."""
    model_digest: str
    feature_fingerprint: str
    legal: tuple[ActionKind, ...] = ()
    """Interventions that were legal, where one of them was asked for; `chosen_index` and `scores`
    (the actor's probabilities) are theirs then."""
    intervention: ActionKind | None = None
    """The one that was chosen."""
