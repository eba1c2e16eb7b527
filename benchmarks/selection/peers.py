"""IQL of d3rlpy on the transitions of a pack, as a selector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.agent_log import AgentLog, Runs
from benchmarks.peers.d3rlpy_elsewhere import D3rlpyElsewhere, open_d3rlpy
from benchmarks.peers.d3rlpy_iql import D3rlpyIql
from benchmarks.peers.trainer import Ranker, Shape
from benchmarks.selection.crossfitting import by_fold
from benchmarks.selection.networks import ends, handing_in
from benchmarks.selection.pack import Pack
from harness_core.evaluation.selection import Selector
from harness_core.evaluation.subsets import Subset
from harness_core.features.batch import Flags, Floats, TransitionArrays
from harness_core.rewards.table import COMPONENTS

_N_UPDATES: Final = 200
"""Of each fold: the most that the time of the whole table allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerScores:
    """Q(s_T, submit) of the peer that never saw the fold."""

    peers: Mapping[int, Ranker]
    n_action: int

    def __call__(self, subsets: Sequence[Subset]) -> list[Floats]:
        """Scores [K] of each subset."""
        return by_fold(subsets, self._of_fold)

    def _of_fold(self, fold: int, members: Sequence[Subset]) -> Floats:
        states = ends(members)
        action = handing_in(len(states), n_action=self.n_action)
        return self.peers[fold].q(_rows_to_score(states, action)).reshape(-1)


def d3rlpy_iql(pack: Pack, seed: int) -> Selector | None:
    """Same transitions, rewards, widths, batch and step size as ours; one-step targets.

    Candidates are ranked by `predict_value(s_T, submit)`: the observation has been seen, and
    handing in is the action that the outcome pays.

    Raises:
        PeerMissing: d3rlpy is not installed.
    """
    train = pack.params.train
    shape = Shape(
        hidden_sizes=train.hidden_sizes,
        batch_size=train.batch_size,
        n_threads=train.n_threads,
        seed=seed,
    )
    arrays = pack.transitions
    reward = _total_reward(pack)
    peers: dict[int, D3rlpyIql | D3rlpyElsewhere] = {}
    for fold in sorted({group.fold for group in pack.groups}):
        log = _log(arrays, reward, arrays.fold != fold)
        peer = open_d3rlpy(
            log,
            shape,
            learning_rate=train.learning_rate,
            polyak=train.iql.polyak,
            beside=next(iter(peers.values()), None),
        )
        peer.train(_N_UPDATES)
        peers[fold] = peer
    return PeerScores(peers=peers, n_action=len(pack.schema.action))


def _total_reward(pack: Pack) -> Floats:
    """Weighted sum of the components that apply, [N, 1], in units of the largest weight."""
    weights = pack.params.rewards.weights.model_dump()
    weight = np.array([weights[name] for name in COMPONENTS], dtype=np.float32)
    unit = float(np.abs(weight).max()) or 1.0
    total = np.nan_to_num(pack.transitions.rewards, nan=0.0) @ (weight / unit)
    return np.asarray(total, dtype=np.float32)[:, None]


def _log(arrays: TransitionArrays, reward: Floats, rows: Flags) -> AgentLog:
    trajectory = arrays.trajectory[rows]
    is_last = np.append(trajectory[1:] != trajectory[:-1], True)[: len(trajectory)]
    return _agent_log(
        TransitionArrays(
            trajectory=trajectory,
            step_index=arrays.step_index[rows],
            state=arrays.state[rows],
            action=arrays.action[rows],
            next_state=arrays.next_state[rows],
            rewards=reward[rows],
            discount=arrays.discount[rows],
            fold=arrays.fold[rows],
            split=arrays.split[rows],
            task_id=arrays.task_id[rows],
        ),
        is_last,
    )


def _rows_to_score(states: Floats, action: Floats) -> AgentLog:
    n_rows = len(states)
    arrays = TransitionArrays(
        trajectory=np.arange(n_rows),
        step_index=np.zeros(n_rows, dtype=np.int64),
        state=states,
        action=action,
        next_state=np.zeros_like(states),
        rewards=np.zeros((n_rows, 1), dtype=np.float32),
        discount=np.zeros(n_rows, dtype=np.float32),
        fold=np.zeros(n_rows, dtype=np.int64),
        split=np.full(n_rows, ""),
        task_id=np.full(n_rows, ""),
    )
    return _agent_log(arrays, np.ones(n_rows, dtype=bool))


def _agent_log(arrays: TransitionArrays, is_last: Flags) -> AgentLog:
    """What a peer takes; of the truth behind real runs only their ends are known."""
    unknown = np.zeros(len(is_last), dtype=np.int64)
    runs = Runs(
        run=arrays.trajectory,
        progress=unknown,
        time=arrays.step_index,
        level=unknown,
        is_last=is_last,
        reward=arrays.rewards[:, 0],
        success=np.zeros(len(is_last), dtype=bool),
    )
    return AgentLog(arrays=arrays, runs=runs)
