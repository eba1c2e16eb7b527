"""What `harness bench selection` prints: a table a pack, and what mixing packs does."""

import hashlib
import logging
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from benchmarks.machine import describe_machine
from benchmarks.orphans import end_with
from benchmarks.selection.ablations import ABLATIONS
from benchmarks.selection.methods import METHODS
from benchmarks.selection.mixing import mixing_table, prepare_together
from benchmarks.selection.packs import (
    NO_PROGRAMS,
    PACKS,
    chosen_packs,
    packs_folder,
    prepare_pack,
)
from benchmarks.selection.tables import pack_table
from harness_core.commands.log import log_to_stderr
from harness_core.errors import ParameterError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.tables import tree_digest

_LOG: Final = logging.getLogger("harness")
_N_DIGEST: Final = 12
_BESIDE: Final = 2
_BOOTSTRAP: Final = Bootstrap(n_resamples=2000, confidence=0.95, seed=0)


def compare_selection(
    root: Path,
    *,
    names: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    ablations: Sequence[str] | None = None,
    mixed: Sequence[str] = (),
    n_subsets: int = 20,
    n_jobs: int = 1,
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Prepare packs below `root`, fit every method and judge all on held-out tasks.

    Args:
        root: where working folders are made; what is there already is not made again.
        names: packs; those of the bounded run by default.
        methods: all by default.
        ablations: of our controller on each pack; none by default.
        mixed: packs that are also learnt together.
        n_subsets: random sets of K candidates of each task.
        n_jobs: packs side by side; still only one at a time runs programs.
        seed: of all that is drawn.
        overrides: `section.key=value` on top of the shipped parameters.

    Raises:
        NoDataError: a pack is not there.
        ParameterError: a method or an ablation is unknown.
    """
    wanted = _known(methods, METHODS)
    studies = _known(ablations or [], ABLATIONS)
    packs = packs_folder()
    specs = chosen_packs(names)
    job = partial(
        _judged,
        root=root,
        packs=packs,
        methods=wanted,
        studies=studies,
        n_subsets=n_subsets,
        seed=seed,
        overrides=tuple(overrides),
    )
    mixing = partial(
        _mixed,
        root=root,
        packs=packs,
        mixed=tuple(mixed),
        n_subsets=n_subsets,
        seed=seed,
        overrides=tuple(overrides),
    )
    before, after = _order(specs, mixed)
    begin = partial(_begin_worker, os.getpid(), quiet=not _LOG.isEnabledFor(logging.INFO))
    with ProcessPoolExecutor(n_jobs, get_context("spawn"), begin) as pool:
        jobs = {name: pool.submit(job, name) for name in before}
        together = pool.submit(mixing) if mixed else None
        jobs |= {name: pool.submit(job, name) for name in after}
        found = {name: jobs[name].result() for name in specs}
        mixture = None if together is None else together.result()
    digests = {
        name: _digest([packs / source.path for source in spec.sources])
        for name, spec in specs.items()
    }
    tables = {name: table for name, (table, _) in found.items()}
    studied = {name: rows for name, (_, rows) in found.items() if rows}
    return {
        "packs": tables,
        "ablations": studied,
        "mixing": mixture,
        "data": digests,
        "n_subsets": n_subsets,
        "seed": seed,
        "machine": describe_machine(),
    }


def _begin_worker(parent: int, *, quiet: bool) -> None:
    log_to_stderr(quiet=quiet)
    end_with(parent)


def _order(names: Collection[str], mixed: Collection[str]) -> tuple[list[str], list[str]]:
    """Packs to judge before those that are learnt together, and after.

    Each goes to whoever is free, the largest not last. Beside one whose programs have to be run
    there is time for two others. What is learnt together comes after what it is made of, whose
    programs were run then.
    """
    slow = [name for name in names if name not in NO_PROGRAMS]
    slow.sort(key=lambda name: name not in mixed)
    quick = [name for name in names if name in NO_PROGRAMS]
    order: list[str] = []
    while slow or quick:
        order += [*slow[:1], *quick[:_BESIDE]]
        del slow[:1], quick[:_BESIDE]
    n_before = max((order.index(name) + 1 for name in mixed if name in order), default=0) + _BESIDE
    return order[:n_before], order[n_before:]


def _judged(
    name: str,
    *,
    root: Path,
    packs: Path,
    methods: Sequence[str],
    studies: Sequence[str],
    n_subsets: int,
    seed: int,
    overrides: Sequence[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table of one pack, and its ablations; runs in a process of its own."""
    spec = PACKS[name]
    root.mkdir(parents=True, exist_ok=True)
    # Programs have limits of wall time too: only one pack at a time runs any.
    with nullcontext() if name in NO_PROGRAMS else FileLock(root / ".prepare.lock"):
        pack = prepare_pack(name, spec, root, packs, overrides)
    table = pack_table(
        pack, spec, methods=methods, n_subsets=n_subsets, bootstrap=_BOOTSTRAP, seed=seed
    )
    rows = {
        study: ABLATIONS[study](pack, n_subsets=n_subsets, bootstrap=_BOOTSTRAP, seed=seed)
        for study in (studies if spec.is_studied else ())
    }
    return table, rows


def _mixed(
    *,
    root: Path,
    packs: Path,
    mixed: Sequence[str],
    n_subsets: int,
    seed: int,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """What learning from several packs together does; runs in a process of its own."""
    root.mkdir(parents=True, exist_ok=True)
    specs = chosen_packs(mixed)
    with FileLock(root / ".prepare.lock"):
        pack = prepare_together(specs, root, packs, overrides)
    return mixing_table(pack, n_subsets=n_subsets, bootstrap=_BOOTSTRAP, seed=seed)


def _known(names: Sequence[str] | None, registry: Any) -> list[str]:
    wanted = list(registry) if names is None else list(names)
    unknown = [name for name in wanted if name not in registry]
    if unknown:
        raise ParameterError(f"no {unknown[0]}; there are {', '.join(registry)}")
    return wanted


def _digest(paths: Sequence[Path]) -> str:
    """Of the files of a pack, so that figures can be traced to them."""
    digests = [tree_digest(path) for path in paths]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:_N_DIGEST]
