"""Parameters of evaluation, calibration and the gate: the sections of these names."""

from typing import Final

from pydantic import Field, field_validator

from harness_core.records import Section
from harness_core.rewards.table import COMPONENTS

PRESENT: Final = "present"
"""The setting of the section `rewards`."""
RESERVED_NAMES: Final = frozenset({PRESENT, "random", "oracle", "no_goal"})


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


class WeightSetting(Section):
    """One scheme of rewards that is tried out beside the present one."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    gate_process: bool
    """As in the section `rewards`."""
    weights: dict[str, float]
    """Component → weight; a component that is not named keeps its present weight."""

    @field_validator("weights")
    @classmethod
    def _has_known_components(cls, weights: dict[str, float]) -> dict[str, float]:
        unknown = sorted(weights.keys() - set(COMPONENTS))
        if unknown:
            raise ValueError(f"unknown component {unknown[0]}; there are {', '.join(COMPONENTS)}")
        return weights


class CalibrationConfig(Section):
    """How weights are tried out on a small part of the development tasks."""

    seed: int = Field(ge=0)
    """Decides, with the id of each task, which tasks make the small part."""
    task_share: float = Field(gt=0, le=1)
    """Share of the development tasks that is learnt from and judged on."""
    n_folds: int = Field(ge=2)
    """Parts of the small part; each is judged by critics that learnt from the others."""
    update_share: float = Field(gt=0, le=1)
    """Share of `train.max_updates`."""
    group_size: int = Field(ge=2)
    """K at which candidates are picked; a group that has fewer offers all of them."""
    settings: tuple[WeightSetting, ...] = Field(min_length=1)
    """The schemes, tried beside the present one, which is always the first."""

    @field_validator("settings")
    @classmethod
    def _has_distinct_names(cls, settings: tuple[WeightSetting, ...]) -> tuple[WeightSetting, ...]:
        names = [setting.name for setting in settings]
        if len(set(names)) < len(names) or set(names) & RESERVED_NAMES:
            raise ValueError(f"names must differ, also from {', '.join(sorted(RESERVED_NAMES))}")
        return settings


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
