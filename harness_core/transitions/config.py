"""Parameters of the decision process and of the splits: the section `transitions`."""

from typing import Literal

from pydantic import Field

from harness_core.records import Section


class SplitConfig(Section):
    """How tasks are divided; the same salt always divides them the same way."""

    salt: str = Field(min_length=1)
    """Mixed into the hash of a task id. Changing it makes old and new evaluations incomparable."""
    validation_share: float = Field(gt=0, lt=0.5)
    """Share of tasks for early stopping."""
    test_share: float = Field(ge=0, lt=0.5)
    """Share of tasks in the frozen slice that no model ever trains on. With 0 there is none, and
    every task is judged by a model of its fold only."""
    n_folds: int = Field(ge=2)
    """Folds of the tasks outside the frozen slice, for cross-fitting."""
    near_duplicate_similarity: float = Field(gt=0, le=1)
    """MinHash similarity of descriptions above which two tasks share a split."""


class TransitionConfig(Section):
    """How trajectories become transitions and decision groups."""

    discount_factor: float = Field(gt=0, le=1)
    """Worth of a reward one step later."""
    attempts: Literal["complete", "first_answer"]
    """What an attempt is as a candidate: the whole of it, or its first answer that the log graded.
    Where logs stop because a hidden grader said so, how an attempt ended gives the outcome away;
    first answers do not know it. Attempts without one are then left out."""
    max_group_size: int = Field(ge=2)
    """Candidates kept in one decision group, by lowest id."""
    split: SplitConfig
