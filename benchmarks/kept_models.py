"""Models of folds that one benchmark trained and another one asks for again.

They lie in the working folder of their data, under a name made of everything that they came from:
groups, transitions, shapes and settings. Whoever asks with other data or settings finds nothing.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness_core.features.batch import DecisionGroup, TransitionArrays
from harness_core.learners.checkpoint import load_critic, save_critic
from harness_core.learners.config import TrainConfig
from harness_core.learners.networks import NetworkSpec
from harness_core.learners.trainer import Fitted

FOLDER: Final = ".harness/fold_models"


def model_key(
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    spec: NetworkSpec,
    config: TrainConfig,
) -> str:
    """sha256 of all that a training of folds depends on."""
    digest = hashlib.sha256()
    for part in (spec.model_dump_json(), config.model_dump_json()):
        digest.update(part.encode())
    for item in (*groups, arrays):
        for value in _values(item):
            if isinstance(value, np.ndarray):
                digest.update(f"{value.dtype.str}{value.shape}".encode())
                digest.update(np.ascontiguousarray(value).tobytes())
            else:
                digest.update(f"{value!r}\n".encode())
    return digest.hexdigest()


def keep_models(root: Path, key: str, fitted: Sequence[Fitted]) -> None:
    """Write the models of all folds below a working folder; checks are not kept."""
    for fold, one in enumerate(fitted):
        save_critic(root / FOLDER / key / str(fold), one.network, one.trees, one.linear)


def kept_models(root: Path, key: str, *, n_folds: int) -> tuple[Fitted, ...] | None:
    """The models of all folds, or None where one is missing."""
    folders = [root / FOLDER / key / str(fold) for fold in range(n_folds)]
    if not all(folder.is_dir() for folder in folders):
        return None
    return tuple(map(_read, folders))


def _read(folder: Path) -> Fitted:
    critic = load_critic(folder)
    return Fitted(
        network=critic.network,
        checks=(),
        kept_at={},
        trees=critic.trees,
        linear=critic.linear,
    )


def _values(item: Any) -> Iterator[Any]:
    """Field by field, those of parts too; what is only remembered is no field."""
    for each in fields(item):
        value = getattr(item, each.name)
        if is_dataclass(value):
            yield from _values(value)
        else:
            yield value
