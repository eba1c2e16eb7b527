"""The part of `train` that learns which guidance is worth giving, where logs hold any."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness_core.controller.guidance import save_guidance
from harness_core.features.guided import GuidedSteps, load_guided_steps
from harness_core.learners.guidance import FittedGains, fit_gains
from harness_core.stages.dag import GUIDANCE, STEPS, Workspace
from harness_core.trajectories.guidance_library import load_library
from harness_core.trajectories.vocabulary import Split

_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntGuidance:
    """Gains by who may judge: one model a fold, that never saw its tasks, and the final one."""

    library: Path
    n_steps: int = 0
    final: FittedGains | None = None
    folds: Mapping[int, FittedGains | None] = field(default_factory=dict)

    def save(self, folder: Path, *, fold: int | None) -> None:
        """Write the model of a fold, or the final one, into its folder, if anything was learnt."""
        fitted = self.final if fold is None else self.folds.get(fold)
        if fitted is not None:
            save_guidance(folder, self.library, fitted.model)

    def figures(self) -> dict[str, Any]:
        """What the report says; empty where logs hold no guidance."""
        if not self.n_steps:
            return {}
        figures: dict[str, Any] = {"n_steps": self.n_steps, "is_learnt": self.final is not None}
        if self.final is not None:
            figures |= {
                "n_steps_by_template": dict(self.final.n_steps),
                "inner_worth": round(self.final.worth, _DIGITS),
            }
        return figures


def learn_guidance(
    workspace: Workspace, names: Sequence[str], *, n_folds: int, seed: int
) -> LearntGuidance:
    """Learn gains from the steps outside the frozen slice; nothing where no step was guided.

    Raises:
        ParameterError: logs hold guidance and the templates cannot be used.
    """
    library = workspace.path(GUIDANCE)
    # Features that were made without steps, as synthetic ones are, hold no guidance either.
    if not workspace.path(STEPS).exists():
        return LearntGuidance(library=library)
    steps = load_guided_steps(workspace)
    inside = steps.take(steps.split != Split.TEST)
    if not len(inside):
        return LearntGuidance(library=library)
    load_library(library)  # refused before anything is written
    return LearntGuidance(
        library=library,
        n_steps=len(inside),
        final=fit_gains(inside, names, seed=seed),
        folds={fold: _without(inside, fold, names, seed=seed) for fold in range(n_folds)},
    )


def _without(
    steps: GuidedSteps, fold: int, names: Sequence[str], *, seed: int
) -> FittedGains | None:
    return fit_gains(steps.take(steps.fold != fold), names, seed=seed)
