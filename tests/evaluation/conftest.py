"""Synthetic decision groups and critics whose quality is known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness_core.evaluation.config import EvaluationConfig, GateConfig
from harness_core.features.batch import DecisionGroup, Floats, GroupSignals
from harness_core.params import Params
from harness_core.trajectories.vocabulary import GroupKind, Split

_WIDTH = 4


def make_group(
    success: npt.ArrayLike,
    *,
    task_id: str = "task-0",
    group_id: str | None = None,
    kind: GroupKind = GroupKind.ATTEMPT,
    family: str = "strings",
    source: str = "sample",
    split: Split = Split.TRAIN,
    fold: int = 0,
    hint: npt.ArrayLike | None = None,
    **changes: Any,
) -> DecisionGroup:
    """A group whose first state column is `hint`, by default the labels themselves."""
    label = np.array(success, dtype=np.float32)
    k = len(label)
    after = np.zeros((k, _WIDTH), dtype=np.float32)
    after[:, 0] = np.nan_to_num(label) if hint is None else np.array(hint, dtype=np.float32)
    signals: dict[str, Any] = {
        "n_chars": np.full(k, 10.0, dtype=np.float32),
        "text_key": np.arange(1, k + 1),
        "answer_key": np.zeros(k, dtype=np.int64),
        "visible_rate": np.full(k, np.nan, dtype=np.float32),
        "generated_passed": np.zeros((k, 0), dtype=bool),
        "outputs": np.zeros((k, 0), dtype=np.int64),
        "agent_prior": np.full(k, 0.5, dtype=np.float32),
    }
    fields: dict[str, Any] = {
        "n_steps": np.ones(k, dtype=np.int64),
        "n_tokens": np.zeros(k, dtype=np.int64),
        "dangerous": np.zeros(k, dtype=bool),
        "is_taken": np.arange(k) == 0,
        "trusted": True,
    }
    for name, value in changes.items():
        (signals if name in signals else fields)[name] = value
    return DecisionGroup(
        group_id=group_id or f"{source}/{task_id}/{kind}",
        kind=kind,
        task_id=task_id,
        source=source,
        family=family,
        split=split,
        fold=-1 if split is Split.TEST else fold,
        before=after.copy(),
        after=after,
        action=np.zeros((k, 2), dtype=np.float32),
        signals=GroupSignals(**signals),
        success=label,
        **fields,
    )


@dataclass(frozen=True)
class FakeCritic:
    """Scores a state by its first column times `sign`; nothing is learnt."""

    sign: float = 1.0

    def terminal(self, x: Floats) -> Floats:
        return np.asarray(self.sign * x[:, 0], dtype=np.float32)

    def q(self, state: Floats, action: Floats) -> Floats:
        return np.stack([self.sign * state[:, 0], np.zeros(len(action))], axis=1)

    def running(self, state: Floats) -> Floats:
        total: Floats = self.value(state).sum(axis=1)
        return total

    def value(self, state: Floats) -> Floats:
        return np.stack([self.sign * state[:, 0], np.zeros(len(state))], axis=1)


@pytest.fixture(scope="session")
def group() -> Callable[..., DecisionGroup]:
    return make_group


@pytest.fixture(scope="session")
def critic() -> Callable[..., FakeCritic]:
    return FakeCritic


@pytest.fixture
def evaluation(params: Params) -> EvaluationConfig:
    return params.evaluation.model_copy(update={"n_resamples": 500, "n_subsets": 8})


@pytest.fixture
def gate(params: Params) -> GateConfig:
    return params.gate


@pytest.fixture(scope="session")
def many_groups() -> Callable[..., list[DecisionGroup]]:
    """`n_tasks` tasks with `k` candidates of a given mean success, in five folds and a test slice.

    `quality` is the correlation of the first state column with the label: 1 knows it, 0 is noise.
    """

    def make(
        *,
        n_tasks: int = 40,
        k: int = 10,
        rate: float = 0.4,
        quality: float = 1.0,
        family: str = "strings",
        seed: int = 0,
        **changes: Any,
    ) -> list[DecisionGroup]:
        rng = np.random.default_rng(seed)
        groups = []
        for number in range(n_tasks):
            label = (rng.random(k) < rate).astype(np.float32)
            hint = quality * label + (1 - quality) * rng.random(k)
            groups.append(
                make_group(
                    label,
                    task_id=f"{family}-{number}",
                    family=family,
                    split=Split.TEST if number % 4 == 3 else Split.TRAIN,
                    fold=number % 5,
                    hint=hint,
                    agent_prior=rng.random(k).astype(np.float32),
                    n_chars=rng.integers(5, 50, k).astype(np.float32),
                    **changes,
                )
            )
        return groups

    return make
