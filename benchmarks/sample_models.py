"""Models trained on the sample logs for a benchmark, by the stages of the flywheel."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from harness_core.params import load_params
from harness_core.stages.dag import CANDIDATE_MODEL, STAGES
from harness_core.stages.execute import execute
from harness_core.stages.project import PARAMS, prepare_project

_LOG: Final = logging.getLogger("harness")
_LAST: Final = "train"

_FEW_UPDATES: Final = "train.max_updates=50"
"""Weights decide what is chosen, not how long it takes."""

VARIANTS: Final[Mapping[str, Sequence[str]]] = {
    "shipped": (),
    "transformer": ("features.encode_code=true", _FEW_UPDATES),
    "hashed": ("features.encoder.name=hashed", _FEW_UPDATES),
}
"""Overrides of the parameters, by what texts go through."""


def train_models(
    root: Path, variants: Mapping[str, Sequence[str]], overrides: Sequence[str] = ()
) -> list[Path]:
    """One model folder a variant, in their order; what variants share is computed once.

    Args:
        root: a working folder; with the shipped parameters where it is new.
        variants: overrides of the parameters by the name of the variant.
        overrides: those of all variants.
    """
    workspace = prepare_project(root)
    folders = []
    for name, changes in variants.items():
        _LOG.info("benchmark: a model of the sample logs: %s", name)
        params = load_params(workspace.path(PARAMS), [*overrides, *changes])
        for stage in (*takewhile(lambda stage: stage != _LAST, STAGES), _LAST):
            execute(stage, params, workspace)
        folder = workspace.root / "models" / name
        shutil.copytree(workspace.path(CANDIDATE_MODEL), folder, dirs_exist_ok=True)
        folders.append(folder)
    return folders
