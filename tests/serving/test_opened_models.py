import shutil
from pathlib import Path

import pytest

from harness_core.commands.opened_models import OpenedModels
from harness_core.controller.manifest import read_manifest, write_manifest
from harness_core.serving.selector import Located
from harness_core.stages.dag import CANDIDATE_MODEL, Workspace
from tests.stages.small_run import finished_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, params) -> Workspace:
    return finished_run(tmp_path_factory.mktemp("run"), params)


@pytest.mark.parametrize(("ran", "is_warned"), [(True, True), (False, False), (None, False)])
def test_a_model_that_learnt_from_programs_says_that_none_are_run(
    made: Workspace,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    ran: bool | None,
    is_warned: bool,
):
    folder = tmp_path / "model"
    shutil.copytree(made.path(CANDIDATE_MODEL), folder)
    write_manifest(folder, read_manifest(folder).model_copy(update={"ran_programs": ran}))
    opened = OpenedModels(made, run_programs=False).open_folder(Located("7", folder))
    opened.close()
    assert ("start with --run-programs" in caplog.text) is is_warned
