"""Which columns a learner may see: what an attempt is, or what came back when it was carried out.

Decided by the names in the schema alone. *Static* is known without carrying anything out: task,
text and summary of the last action, counts of actions, the agent. *Execution* is what came back:
checks passed, values returned, errors, the last observation.
"""

from typing import Final

import numpy as np

from harness_core.features.batch import Floats, Integers
from harness_core.features.table import FeatureSchema

NUMERIC: Final = "numeric."
OF_THE_LAST_ACTION: Final = "last_action."
_CAME_BACK: Final = (
    "last_action.execution.",
    "observation.",
    "numeric.visible_",
    "numeric.generated_",
    "numeric.last_is_error",
    "numeric.last_error_known",
    "numeric.last_result_",
    "numeric.log_n_errors",
    "numeric.log_n_same_results",
    "numeric.log_result_",
    "numeric.error_rate",
    "numeric.result_",
)
"""How the names of execution columns begin."""


def execution(schema: FeatureSchema) -> Integers:
    """Columns of a state that came back from somewhere."""
    return _where([name.startswith(_CAME_BACK) for name in schema.state])


def static(schema: FeatureSchema) -> Integers:
    """All other columns of a state."""
    return _where([not name.startswith(_CAME_BACK) for name in schema.state])


def everything(schema: FeatureSchema) -> Integers:
    """All columns of a state."""
    return np.arange(len(schema.state))


def with_set_relative(schema: FeatureSchema) -> Integers:
    """All columns of a state, and those of the candidate within its set behind them."""
    return np.arange(len(schema.state) + len(schema.set_relative))


def counts(schema: FeatureSchema) -> Integers:
    """The plain numbers of a state: how the run has gone so far, without texts."""
    return _where([name.startswith(NUMERIC) for name in schema.state])


def flag(schema: FeatureSchema, name: str, states: Floats) -> tuple[int, float] | None:
    """Column of a yes or no and the value that parts them; None where it never varies.

    Stored numbers are standardised, so that yes is only the larger of two values.
    """
    if name not in schema.state:
        return None
    column = schema.state.index(name)
    low, high = float(states[:, column].min()), float(states[:, column].max())
    return (column, (low + high) / 2) if high > low else None


def _where(flags: list[bool]) -> Integers:
    return np.flatnonzero(np.array(flags, dtype=bool))
