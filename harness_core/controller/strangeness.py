"""How far a state lies from what a model has learnt from, as a share of calibration states.

A state is compared by its task, as the encoder sees it before any projection, and by its counts
(`numeric.*` columns, which the pipeline has standardised). The projected text is of no use here: it
was fitted on development tasks, so that a foreign text lies near its centre, next to everything.
The squared distance of two states is 2 − 2 cos(tasks) plus the mean squared difference of the
counts, and what counts of a state is its distance to the nearest reference state.

Calibration is by cross-conformal prediction (Vovk, 2015): every reference state is measured against
those of the other folds, and a new state against the same ones. Tasks weigh alike, however many
states they have.

Letters: M reference states, W width of a text vector, N number of counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from harness_core.errors import ModelError
from harness_core.features.batch import Floats, Integers
from harness_core.tables import publish_bytes

FILE: Final = "known_states.safetensors"
"""The file of a model folder; models made before there was one lack it."""
MAX_STATES: Final = 512

_COUNTS: Final = "numeric."
_NAMES: Final = ("task", "counts", "fold", "weight", "distance", "places")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStates:
    """Reference states, and how far each lies from those of the other folds."""

    task: Floats  # [M, W] unit vectors, zero for an empty text; all values are halves
    counts: Floats  # [M, N] divided by √N
    fold: Integers  # [M]
    weight: Floats  # [M] 1 / states of its task
    distance: Floats  # [M]
    places: Integers  # [N] of the counts in a state vector

    @classmethod
    def fit(
        cls,
        states: Floats,
        task_vectors: Floats,
        *,
        columns: Sequence[str],
        fold: Integers,
        task_number: Integers,
        seed: int,
    ) -> Self | None:
        """Choose at most `MAX_STATES` of the states of development tasks, of all tasks alike.

        Args:
            states: state vectors [N, Ds].
            task_vectors: encoded text of each task [T, W].
            columns: names of the Ds columns.
            fold: of each state [N].
            task_number: row of its task in `task_vectors`, [N].
            seed: of the choice.

        Returns None where there are states of fewer than two folds.
        """
        rows = _choose(task_number, seed=seed)
        places = places_of(columns)
        fold = fold[rows]
        if len(np.unique(fold)) < 2:  # noqa: PLR2004  # a fold needs another one
            return None
        task = _halves(_unit(task_vectors)[task_number[rows]])
        counts = _halves(_counts(states[rows], places))
        _, inverse, sizes = np.unique(task_number[rows], return_inverse=True, return_counts=True)
        distance = np.zeros(len(rows), dtype=np.float32)
        for one in np.unique(fold):
            own, other = fold == one, fold != one
            far = _squared(task[own], counts[own], task[other], counts[other])
            distance[own] = np.sqrt(far.min(axis=1))
        return cls(
            task=task,
            counts=counts,
            fold=fold.astype(np.int64),
            weight=(1.0 / sizes[inverse]).astype(np.float32),
            distance=distance,
            places=places,
        )

    def strangeness(self, state: Floats, task_vector: Floats) -> float:
        """Share of calibration states that are at least as near as this one, in [0, 1].

        Args:
            state: one state vector [Ds].
            task_vector: encoded text of its task [W].
        """
        task = _halves(_unit(task_vector[None, :]))
        counts = _halves(_counts(state[None, :], self.places))
        squared = _squared(task, counts, self.task, self.counts)[0]
        at_least_as_near = 0.0
        for one in np.unique(self.fold):
            own = self.fold == one
            distance = np.sqrt(squared[~own].min())
            at_least_as_near += float(self.weight[own][self.distance[own] <= distance].sum())
        return min(at_least_as_near / float(self.weight.sum()), 1.0)

    def save(self, folder: Path) -> None:
        """Write the file of a model folder."""
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _NAMES}
        arrays |= {name: arrays[name].astype(np.float16) for name in ("task", "counts")}
        publish_bytes(folder / FILE, safetensors.numpy.save(arrays))

    @classmethod
    def load(cls, folder: Path, *, width: int) -> Self | None:
        """Read what `save` wrote; None where the model has no such file.

        Args:
            folder: of the model.
            width: of its state vectors.

        Raises:
            ModelError: the file is damaged, or for other states.
        """
        path = folder / FILE
        if not path.exists():
            return None
        try:
            arrays = safetensors.numpy.load(path.read_bytes())
            arrays |= {name: arrays[name].astype(np.float32) for name in ("task", "counts")}
            known = cls(**{name: arrays[name] for name in _NAMES})
        except (OSError, SafetensorError, KeyError) as error:
            raise ModelError(f"{path} cannot be used: {error}") from error
        if len(known.places) and int(known.places.max()) >= width:
            raise ModelError(f"{path} is for states of another width than {width}")
        return known


def places_of(columns: Sequence[str]) -> Integers:
    """Places of the counts among the columns of a state."""
    found = [place for place, name in enumerate(columns) if name.startswith(_COUNTS)]
    return np.array(found, dtype=np.int64)


def _choose(task_number: Integers, *, seed: int) -> Integers:
    """Rows of the chosen states, ascending."""
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.unique(task_number))[:MAX_STATES]
    if not len(tasks):
        return np.zeros(0, dtype=np.int64)
    share = max(1, MAX_STATES // len(tasks))
    chosen = [rng.permutation(np.flatnonzero(task_number == task))[:share] for task in tasks]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _counts(states: Floats, places: Integers) -> Floats:
    return np.asarray(states[:, places] / np.sqrt(max(len(places), 1)), dtype=np.float32)


def _halves(vectors: Floats) -> Floats:
    """Rounded to what is stored, so that a stored state is at distance 0 from itself."""
    return vectors.astype(np.float16).astype(np.float32)


def _squared(task: Floats, counts: Floats, tasks: Floats, others: Floats) -> Floats:
    """Squared distances [A, M]; a task without text is as far from all as from none like it."""
    apart = (counts * counts).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    apart = apart - 2.0 * (counts @ others.T)
    return np.asarray(
        np.maximum(2.0 - 2.0 * (task @ tasks.T) + np.maximum(apart, 0.0), 0.0), dtype=np.float32
    )
