"""What `train` does with guidance: nothing where there is none, else a model a fold."""

from pathlib import Path

import pytest

from harness_core.controller.guidance import DOCUMENT, LIBRARY_FILE, load_guidance
from harness_core.errors import ParameterError
from harness_core.stages import train_guidance as stage
from harness_core.stages.dag import GUIDANCE, STEPS, Workspace
from harness_core.stages.project import shipped
from tests.learners.test_guidance import NAMES, draw


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.path(STEPS).parent.mkdir(parents=True)
    workspace.path(STEPS).touch()
    workspace.path(GUIDANCE).write_bytes(shipped(GUIDANCE))
    # Reading tables has its own tests; here only what is done with the steps counts.
    monkeypatch.setattr(stage, "load_guided_steps", lambda _: draw())
    return workspace


def test_folders_get_the_model_and_the_file_it_belongs_to(workspace: Workspace) -> None:
    learnt = stage.learn_guidance(workspace, NAMES, n_folds=2, seed=0)
    folders = {fold: workspace.path(f"model-{fold}") for fold in (0, 1, None)}
    for fold, folder in folders.items():
        learnt.save(folder, fold=fold)
    # All tasks are of fold 0, so its model learnt from none.
    assert not (folders[0] / DOCUMENT).exists()
    for fold in (1, None):
        assert (folders[fold] / LIBRARY_FILE).read_bytes() == shipped(GUIDANCE)
        chooser = load_guidance(folders[fold], NAMES)
        assert chooser is not None
        assert chooser.model.templates == ("harms", "turns")
    figures = learnt.figures()
    assert figures["n_steps"] == 600
    assert figures["is_learnt"]
    assert figures["inner_worth"] > 0


def test_without_a_guided_step_nothing_is_learnt(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = draw()
    monkeypatch.setattr(stage, "load_guided_steps", lambda _: steps.take(steps.template == "x"))
    workspace.path(GUIDANCE).unlink()  # it is not asked for either
    learnt = stage.learn_guidance(workspace, NAMES, n_folds=2, seed=0)
    assert learnt.figures() == {}
    learnt.save(workspace.root, fold=None)
    assert not workspace.path(DOCUMENT).exists()
    assert stage.learn_guidance(Workspace(workspace.root / "no"), NAMES, n_folds=2, seed=0) == (
        stage.LearntGuidance(library=workspace.root / "no" / GUIDANCE)
    )


def test_templates_that_cannot_be_used_are_refused(workspace: Workspace) -> None:
    workspace.path(GUIDANCE).write_text("version: 1\ntemplates: [{id: a}]\n")
    with pytest.raises(ParameterError, match=r"guidance\.yaml: line 2: templates.0.text"):
        stage.learn_guidance(workspace, NAMES, n_folds=2, seed=0)
