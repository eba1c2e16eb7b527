"""Parameters of training: the section `train`."""

from typing import Literal

from pydantic import Field

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


class TrainConfig(Section):
    """How the controller's networks are trained."""

    learner: Literal["iql", "mc", "bc"]
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
    iql: IqlConfig
