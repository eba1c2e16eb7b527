"""Parameters of the sample logs: the section `sample`."""

from pydantic import Field

from harness_core.records import Section


class SampleConfig(Section):
    """How the simulated agent plays."""

    seed: int = Field(ge=0)
    """Decides every draw; the same seed gives the same bytes."""
    n_runs: int = Field(ge=1)
    """Runs of the agent on each task."""
    n_candidates: int = Field(ge=1)
    """Candidates that the agent proposes in each state."""
    max_attempts: int = Field(ge=1)
    """Programs that one run may submit to the visible tests."""
    guidance_share: float = Field(ge=0, lt=1)
    """Share of states in which a guidance template is given, drawn among those that are legal."""
