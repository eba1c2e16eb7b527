"""Parameters at run time: the section `controller`.

The first three are required. The others came later: their defaults are what a model folder from
before them did, so that it decides as it always has.
"""

from typing import Final, Literal

from pydantic import Field

from harness_core.records import Section

FallbackName = Literal["first", "conservative", "guidance", "review", "abstain"]

REQUIRED: Final = frozenset({"min_success_probability", "fallback", "exploration"})
"""What every model folder says; the others are part of a model's digest only where they differ."""


class ControllerConfig(Section):
    """How decisions are taken."""

    min_success_probability: float = Field(ge=0, le=1)
    """Below this calibrated probability of the best candidate the controller stands aside; it holds
    whatever `abstention` says, and 0 never does."""
    fallback: FallbackName
    """What happens when it stands aside: the agent's first candidate, the most conservative one,
    another try under a guidance template, a person decides, or nobody is chosen."""
    exploration: float = Field(ge=0, lt=1)
    """Probability of a uniform draw among the allowed candidates, logged as propensity."""
    abstention: Literal["none", "risk", "expected_risk", "mean_share"] = "none"
    """When the controller stands aside besides: never; so that accepted picks fail in no more than
    `max_risk` of cases, with `confidence`; so that this holds on average over calibrations, for
    accepted failures among all decisions; or below a share of the mean value of picks."""
    max_risk: float = Field(default=0.1, gt=0, lt=1)
    """Most that an accepted pick may fail or be dangerous, as a probability."""
    confidence: float = Field(default=0.9, gt=0, lt=1)
    """How sure `max_risk` is to hold under `abstention: risk`."""
    mean_share: float = Field(default=0.5, ge=0, le=1)
    """Under `abstention: mean_share` the share of the mean value Q of calibration picks that the
    best candidate has to reach."""
    max_strangeness: float = Field(default=1.0, ge=0, le=1)
    """Stand aside where a state is stranger than this share of calibration states; 1 never does."""
    max_guidance_rounds: int = Field(default=3, ge=0, le=3)
    """Most tries under guidance in one run before `fallback: guidance` takes the first one."""
    candidate_price: float = Field(default=0.0, ge=0, le=1)
    """What one more candidate costs, in probability of success; below it no more are asked for."""
