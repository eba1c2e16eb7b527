"""The choice of guidance: only where a gain is reliable, logged, and bound to its model folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.guidance import (
    ARRAYS,
    LIBRARY_FILE,
    GuidanceChooser,
    GuidanceReason,
    load_guidance,
    save_guidance,
)
from harness_core.controller.manifest import file_digests, read_manifest, write_manifest
from harness_core.errors import FeatureSchemaMismatch, ModelError
from harness_core.learners.guidance import GainModel
from harness_core.stages.dag import CANDIDATE_MODEL
from harness_core.trajectories.guidance_library import load_library
from tests.stages.small_run import finished_run

STATE = {"description": "How many singers are there?", "language": "sql"}
LATER = {
    **STATE,
    "history": [{"kind": "code", "text": "SELECT 1", "result": "error: no such table"}],
}
LIBRARY = """
version: 1
templates:
  - {id: early, when: first_attempt, text: Take your time.}
  - {id: always, text: Read the task twice.}
  - {id: unknown, text: Nobody ever drew this.}
"""
TEMPLATES = ("always", "early", "gone")


def gain_model(means: dict[str, float], *, spread: float = 0.0) -> GainModel:
    """Gains that do not depend on the state; resampled ones lie evenly around them."""
    weights = np.zeros((len(TEMPLATES), 2), dtype=np.float32)
    weights[:, 0] = [means.get(name, 0.0) for name in TEMPLATES]
    resampled = np.repeat(weights[None], 11, axis=0)
    resampled[:, :, 0] += np.linspace(-spread, spread, 11)[:, None]
    one = np.ones(1, dtype=np.float32)
    return GainModel(
        templates=TEMPLATES,
        columns=("agent_prior",),
        centre=0 * one,
        scale=one,
        weights=weights,
        resampled=resampled,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, params) -> Path:
    return finished_run(tmp_path_factory.mktemp("guidance"), params).path(CANDIDATE_MODEL)


@pytest.fixture
def guided(folder: Path, tmp_path: Path):
    """A controller with given gains."""
    library = tmp_path / "library.yaml"
    library.write_text(LIBRARY)

    def build(means: dict[str, float], *, spread: float = 0.0, **settings: Any) -> Controller:
        plain = Controller.load(folder)
        config = ControllerConfig(**{**plain.manifest.controller.model_dump(), **settings})
        chooser = GuidanceChooser.of(
            load_library(library),
            gain_model(means, spread=spread),
            plain._pipeline.schema.state,
        )
        return Controller(
            manifest=plain.manifest.model_copy(update={"controller": config}),
            critic=plain._critic,
            pipeline=plain._pipeline,
            guidance=chooser,
        )

    return build


def test_a_model_that_learnt_nothing_of_guidance_gives_none(folder: Path) -> None:
    choice = Controller.load(folder).guide(STATE)
    assert choice.template_id is None
    assert choice.text == ""
    assert choice.reason is GuidanceReason.NOT_LEARNT
    assert choice.propensity == 1.0


def test_the_largest_reliable_gain_is_chosen_with_its_text(guided) -> None:
    choice = guided({"early": 0.2, "always": 0.1}).guide(STATE)
    assert choice.template_id == "early"
    assert choice.text == "Take your time."
    assert choice.reason is GuidanceReason.BEST_GAIN
    assert choice.expected_gain == pytest.approx(0.2)
    assert [item.template_id for item in choice.considered] == ["early", "always"]


def test_a_gain_that_is_not_reliable_is_no_reason_to_speak(guided) -> None:
    choice = guided({"early": 0.2, "always": 0.1}, spread=0.5).guide(STATE)
    assert choice.template_id is None
    assert choice.expected_gain == 0.0
    assert choice.reason is GuidanceReason.NO_RELIABLE_GAIN
    best = choice.considered[0]
    assert best.low < 0 < best.value < best.high
    assert best.sureness < 0.8


def test_a_loss_is_never_chosen(guided) -> None:
    assert guided({"early": -0.1, "always": -0.2}).guide(STATE).template_id is None


def test_only_what_is_legal_in_the_state_and_was_learnt_about_is_considered(guided) -> None:
    choice = guided({"early": 0.2, "always": 0.1, "gone": 0.9}).guide(LATER)
    assert choice.template_id == "always"
    assert [item.template_id for item in choice.considered] == ["always"]


def test_exploration_is_logged_with_its_probability(guided) -> None:
    controller = guided({"early": 0.2, "always": 0.1}, exploration=0.3)
    choices = [controller.guide(STATE, rng=np.random.default_rng(seed)) for seed in range(60)]
    by_name = {choice.template_id: choice for choice in choices}
    assert set(by_name) == {"early", "always", None}
    assert by_name["early"].propensity == pytest.approx(0.8)
    assert by_name["early"].reason is GuidanceReason.BEST_GAIN
    assert by_name["always"].propensity == pytest.approx(0.1)
    assert by_name[None].reason is GuidanceReason.EXPLORATION
    share = sum(choice.template_id == "early" for choice in choices) / len(choices)
    assert share == pytest.approx(0.8, abs=0.15)


def test_a_state_without_a_legal_template_is_left_alone(guided, tmp_path: Path) -> None:
    (tmp_path / "library.yaml").write_text(
        "version: 1\ntemplates: [{id: early, when: first_attempt, text: x}]"
    )
    choice = guided({"early": 0.2}).guide(LATER)
    assert choice.template_id is None
    assert choice.reason is GuidanceReason.NONE_LEGAL


def test_what_is_saved_is_read_back_and_bound_to_the_manifest(folder: Path, tmp_path: Path) -> None:
    model, library = tmp_path / "model", tmp_path / "library.yaml"
    library.write_text(LIBRARY)
    model.mkdir()
    for item in folder.rglob("*"):
        if item.is_file():
            copy = model / item.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(item.read_bytes())
    save_guidance(model, library, gain_model({"always": 0.25}))
    with pytest.raises(ModelError, match="guidance"):
        Controller.load(model)  # nobody signed for these files
    manifest = read_manifest(folder)
    write_manifest(model, manifest.model_copy(update={"files": file_digests(model)}))
    choice = Controller.load(model).guide(STATE)
    assert choice.template_id == "always"
    assert choice.expected_gain == pytest.approx(0.25)
    (model / LIBRARY_FILE).write_text(LIBRARY.replace("twice", "once"))
    with pytest.raises(ModelError, match=LIBRARY_FILE):
        Controller.load(model)


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "library.yaml"
    library.write_text(LIBRARY)
    save_guidance(tmp_path, library, gain_model({}))
    assert load_guidance(tmp_path, ("agent_prior", "task.0")) is not None
    with pytest.raises(FeatureSchemaMismatch, match="agent_prior"):
        load_guidance(tmp_path, ("task.0",))
    (tmp_path / ARRAYS).write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no usable guidance"):
        load_guidance(tmp_path, ("agent_prior",))
