"""Names of span attributes: a table of our own, since the conventions' packages still move.

`DECISION` and `GUARDRAIL` are span kinds of OpenInference; what it has no word for stands below
`harness`.
"""

from enum import StrEnum


class SpanKind(StrEnum):
    """Values of `openinference.span.kind` that we write."""

    DECISION = "DECISION"
    GUARDRAIL = "GUARDRAIL"


class Name(StrEnum):
    """Attributes."""

    KIND = "openinference.span.kind"
    INPUT = "input.value"
    INPUT_TYPE = "input.mime_type"
    OUTPUT = "output.value"
    OUTPUT_TYPE = "output.mime_type"
    SESSION = "session.id"
    MODEL = "decision.model_name"
    PROVIDER = "decision.provider"
    INPUT_TOKENS = "decision.token_count.input"
    OUTPUT_TOKENS = "decision.token_count.output"
    DECISION_ID = "harness.decision.id"
    MODE = "harness.decision.mode"
    REASON = "harness.decision.reason"
    FAILURE = "harness.decision.failure"
    FALLBACK = "harness.decision.fallback"
    CHOSEN = "harness.decision.chosen_index"
    ANSWERED = "harness.decision.answered_index"
    PROPENSITY = "harness.decision.propensity"
    SUCCESS = "harness.decision.success_probability"
    RISK = "harness.decision.risk"
    STRANGENESS = "harness.decision.out_of_distribution"
    N_CANDIDATES = "harness.decision.n_candidates"
    SCORES = "harness.decision.scores"
    MODEL_DIGEST = "harness.model.digest"
    FINGERPRINT = "harness.model.feature_fingerprint"
    FILTERED = "harness.guardrail.filtered_indices"
    RULES = "harness.guardrail.rules"
