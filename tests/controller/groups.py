"""Small decision groups for tests of the controller."""

from collections.abc import Sequence

import numpy as np

from harness_core.features.batch import DecisionGroup, GroupSignals
from harness_core.trajectories.vocabulary import GroupKind, Split


def make_group(
    success: Sequence[float],
    *,
    name: str = "g",
    outputs: Sequence[int] | None = None,
    prior: Sequence[float] | None = None,
    dangerous: Sequence[bool] | None = None,
) -> DecisionGroup:
    """A group of attempts whose vectors say nothing; only signals and labels differ."""
    k = len(success)
    signals = GroupSignals(
        n_chars=np.full(k, 10.0, dtype=np.float32),
        text_key=np.arange(k, dtype=np.int64),
        answer_key=np.zeros(k, dtype=np.int64),
        visible_rate=np.full(k, np.nan, dtype=np.float32),
        generated_passed=np.zeros((k, 0), dtype=np.bool_),
        outputs=np.array(outputs if outputs is not None else range(1, k + 1)).reshape(k, 1),
        agent_prior=np.array(prior if prior is not None else [0.5] * k, dtype=np.float32),
    )
    return DecisionGroup(
        group_id=name,
        kind=GroupKind.ATTEMPT,
        task_id=name,
        source="s",
        family="f",
        split=Split.TRAIN,
        fold=0,
        before=np.zeros((k, 2), dtype=np.float32),
        after=np.zeros((k, 2), dtype=np.float32),
        action=np.zeros((k, 2), dtype=np.float32),
        signals=signals,
        n_steps=np.ones(k, dtype=np.int64),
        n_tokens=np.zeros(k, dtype=np.int64),
        success=np.array(success, dtype=np.float32),
        dangerous=np.array(dangerous if dangerous is not None else [False] * k),
        is_taken=np.ones(k, dtype=np.bool_),
        trusted=True,
    )
