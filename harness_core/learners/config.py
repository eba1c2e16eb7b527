"""Parameters of training: the section `train`."""

from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from harness_core.records import Section


class IqlConfig(Section):
    """Implicit Q-learning (Kostrikov et al., 2021) with λ-returns."""

    expectile: float = Field(ge=0.5, lt=1)
    """How far V leans to the best actions of the data: 0.5 is the mean."""
    return_lambda: float = Field(ge=0, le=1)
    """Mix of the λ-return: 0 is one-step TD, 1 is Monte Carlo."""
    polyak: float = Field(gt=0, le=1)
    """Step of the target network towards the critic after each update."""
    inverse_temperature: float = Field(ge=0)
    """Sharpness of advantage weights when a policy is extracted; 0 is behaviour cloning."""
    huber_delta: float = Field(gt=0)
    """Where the TD loss turns from quadratic to linear."""


class CurriculumStage(Section):
    """Until when only some families are learnt from."""

    until: float = Field(gt=0, le=1)
    """Share of `max_updates` up to which the stage lasts."""
    task_share: float = Field(gt=0, le=1)
    """Families enter, simple and common ones first, while those before hold less than this share
    of the training tasks."""


class CurriculumConfig(Section):
    """Simple, common families first, then the rare ones; after the last stage all."""

    stages: tuple[CurriculumStage, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _goes_forward(self) -> Self:
        for one, two in pairwise(self.stages):
            if two.until <= one.until or two.task_share < one.task_share:
                raise ValueError("each stage must end later than the one before and hold no less")
        return self


class ReplayConfig(Section):
    """Old and new logs in one batch at a set ratio, when a model is trained anew."""

    old_share: float = Field(gt=0, lt=1)
    """Share of every batch that is drawn from old logs."""
    old_sources: tuple[str, ...] = Field(min_length=1)
    """Folders of `data/raw` that an earlier champion learnt from; all others are new."""


class TreesConfig(Section):
    """Boosted trees beside the networks (LightGBM); their log-odds are added to the network's."""

    n_trees: int = Field(ge=0)
    """Rounds of boosting; 0 leaves the networks alone."""
    n_leaves: int = Field(ge=2)
    learning_rate: float = Field(gt=0)
    min_rows: int = Field(ge=1)
    """Fewest rows of a leaf, less where there are few rows at all."""
    row_share: float = Field(gt=0, le=1)
    """Share of rows that a tree sees."""
    column_share: float = Field(gt=0, le=1)
    """Share of columns that a tree sees."""
    l2: float = Field(ge=0)
    max_rows: int = Field(ge=1)
    """Rows that are learnt from; more are thinned out at random."""
    n_members: int = Field(ge=1, le=64)
    """Fits of every head on other draws, whose scores are averaged."""


class LinearConfig(Section):
    """Ridge logistic regression beside the networks and the trees."""

    share: float = Field(ge=0)
    """Part of its log-odds that is added to those of the others; 0 leaves it out."""
    penalty: float = Field(gt=0)
    """Pull of each weight to 0, in squared log-odds a standard deviation, against the sum over
    rows of their cross-entropy."""
    max_rows: int = Field(ge=1)
    """Rows that are learnt from; more are thinned out at random."""


class TrainConfig(Section):
    """How the controller's networks are trained."""

    learner: Literal["iql", "mc", "bc"]
    actor: Literal["awr", "awr_returns", "bc"]
    """How interventions are learnt: advantage of the critic, returns of Yi & Song, or cloning."""
    seed: int = Field(ge=0)
    accelerator: Literal["auto", "cpu", "gpu"]
    n_threads: int = Field(ge=1)
    """Threads of one training process."""
    hidden_sizes: tuple[int, ...] = Field(min_length=1)
    """Width of each hidden layer."""
    dropout: float = Field(ge=0, lt=1)
    learning_rate: float = Field(gt=0)
    weight_decay: float = Field(ge=0)
    batch_size: int = Field(ge=1)
    """Transitions of one update."""
    n_groups: int = Field(ge=1)
    """Decision groups of one update."""
    group_sizes: tuple[int, ...] = Field(min_length=1)
    """Numbers of candidates that groups are subsampled to, so that any K is in distribution."""
    max_updates: int = Field(ge=1)
    check_every: int = Field(ge=1)
    """Updates between two checks on the validation tasks; the best check is kept."""
    pairwise_weight: float = Field(ge=0)
    """Weight of the pairwise loss inside decision groups beside the cross-entropy."""
    n_members: int = Field(ge=1)
    """Networks of the ensemble whose terminal scores are averaged."""
    curriculum: CurriculumConfig | None = None
    """Null: every update draws from all families alike."""
    replay: ReplayConfig | None = None
    """Null: every update draws from all logs alike."""
    iql: IqlConfig
    trees: TreesConfig
    linear: LinearConfig
