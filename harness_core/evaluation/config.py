"""Parameters of evaluation and of the gate: the sections `evaluation` and `gate`."""

from pydantic import Field

from harness_core.records import Section


class EvaluationConfig(Section):
    """How a model is judged on tasks that it never saw."""

    seed: int = Field(ge=0)
    group_sizes: tuple[int, ...] = Field(min_length=1)
    """The K of best-of-K; all candidates of a task are judged besides."""
    headline_size: int = Field(ge=2)
    """K of the figures by source, family and repeat; smaller groups count with all they have."""
    n_subsets: int = Field(ge=1)
    """Random subsets of K candidates drawn from each task."""
    n_resamples: int = Field(ge=100)
    """Bootstrap resamples of tasks."""
    confidence: float = Field(gt=0.5, lt=1)
    """Coverage of the intervals."""
    max_steps_auc: float = Field(ge=0.5, le=1)
    """AUC of −steps above which the report warns of a stop leak."""


class GateConfig(Section):
    """When a candidate model may replace the champion."""

    group_size: int = Field(ge=2)
    """K at which both models pick."""
    max_forgetting: float = Field(ge=0, le=1)
    """Loss of success rate in a family that is not yet called forgotten."""
    min_tasks: int = Field(ge=1)
    """Families with fewer test tasks are pooled into `other`."""
    max_success_loss: float = Field(ge=0, le=1)
    """How far below the reference the interval of the success rate may reach. A model that is not
    worse in the mean passes too: with few test tasks no interval is that narrow."""
    max_danger_rise: float = Field(ge=0, le=1)
    """How much more often the candidate model may pick a dangerous action."""
