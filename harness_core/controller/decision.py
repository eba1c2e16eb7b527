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
    """The best candidate is below a simple threshold: the fallback decided."""
    ALL_FILTERED = "all_filtered"
    """Every candidate is dangerous: nothing is chosen, whatever the fallback."""
    OUT_OF_DISTRIBUTION = "out_of_distribution"
    """The state is stranger than is allowed: the fallback decided."""
    RISK_TOO_HIGH = "risk_too_high"
    """The best candidate is not among those whose risk is bounded: the fallback decided."""
    RULES_ONLY = "rules_only"
    """Nobody was asked for a score: the first candidate that no rule takes out."""
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


class GuidanceRetry(Record):
    """What to put before the agent's prompt before it proposes candidates once more."""

    template_id: str
    text: str
    round: int = Field(ge=1)
    """How many guided tries this run will then have had."""


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
    success_probabilities: tuple[float | None, ...] = ()
    """The same of every candidate; None for one that was filtered. Empty where none was scored."""
    risk: float | None = Field(default=None, ge=0, le=1)
    """Calibrated probability that the chosen candidate (where nobody is chosen, the best one) fails
    or is dangerous; None where nothing was scored."""
    out_of_distribution: float | None = Field(default=None, ge=0, le=1)
    """Share of calibration states that are at least as near to what the model knows as this one: 1
    is stranger than all. None where the model has nothing to compare with."""
    reason: Reason
    fallback: str | None
    """Name of the fallback that decided, if one did."""
    threshold: float | None = None
    """Bound that `reason` says was not kept; None where none decided. It bounds the probability of
    success from below, or the strangeness from above, or under `mean_share` the value Q from
    below. None for `risk_too_high` says that no threshold reaches the risk asked for."""
    guidance: GuidanceRetry | None = None
    """With what to ask the agent again, where the fallback is another try."""
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
    model_version: str | None = None
    """Version in the registry, where whoever loaded the model said so."""
    feature_fingerprint: str
    ran_programs: bool | None = None
    """Whether there was a sandbox to run programs in for what that tells of them; without one the
    same model scores them differently. None in decisions from before this was noted."""
    timings_s: dict[str, float] = Field(default_factory=dict)
    """Seconds by part: `filter`, `features`, `score`, `decide`. Of requests decided together, each
    one's even share of the features."""
    legal: tuple[ActionKind, ...] = ()
    """Interventions that were legal, where one of them was asked for; `chosen_index` and `scores`
    (the actor's probabilities) are theirs then."""
    intervention: ActionKind | None = None
    """The one that was chosen."""
