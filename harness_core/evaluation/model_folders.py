"""Trained models from their folders, as evaluation uses them."""

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from harness_core.controller.combination import Combination
from harness_core.controller.manifest import read_manifest
from harness_core.errors import ModelError
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.learners.checkpoint import load_critic

COMBINATION_FILE: Final = "combination.json"


def load_model(folder: Path) -> Model:
    """A complete model folder: networks and the combination of its manifest."""
    return Model(critic=load_critic(folder), combination=read_manifest(folder).combination)


def load_cross_fit(candidate: Path, folds: Path) -> CrossFit:
    """The final model in `candidate` and one model a numbered folder of `folds`.

    Raises:
        ModelError: a folder is incomplete, or there is no fold model at all.
    """
    numbered = sorted(path for path in folds.glob("*") if path.is_dir() and path.name.isdecimal())
    if not numbered:
        # The final model has seen every development task: it must not judge them.
        raise ModelError(f"{folds} holds no fold models; run the train stage again")
    return CrossFit(
        final=load_model(candidate),
        folds={int(path.name): _fold_model(path) for path in numbered},
        k_max=read_manifest(candidate).k_max,
    )


def _fold_model(folder: Path) -> Model:
    path = folder / COMBINATION_FILE
    try:
        combination = Combination.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; run the train stage again") from error
    except ValidationError as error:
        raise ModelError(f"{path} is no combination: {error.errors()[0]['msg']}") from error
    return Model(critic=load_critic(folder), combination=combination)
