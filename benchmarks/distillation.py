"""What a student without a transformer loses beside its teacher, on real logs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import describe_machine
from benchmarks.selection.packs import PACKS, packs_folder, prepare_pack
from harness_core.errors import ParameterError
from harness_core.stages import distil
from harness_core.stages.dag import Workspace
from harness_core.stages.execute import execute

_SHOWN: Final = ("overall", "headline", "within_task_auc", "likeness", "kept")


def distil_packs(
    root: Path, packs: Sequence[str], *, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Train a teacher on each pack, distil it, and judge both on tasks that neither saw.

    Args:
        root: where working folders are made; what is there already is not made again.
        packs: names of packs.
        overrides: `section.key=value` on top of the shipped parameters.

    Raises:
        NoDataError: a pack is not there.
        ParameterError: a pack is unknown.
    """
    unknown = [name for name in packs if name not in PACKS]
    if unknown:
        raise ParameterError(f"no pack {unknown[0]}; there are {', '.join(PACKS)}")
    found: dict[str, Any] = {}
    for name in packs:
        params = prepare_pack(name, PACKS[name], root, packs_folder(), overrides).params
        workspace = Workspace(root / name, shared_cache=root / ".cache")
        for stage in ("audit", "train"):
            execute(stage, params, workspace)
        result = distil.run(params, workspace, register=False)
        found[name] = {
            "transformer": [
                column
                for column, choice in result["teacher"]["encoders"].items()
                if choice != "hashed"
            ],
            **{key: result[key] for key in _SHOWN},
        }
    return {"packs": found, "machine": describe_machine()}
