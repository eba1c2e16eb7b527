"""Synthetic decision groups and transitions in which one signal tells good attempts from bad."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness_core.features.batch import DecisionGroup, GroupSignals, TransitionArrays
from harness_core.learners.config import TrainConfig
from harness_core.learners.data import TrainingData, group_pool, transition_pool
from harness_core.learners.networks import NetworkSpec
from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Split

N_STATE, N_ACTION, N_RELATIVE = 6, len(ActionKind) + 2, 1
COMPONENTS = ("all_tests", "step_cost", "never")
WEIGHTS = (10.0, -0.5, 0.0)


@pytest.fixture(scope="session")
def spec() -> NetworkSpec:
    return NetworkSpec(
        n_state=N_STATE,
        n_action=N_ACTION,
        n_relative=N_RELATIVE,
        hidden_sizes=(16,),
        n_members=2,
        components=COMPONENTS,
        weights=WEIGHTS,
    )


@pytest.fixture
def config(params) -> TrainConfig:
    return params.train.model_copy(
        update={
            "accelerator": "cpu",
            "n_threads": 1,
            "hidden_sizes": (16,),
            "n_members": 2,
            "batch_size": 32,
            "n_groups": 8,
            "group_sizes": (2, 4),
            "max_updates": 60,
            "check_every": 20,
            "learning_rate": 0.01,
            "trees": params.train.trees.model_copy(update={"n_trees": 10, "n_members": 1}),
        }
    )


@pytest.fixture(scope="session")
def set_relative() -> Callable[[GroupSignals], np.ndarray]:
    def share(signals: GroupSignals) -> np.ndarray:
        centred = signals.visible_rate - signals.visible_rate.mean()
        return centred[:, None].astype(np.float32)

    return share


@pytest.fixture(scope="session")
def world() -> SimpleNamespace:
    return make_world(n_tasks=20, seed=0)


@pytest.fixture
def training(world, spec, config, set_relative) -> TrainingData:
    return TrainingData(
        transitions=transition_pool(world.arrays, spec, batch_size=config.batch_size),
        attempts=group_pool(
            world.groups,
            kind=GroupKind.ATTEMPT,
            set_relative=set_relative,
            group_sizes=config.group_sizes,
            seed=0,
        ),
        steps=None,
    )


def make_world(*, n_tasks: int, seed: int, n_candidates: int = 6) -> SimpleNamespace:
    """Attempts at `n_tasks` tasks; the second number of the last state says how good each is."""
    rng = np.random.default_rng(seed)
    groups: list[DecisionGroup] = []
    columns: dict[str, list[Any]] = {name: [] for name in TransitionArrays.__slots__}
    trajectory = 0
    for task in range(n_tasks):
        split = (Split.TRAIN, Split.TRAIN, Split.VALIDATION, Split.TRAIN)[task % 4]
        if task % 10 == 9:
            split = Split.TEST
        where = {
            "task_id": f"task/{task}",
            "source": "toy",
            "family": f"family-{task % 2}",
            "split": split,
            "fold": -1 if split is Split.TEST else task % 3,
        }
        quality = rng.normal(size=n_candidates)
        success = (quality + 0.3 * rng.normal(size=n_candidates) > 0).astype(np.float32)
        state = rng.normal(size=(n_candidates, 3, N_STATE)).astype(np.float32)
        state[:, :, 0] = [0.0, 0.0, 1.0]
        state[:, :, 1] = quality[:, None] * [0.0, 0.0, 1.0]
        action = np.zeros((n_candidates, N_ACTION), dtype=np.float32)
        action[:, 0] = 1.0
        action[:, -1] = quality
        groups += [
            _group(kind, where, state=state, action=action, success=success, quality=quality)
            for kind in (GroupKind.ATTEMPT, GroupKind.STEP)
        ]
        for candidate in range(n_candidates):
            for step in range(3):
                submit = np.zeros(N_ACTION, dtype=np.float32)
                submit[list(ActionKind).index(ActionKind.SUBMIT)] = 1.0
                last = step == 2
                columns["trajectory"].append(trajectory)
                columns["step_index"].append(step)
                columns["state"].append(state[candidate, step])
                taken = submit if last else action[candidate]
                columns["action"].append(np.append(taken, 0.0))
                columns["next_state"].append(
                    np.zeros(N_STATE) if last else state[candidate, step + 1]
                )
                reward = [success[candidate], np.nan, np.nan] if last else [np.nan, 1.0, np.nan]
                columns["rewards"].append(reward)
                columns["discount"].append(0.0 if last else 0.9)
                columns["fold"].append(where["fold"])
                columns["split"].append(str(split))
                columns["task_id"].append(where["task_id"])
            trajectory += 1
    floats = {"state", "action", "next_state", "rewards", "discount"}
    return SimpleNamespace(
        groups=groups,
        arrays=TransitionArrays(
            **{
                name: np.asarray(values, dtype=np.float32 if name in floats else None)
                for name, values in columns.items()
            }
        ),
    )


def _group(kind, where, *, state, action, success, quality) -> DecisionGroup:
    k = len(success)
    last = 2 if kind is GroupKind.ATTEMPT else 0
    return DecisionGroup(
        group_id=where["task_id"] + (":0" if kind is GroupKind.STEP else ""),
        kind=kind,
        **where,
        before=state[:, 0] if kind is GroupKind.STEP else state[:, 1],
        after=state[:, last],
        action=action,
        signals=GroupSignals(
            n_chars=np.full(k, 10, dtype=np.float32),
            text_key=np.arange(k),
            answer_key=np.zeros(k, dtype=np.int64),
            visible_rate=np.asarray(quality, dtype=np.float32),
            generated_passed=np.zeros((k, 0), dtype=np.bool_),
            outputs=np.zeros((k, 0), dtype=np.int64),
            agent_prior=np.full(k, 0.5, dtype=np.float32),
        ),
        n_steps=np.full(k, 2),
        n_tokens=np.zeros(k, dtype=np.int64),
        success=success,
        dangerous=np.zeros(k, dtype=np.bool_),
        is_taken=np.arange(k) == 0,
        trusted=True,
    )
