"""The real logs of the selection benchmark, and their working folders.

A pack is a source (or several), how its attempts become candidates, and nothing else: everything
from ingestion to features is done by the stages of the flywheel, with the shipped parameters but
for those that are named here. Every task is in a fold: with five folds and no frozen slice, each
task is judged by models that never saw it.
"""

import logging
import os
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.selection.pack import Pack
from harness_core.errors import NoDataError
from harness_core.evaluation.subsets import labelled
from harness_core.features.batch import DecisionGroup
from harness_core.features.load import load_groups, load_transitions, read_schema
from harness_core.features.tuning import judgeable
from harness_core.importers.landing import land
from harness_core.params import Params, load_params
from harness_core.stages.dag import Workspace
from harness_core.stages.execute import execute
from harness_core.stages.project import PARAMS, prepare_project
from harness_core.trajectories.vocabulary import GroupKind

_LOG: Final = logging.getLogger("harness")

PACKS_VARIABLE: Final = "HARNESS_DATA_PACKS"
_DEFAULT_FOLDER: Final = "../shared/data"
_STAGES: Final = ("ingest", "validate", "rewards", "transitions", "features")

EVERYWHERE: Final = ("transitions.split.test_share=0.0",)
"""No frozen slice: 5-fold cross-fitting judges every task."""

_FIRST_ANSWER: Final = "transitions.attempts=first_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Files below the folder of packs, and the importer that reads them."""

    path: str
    importer: str
    only: str = ""
    """Glob pattern of the members of an archive to take; the whole archive without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSpec:
    """What one row of the tables is about."""

    sources: tuple[Source, ...]
    overrides: tuple[str, ...] = ()
    caveat: str = ""
    """What a reader must know about how these attempts ended."""
    running_steps: tuple[int, ...] = ()
    """Steps after which attempts that are still running are told apart."""
    is_studied: bool = False
    """Whether ablations are made on it."""


_HIDDEN_STOP: Final = "attempts stop when a hidden grader is satisfied: complete attempts inflated"


_FIVE_TURNS: Final = "*/max5_*"
"""The other budgets of two sets are five times as many attempts at the same tasks."""


def _mint(name: str) -> Source:
    return Source(path=f"mint/{name}.tar.xz", importer="mint", only=_FIVE_TURNS)


def _intercode(name: str) -> Source:
    return Source(path=f"intercode/{name}", importer="intercode")


PACKS: Final[Mapping[str, PackSpec]] = MappingProxyType(
    {
        "codet": PackSpec(sources=(Source(path="codet", importer="codet"),), is_studied=True),
        "ldb": PackSpec(sources=(Source(path="ldb", importer="ldb"),)),
        "lats": PackSpec(sources=(Source(path="lats", importer="lats"),)),
        "sql": PackSpec(sources=(_intercode("sql"),), overrides=(_FIRST_ANSWER,), is_studied=True),
        "sql_complete": PackSpec(sources=(_intercode("sql"),), caveat=_HIDDEN_STOP),
        "bash": PackSpec(sources=(_intercode("bash"),), overrides=(_FIRST_ANSWER,)),
        "tau_bench": PackSpec(sources=(Source(path="tau_bench", importer="tau_bench"),)),
        "mint_alfworld": PackSpec(
            sources=(_mint("alfworld"),), caveat=_HIDDEN_STOP, running_steps=(1, 2)
        ),
        "mint_gsm8k": PackSpec(sources=(_mint("gsm8k"),), overrides=(_FIRST_ANSWER,)),
        "mint_math": PackSpec(sources=(_mint("math"),), overrides=(_FIRST_ANSWER,)),
        "mint_humaneval": PackSpec(sources=(_mint("humaneval"),), overrides=(_FIRST_ANSWER,)),
        "mint_mbpp": PackSpec(sources=(_mint("mbpp"),), overrides=(_FIRST_ANSWER,)),
        "cruxeval": PackSpec(sources=(Source(path="cruxeval", importer="cruxeval"),)),
        "gsm8k_solutions": PackSpec(
            sources=(Source(path="gsm8k_solutions", importer="gsm8k_solutions"),)
        ),
        "tot": PackSpec(sources=(Source(path="tot", importer="tot"),)),
        "classeval": PackSpec(sources=(Source(path="classeval", importer="classeval"),)),
        "reflexion": PackSpec(sources=(Source(path="reflexion", importer="reflexion"),)),
    }
)


NO_PROGRAMS: Final = frozenset(
    {
        *("sql", "sql_complete", "bash", "tau_bench", "mint_alfworld", "mint_gsm8k", "mint_math"),
        *("cruxeval", "gsm8k_solutions", "tot"),
    }
)
"""Packs whose candidates are not run, so that they may be prepared beside one whose are."""

BOUNDED: Final = tuple(
    name for name in PACKS if name not in {"sql_complete", "mint_humaneval", "mint_mbpp"}
)
"""Packs that are judged unless others are named: an hour of two cores has no room for all."""


def packs_folder() -> Path:
    """Where the packs lie."""
    return Path(os.environ.get(PACKS_VARIABLE, _DEFAULT_FOLDER))


def prepare_pack(
    name: str, spec: PackSpec, root: Path, packs: Path, overrides: Sequence[str] = ()
) -> Pack:
    """Run the stages up to the features in `root/<name>`; what is there already is not done again.

    Raises:
        NoDataError: the pack is not there, or has no attempts with known outcomes.
    """
    workspace = Workspace(
        prepare_project(root / name, with_sample=False).root, shared_cache=root / ".cache"
    )
    landed = tuple(_landed(source, packs, workspace) for source in spec.sources)
    params = load_params(
        workspace.path(PARAMS),
        [f"ingest.sources=[{', '.join(landed)}]", *EVERYWHERE, *spec.overrides, *overrides],
    )
    for stage in _STAGES:
        _LOG.info("benchmark: %s: %s", name, stage)
        execute(stage, params, workspace)
    return load_pack(name, workspace, params)


def load_pack(name: str, workspace: Workspace, params: Params) -> Pack:
    """The pack of a working folder whose features are made."""
    schema = read_schema(workspace)
    groups = tuple(
        group
        for group in judgeable(labelled(load_groups(workspace)), schema)
        if group.kind is GroupKind.ATTEMPT and group.fold >= 0
    )
    if not groups:
        raise NoDataError(f"{workspace.root} has no attempts with known outcomes")
    return Pack(
        name=name,
        groups=groups,
        transitions=load_transitions(workspace),
        schema=schema,
        params=params,
        root=workspace.root,
    )


def chosen_packs(names: Iterable[str] | None) -> dict[str, PackSpec]:
    """The named packs, or those of the bounded run.

    Raises:
        NoDataError: a name is unknown.
    """
    wanted = list(names or BOUNDED)
    unknown = [name for name in wanted if name not in PACKS]
    if unknown:
        raise NoDataError(f"no pack {unknown[0]}; there are {', '.join(PACKS)}")
    return {name: PACKS[name] for name in wanted}


def offers_choice(groups: Iterable[DecisionGroup]) -> list[DecisionGroup]:
    """Groups that hold more than one candidate."""
    return [group for group in groups if group.size > 1]


def _landed(source: Source, packs: Path, workspace: Workspace) -> str:
    path = packs / source.path
    if not path.exists():
        raise NoDataError(f"{path} does not exist; name the folder of packs in ${PACKS_VARIABLE}")
    name = source.path.split(".")[0].replace("/", "-")
    if not source.only:
        return land(path, source.importer, name=name, workspace=workspace)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        with tarfile.open(path) as archive:
            wanted = [item for item in archive if fnmatch(item.name, source.only)]
            archive.extractall(folder, members=wanted, filter="data")
        return land(folder, source.importer, name=name, workspace=workspace)
