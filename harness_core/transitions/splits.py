"""Which part of the data a task belongs to: a function of its id and its near-duplicates.

The place of a task is a salted hash of its canonical id, the same in every source and every run:
adding logs moves no task. Tasks whose descriptions are nearly the same form a cluster, and the
cluster stands where its smallest hash stands, so that nothing is tested that was trained on.
"""

import hashlib
import logging
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from datasketch import MinHash, MinHashLSH

from harness_core.errors import NoDataError
from harness_core.importers.tasks import problem_of
from harness_core.trajectories.vocabulary import Split
from harness_core.transitions.config import SplitConfig

_LOG: Final = logging.getLogger("harness")
_N_PERMUTATIONS: Final = 128
_MARGIN: Final = 0.15
"""The sketch is asked for pairs this much less similar, since it may miss pairs near its bound."""
_SHINGLE_WORDS: Final = 3
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_N_SPLITS: Final = 3


class Assignment(NamedTuple):
    """Where a task stands; `fold` is −1 in the frozen test slice."""

    split: Split
    fold: int


def assign_splits(
    descriptions: Mapping[str, Iterable[str]], config: SplitConfig
) -> dict[str, Assignment]:
    """The place of every task, from the descriptions that the sources give of it.

    Variants of one problem stand in one place, as if they were one task.

    Raises:
        NoDataError: there are fewer tasks than splits.
    """
    problems: dict[str, list[str]] = defaultdict(list)
    for task in sorted(descriptions):
        problems[problem_of(task)].extend(descriptions[task])
    if len(problems) < _N_SPLITS:
        raise NoDataError(
            f"{len(problems)} task(s) cannot make {_N_SPLITS} splits; add logs of more tasks"
        )
    clusters = cluster_tasks(problems, config)
    if len(set(clusters.values())) < _N_SPLITS:
        _LOG.info("nearly all tasks are described alike: they are divided by id alone")
        clusters = {problem: problem for problem in problems}
    roots = sorted(set(clusters.values()))
    splits = _splits_of(roots, config)
    folds = _folds_of([root for root in roots if splits[root] is not Split.TEST], config)
    places = {task: clusters[problem_of(task)] for task in sorted(descriptions)}
    return {task: Assignment(splits[root], folds.get(root, -1)) for task, root in places.items()}


def cluster_tasks(descriptions: Mapping[str, Iterable[str]], config: SplitConfig) -> dict[str, str]:
    """Each task's cluster, named by its member of the smallest hash."""
    holders: dict[frozenset[str], list[str]] = defaultdict(list)
    for task in sorted(descriptions):
        for shingles in sorted({_shingles(text) for text in descriptions[task]}, key=sorted):
            if shingles:
                holders[shingles].append(task)
    pairs = [
        *((tasks[0], other) for tasks in holders.values() for other in tasks[1:]),
        *(
            (holders[one][0], holders[two][0])
            for one, two in _similar_pairs(list(holders), config.near_duplicate_similarity)
        ),
    ]
    return _components(sorted(descriptions), pairs, config)


def _shingles(text: str) -> frozenset[str]:
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    if not words:
        return frozenset()
    last = max(1, len(words) - _SHINGLE_WORDS + 1)
    return frozenset(" ".join(words[place : place + _SHINGLE_WORDS]) for place in range(last))


def _similar_pairs(
    sets: Sequence[frozenset[str]], similarity: float
) -> Iterable[tuple[frozenset[str], frozenset[str]]]:
    """Pairs whose Jaccard similarity reaches the bound: sketched first, then counted exactly."""
    index = MinHashLSH(threshold=max(0.05, similarity - _MARGIN), num_perm=_N_PERMUTATIONS)
    for number, shingles in enumerate(sets):
        sketch = MinHash(num_perm=_N_PERMUTATIONS, seed=1)
        sketch.update_batch([shingle.encode() for shingle in sorted(shingles)])
        for other in sorted(index.query(sketch)):
            common = len(shingles & sets[other])
            if common >= similarity * len(shingles | sets[other]):
                yield sets[other], shingles
        index.insert(number, sketch)


def _components(
    tasks: Sequence[str], pairs: Iterable[tuple[str, str]], config: SplitConfig
) -> dict[str, str]:
    """Connected tasks (union-find), named by the member of the smallest hash."""
    parent = {task: task for task in tasks}

    def root_of(task: str) -> str:
        while parent[task] != task:
            parent[task] = parent[parent[task]]
            task = parent[task]
        return task

    for pair in pairs:
        # The smaller hash stays the root.
        first, second = sorted(map(root_of, pair), key=lambda task: _place(task, config))
        parent[second] = first
    return {task: root_of(task) for task in tasks}


def _place(task: str, config: SplitConfig, *, purpose: str = "split") -> tuple[float, str]:
    """A point in [0, 1) for a task, the id behind it so that no two are equal."""
    digest = hashlib.sha256(f"{config.salt}:{purpose}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64, task


def _splits_of(roots: Sequence[str], config: SplitConfig) -> dict[str, Split]:
    ordered = sorted(roots, key=lambda root: _place(root, config))
    points = np.array([_place(root, config)[0] for root in ordered])
    n_test = int(np.searchsorted(points, config.test_share))
    n_held = int(np.searchsorted(points, config.test_share + config.validation_share))
    # Few tasks may leave a split empty; then the next in the order of hashes fill it.
    n_test = min(max(n_test, int(config.test_share > 0)), len(roots) - 2)
    n_held = min(max(n_held, n_test + 1), len(roots) - 1)
    return {
        root: Split.TEST if rank < n_test else Split.VALIDATION if rank < n_held else Split.TRAIN
        for rank, root in enumerate(ordered)
    }


def _folds_of(roots: Sequence[str], config: SplitConfig) -> dict[str, int]:
    folds = {root: int(_place(root, config, purpose="fold")[0] * config.n_folds) for root in roots}
    if len(set(folds.values())) == config.n_folds:
        return folds
    # Few tasks: deal them out instead, so that as many folds as can be hold one.
    ordered = sorted(roots, key=lambda root: _place(root, config, purpose="fold"))
    return {root: rank % config.n_folds for rank, root in enumerate(ordered)}
