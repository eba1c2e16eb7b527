"""Parameters of the decision process and of the splits: the section `transitions`."""

from pydantic import Field

from harness_core.records import Section


class SplitConfig(Section):
    """How tasks are divided; the same salt always divides them the same way."""

    salt: str = Field(min_length=1)
    """Mixed into the hash of a task id. Changing it makes old and new evaluations incomparable."""
    validation_share: float = Field(gt=0, lt=0.5)
    """Share of tasks for early stopping."""
    test_share: float = Field(gt=0, lt=0.5)
    """Share of tasks in the frozen slice that no model ever trains on."""
    n_folds: int = Field(ge=2)
    """Folds of the tasks outside the frozen slice, for cross-fitting."""
    near_duplicate_similarity: float = Field(gt=0, le=1)
    """MinHash similarity of descriptions above which two tasks share a split."""


class TransitionConfig(Section):
    """How trajectories become transitions and decision groups."""

    discount_factor: float = Field(gt=0, le=1)
    """Worth of a reward one step later."""
    max_group_size: int = Field(ge=2)
    """Candidates kept in one decision group, by lowest id."""
    split: SplitConfig
