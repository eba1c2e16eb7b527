"""Boosted trees beside the networks: two heads that learn from the same rows.

On the logs we have, trees rank better than a network where features are few and telling, and the
network where they are many; their log-odds added are better than either. One head scores complete
attempts, by a classifier (log-odds that can be calibrated) and a ranker (lambdarank within the
decision group); the other scores running ones. Each is fitted several times, on other draws of rows
and columns, and the scores are averaged (Breiman, 1996): single boosted models of few hundred tasks
differ by chance as much as learners differ. All is stored as text, nothing of it is executed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import lightgbm
import numpy as np

from harness_core.errors import ModelError
from harness_core.features.batch import Floats, Integers
from harness_core.learners.attempt_rows import draw_attempts
from harness_core.learners.config import TreesConfig
from harness_core.learners.data import GroupPool, TrainingData, TransitionPool
from harness_core.learners.merged_trees import merge_members
from harness_core.tables import publish_bytes

_HEADS: Final = ("attempt", "rank", "running")
_MAX_MEMBERS: Final = 64

_RANK_SHARE: Final = 1.0
"""Weight of the ranker's score beside the classifier's log-odds."""
_MAX_BYTES: Final = 64 << 20
_SOLVED: Final = 0.5
_THREADS: Final = {"num_threads": 1}
_GRADES: Final = 31
"""Steps into which a graded outcome is cut for the ranker."""


@dataclass(frozen=True, kw_only=True)
class TreeHeads:
    """Fitted trees, some members a head; a head that had nothing to learn from has none."""

    attempt: tuple[lightgbm.Booster, ...] = ()
    rank: tuple[lightgbm.Booster, ...] = ()
    running: tuple[lightgbm.Booster, ...] = ()

    def score_attempts(self, x: Floats) -> Floats | None:
        """Log-odds of success and rank score together, [K], of [state | set-relative]."""
        return None if self._of_attempts is None else _predict(self._of_attempts, x)

    def score_running(self, state: Floats) -> Floats | None:
        """Log-odds [N] that an attempt that is still running will succeed, from its state."""
        return None if self._of_running is None else _predict(self._of_running, state)

    @cached_property
    def _of_attempts(self) -> lightgbm.Booster | None:
        if not self.attempt or not self.rank:
            return None
        return merge_members(
            [
                *((member, 1.0 / len(self.attempt)) for member in self.attempt),
                *((member, _RANK_SHARE / len(self.rank)) for member in self.rank),
            ]
        )

    @cached_property
    def _of_running(self) -> lightgbm.Booster | None:
        members = self.running
        return merge_members([(one, 1.0 / len(members)) for one in members]) if members else None


NO_TREES: Final = TreeHeads()


def fit_trees(data: TrainingData, config: TreesConfig, *, seed: int) -> TreeHeads:
    """Fit both heads on the tasks of `data`."""
    members = [_fit_member(data, config, seed=seed + n) for n in range(config.n_members)]
    return TreeHeads(
        **{name: tuple(one[name] for one in members if name in one) for name in _HEADS}
    )


def file_name(head: str, member: int) -> str:
    """Where a member of a head is stored; the first has no number."""
    return f"trees_{head}.txt" if not member else f"trees_{head}_{member}.txt"


def save_trees(folder: Path, trees: TreeHeads) -> None:
    """Write the members there are, and remove what is left of others."""
    for head in _HEADS:
        members = getattr(trees, head)
        for member in range(_MAX_MEMBERS):
            path = folder / file_name(head, member)
            if member < len(members):
                publish_bytes(path, members[member].model_to_string().encode())
            else:
                path.unlink(missing_ok=True)


def load_trees(folder: Path, *, n_attempt: int, n_state: int) -> TreeHeads:
    """Read the heads there are.

    Raises:
        ModelError: a file is too large, no model, or was fitted on rows of another width.
    """
    widths = {"attempt": n_attempt, "rank": n_attempt, "running": n_state}
    return TreeHeads(**{head: tuple(_members(folder, head, n)) for head, n in widths.items()})


def _members(folder: Path, head: str, width: int) -> Iterator[lightgbm.Booster]:
    for member in range(_MAX_MEMBERS):
        booster = _load(folder / file_name(head, member), width)
        if booster is None:
            return
        yield booster


def _fit_member(
    data: TrainingData, config: TreesConfig, *, seed: int
) -> dict[str, lightgbm.Booster]:
    """One member of each head that has something to learn from."""
    if not config.n_trees:
        return {}
    attempt = rank = None
    if data.attempts is not None:
        attempt, rank = _fit_attempts(data.attempts, config, seed=seed)
    running = _fit_running(data.transitions, config, seed=seed)
    fitted = zip(_HEADS, (attempt, rank, running), strict=True)
    return {name: booster for name, booster in fitted if booster is not None}


def _load(path: Path, width: int) -> lightgbm.Booster | None:
    if not path.exists():
        return None
    if path.stat().st_size > _MAX_BYTES:
        raise ModelError(f"{path} is larger than {_MAX_BYTES} bytes")
    try:
        booster = lightgbm.Booster(model_str=path.read_text(encoding="utf-8"))
    except (lightgbm.basic.LightGBMError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} holds no trees: {error}") from error
    if booster.num_feature() != width:
        raise ModelError(f"{path}: trees for {booster.num_feature()} columns, expected {width}")
    return booster


def _fit_attempts(
    pool: GroupPool, config: TreesConfig, *, seed: int
) -> tuple[lightgbm.Booster | None, lightgbm.Booster | None]:
    x, label, sizes = draw_attempts(pool, max_rows=config.max_rows, seed=seed)
    if not len(label) or label.min() == label.max():
        return None, None
    grade = np.round(label * _GRADES).astype(np.int64)
    return (
        _train(x, label, config, objective="cross_entropy", seed=seed),
        _train(x, grade, config, objective="lambdarank", seed=seed, group=sizes),
    )


def _fit_running(
    pool: TransitionPool, config: TreesConfig, *, seed: int
) -> lightgbm.Booster | None:
    rng = np.random.default_rng(seed)
    rows = pool.rows()
    rows = rows[pool.running.numpy()[rows]]
    if len(rows) > config.max_rows:
        rows = np.sort(rng.choice(rows, size=config.max_rows, replace=False))
    label = pool.outcome.numpy()[rows]
    if not len(rows) or label.min() == label.max():
        return None
    x = pool.state.numpy()[rows]
    return _train(x, label, config, objective="cross_entropy", seed=seed)


def _train(
    x: Floats,
    label: Floats | Integers,
    config: TreesConfig,
    *,
    objective: str,
    seed: int,
    group: Integers | None = None,
) -> lightgbm.Booster:
    parameters = {
        "objective": objective,
        "learning_rate": config.learning_rate,
        "num_leaves": config.n_leaves,
        "min_data_in_leaf": min(config.min_rows, max(1, len(x) // 20)),
        "bagging_fraction": config.row_share,
        "bagging_freq": 1,
        "feature_fraction": config.column_share,
        "lambda_l2": config.l2,
        "label_gain": list(range(_GRADES + 1)),
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
        **_THREADS,
    }
    dataset = lightgbm.Dataset(x, label=label, group=group, params={"verbosity": -1, **_THREADS})
    return lightgbm.train(parameters, dataset, num_boost_round=config.n_trees)


def _predict(trees: lightgbm.Booster, x: Floats) -> Floats:
    """Raw scores, [N]."""
    # Bytes, not views: LightGBM refuses what is not contiguous.
    rows = np.ascontiguousarray(x, dtype=np.float32)
    if not len(rows):
        return np.zeros(0, dtype=np.float32)
    return np.asarray(trees.predict(rows, raw_score=True, **_THREADS), dtype=np.float32)
