"""Complete attempts as rows of a table, for learners that know no order among candidates."""

from typing import Final, NamedTuple

import numpy as np

from harness_core.features.batch import Floats, Integers
from harness_core.learners.data import GroupPool

_ROWS_OF_GROUP: Final = 16


class AttemptRows(NamedTuple):
    """Attempts within random subsets of their groups; only those with known labels."""

    x: Floats
    """[N, Ds + Dr] state after the attempt and what sets it apart from the others of its subset."""
    label: Floats
    """[N] success, in [0, 1]."""
    sizes: Integers
    """Rows of each subset, in order; they add up to N."""


def draw_attempts(pool: GroupPool, *, max_rows: int, seed: int) -> AttemptRows:
    """Rows of subsets in random order until there are `max_rows`, few of each subset."""
    rng = np.random.default_rng(seed)
    known = pool.known.numpy()
    rows: list[Integers] = []
    n_rows = 0
    for subset in rng.permutation(pool.subsets()):
        here = pool.start[subset] + np.arange(pool.length[subset])
        here = here[known[here]]
        here = here[rng.permutation(len(here))[:_ROWS_OF_GROUP]]
        if len(here):
            rows.append(here)
            n_rows += len(here)
        if n_rows >= max_rows:
            break
    chosen = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    state = pool.state.numpy()[pool.source_row[chosen]]
    return AttemptRows(
        x=np.concatenate([state, pool.other.numpy()[chosen]], axis=1),
        label=pool.label.numpy()[chosen],
        sizes=np.array([len(part) for part in rows], dtype=np.int64),
    )
