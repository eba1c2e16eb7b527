"""What `harness bench choices` prints: ways to train that are off by default, beside the default.

Curriculum, old logs at a set share beside new ones, and a fine-tuned encoder, each on the packs
that have something for it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks.machine import describe_machine
from benchmarks.selection.ablations_training import ABLATIONS
from benchmarks.selection.arms import Material
from benchmarks.selection.packs import PACKS, packs_folder, prepare_pack
from harness_core.errors import ParameterError
from harness_core.stages.dag import Workspace

STUDIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"curriculum": ("ldb",), "old_and_new": ("ldb",), "finetuning": ("tau_bench",)}
)
"""Packs of each study where none are named: `ldb` has families that differ in number, and only
where texts are few can an encoder learn in minutes on a processor."""


def compare_choices(
    root: Path,
    *,
    studies: Sequence[str] = (),
    packs: Sequence[str] = (),
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Rows of every study by pack; the first row is the default.

    Args:
        root: where working folders are made; what is there already is not made again.
        studies: all by default.
        packs: for every study, instead of those of `STUDIES`.
        seed: of all that is drawn.
        overrides: `section.key=value` on top of the shipped parameters.

    Raises:
        NoDataError: a pack is not there.
        ParameterError: a study or a pack is unknown.
    """
    found: dict[str, dict[str, Any]] = {}
    materials: dict[str, Material] = {}
    for study in _known(studies or STUDIES, STUDIES):
        for name in _known(packs or STUDIES[study], PACKS):
            if name not in materials:
                pack = prepare_pack(name, PACKS[name], root, packs_folder(), overrides)
                workspace = Workspace(root / name, shared_cache=root / ".cache")
                materials[name] = Material(pack=pack, workspace=workspace)
            found.setdefault(study, {})[name] = ABLATIONS[study](materials[name], seed)
    return {"studies": found, "seed": seed, "machine": describe_machine()}


def _known(names: Sequence[str] | Mapping[str, Any], registry: Mapping[str, Any]) -> list[str]:
    unknown = [name for name in names if name not in registry]
    if unknown:
        raise ParameterError(f"no {unknown[0]}; there are {', '.join(registry)}")
    return list(names)
