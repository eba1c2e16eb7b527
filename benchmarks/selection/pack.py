"""One data pack as every method of the selection benchmark gets it."""

from dataclasses import dataclass
from pathlib import Path

from harness_core.features.batch import DecisionGroup, TransitionArrays
from harness_core.features.table import FeatureSchema
from harness_core.params import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The decision groups and transitions of one pack, all of its tasks in folds."""

    name: str
    groups: tuple[DecisionGroup, ...]
    """Kind ATTEMPT, with known outcomes, each in a fold 0 … n − 1: there is no frozen slice."""
    transitions: TransitionArrays
    schema: FeatureSchema
    params: Params
    root: Path | None = None
    """Working folder, where models of the folds are left for other benchmarks; None: nowhere."""
