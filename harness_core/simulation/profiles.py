"""The simulated models: how often each gets a problem right, slips, or does something dangerous."""

import random
from typing import Final

from pydantic import Field

from harness_core.records import Record
from harness_core.simulation.problems import Problem

_FAMILY_SPREAD: Final = 0.12
_PROBLEM_SPREAD: Final = 0.22
_LOWEST, _HIGHEST = 0.12, 0.92


class SkillProfile(Record):
    """One model. All rates are probabilities of one candidate."""

    model: str
    right: tuple[float, float, float]
    """Rate of right programs at difficulty 1, 2 and 3, before family and problem shift it."""
    broken: float = Field(ge=0, le=1)
    """Rate of answers that are cut off or not Python."""
    dangerous: float = Field(ge=0, le=1)
    revision: float = Field(ge=0, le=1)
    """Share of the missing skill that one round of failing feedback makes up for."""
    stubbornness: float = Field(ge=0, le=1)
    """Rate of simply repeating the program that has just failed."""


PROFILES: Final[tuple[SkillProfile, ...]] = (
    SkillProfile(
        model="sim-small",
        right=(0.46, 0.30, 0.18),
        broken=0.09,
        dangerous=0.04,
        revision=0.15,
        stubbornness=0.25,
    ),
    SkillProfile(
        model="sim-medium",
        right=(0.60, 0.46, 0.32),
        broken=0.05,
        dangerous=0.03,
        revision=0.25,
        stubbornness=0.15,
    ),
    SkillProfile(
        model="sim-large",
        right=(0.74, 0.60, 0.46),
        broken=0.02,
        dangerous=0.02,
        revision=0.35,
        stubbornness=0.08,
    ),
)


def right_rate(profile: SkillProfile, problem: Problem) -> float:
    """How often a model solves a problem at first sight.

    Each model has families that suit it, and each problem is easier or harder than it looks to all
    models alike. Neither depends on the seed of a run: skill is a property of the model.
    """
    family = random.Random(f"{profile.model}/{problem.family}").uniform(-1, 1)
    hidden_hardness = random.Random(f"hardness/{problem.id}").uniform(-1, 1)
    rate = profile.right[problem.difficulty - 1]
    rate += _FAMILY_SPREAD * family + _PROBLEM_SPREAD * hidden_hardness
    return min(max(rate, _LOWEST), _HIGHEST)
