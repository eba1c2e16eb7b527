"""Parameters of the data gate: the section `validation`."""

from pydantic import Field

from harness_core.records import Section


class ValidationConfig(Section):
    """When data are too odd to learn from."""

    min_trajectories: int = Field(ge=1)
    """Fewer trajectories than this stop the run."""
    min_tasks: int = Field(ge=2)
    """Fewer tasks than this cannot be split, and stop the run."""
    max_unknown_outcome_rate: float = Field(ge=0, le=1)
    """Share of trajectories without any outcome above which the report warns."""
    max_error_rate: float = Field(ge=0, le=1)
    """Share of steps that failed above which the report warns."""
