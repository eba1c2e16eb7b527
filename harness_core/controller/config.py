"""Parameters at run time: the section `controller`."""

from typing import Literal

from pydantic import Field

from harness_core.records import Section


class ControllerConfig(Section):
    """How decisions are taken."""

    min_success_probability: float = Field(ge=0, le=1)
    """Below this calibrated probability of the best candidate the controller stands aside."""
    fallback: Literal["first", "abstain"]
    """What happens then: the agent's first candidate, or nobody is chosen."""
    exploration: float = Field(ge=0, lt=1)
    """Probability of a uniform draw among the allowed candidates, logged as propensity."""
