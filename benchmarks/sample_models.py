"""Models trained on the sample logs for a benchmark, by the stages of the flywheel."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from harness_core.params import load_params
from harness_core.stages import distil
from harness_core.stages.dag import CANDIDATE_MODEL, STAGES, STUDENT_MODEL
from harness_core.stages.execute import execute
from harness_core.stages.project import PARAMS, prepare_project

_LOG: Final = logging.getLogger("harness")
_LAST: Final = "train"

_FEW: Final = ("sample.n_runs=3", "transitions.split.n_folds=3", "train.max_updates=50")
"""Logs, folds and weights decide what is chosen, not how long it takes."""

VARIANTS: Final[Mapping[str, Sequence[str]]] = {
    "shipped": _FEW,
    "transformer": (*_FEW, "features.encode_code=true"),
}
"""Overrides of the parameters, by what texts go through."""
TAUGHT: Final = ("transformer",)
"""Variants that a student is distilled from."""


def train_models(
    root: Path,
    variants: Mapping[str, Sequence[str]],
    overrides: Sequence[str] = (),
    *,
    taught: Sequence[str] = (),
) -> list[Path]:
    """One model folder a variant and one a student; what variants share is computed once.

    Args:
        root: a working folder; with the shipped parameters where it is new.
        variants: overrides of the parameters by the name of the variant.
        overrides: those of all variants.
        taught: variants that have a student.
    """
    workspace = prepare_project(root)
    folders = []
    for name, changes in variants.items():
        _LOG.info("benchmark: a model of the sample logs: %s", name)
        params = load_params(workspace.path(PARAMS), [*overrides, *changes])
        for stage in (*takewhile(lambda stage: stage != _LAST, STAGES), _LAST):
            execute(stage, params, workspace)
        made = {name: CANDIDATE_MODEL}
        if name in taught:
            distil.run(params, workspace, register=False)
            made[f"student_of_{name}"] = STUDENT_MODEL
        for copy, model in made.items():
            folder = workspace.root / "models" / copy
            shutil.copytree(workspace.path(model), folder, dirs_exist_ok=True)
            folders.append(folder)
    return folders
