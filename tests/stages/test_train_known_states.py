"""What states a model knows comes from the texts of its development tasks, and of no others."""

import numpy as np
import pytest

from harness_core.controller.controller import Controller
from harness_core.controller.manifest import file_digests, read_manifest, write_manifest
from harness_core.features.load import load_transitions
from harness_core.stages.dag import CANDIDATE_MODEL, TRAJECTORIES, TRANSITIONS, Workspace
from harness_core.stages.train import development
from harness_core.stages.train_known_states import figures_of, learn_known_states
from harness_core.tables import read_table
from harness_core.trajectories.vocabulary import Split
from harness_core.transitions.table import TRANSITIONS as TRANSITIONS_SCHEMA
from tests.stages.small_run import finished_run


@pytest.fixture
def workspace(tmp_path, params) -> Workspace:
    return finished_run(tmp_path, params)


def learn(workspace: Workspace):
    every = load_transitions(workspace)
    table = read_table(workspace.path(TRANSITIONS), TRANSITIONS_SCHEMA, columns=("source",))
    sources = np.array(table.column("source").to_pylist(), dtype=np.str_)
    inside = every.split != Split.TEST
    return learn_known_states(workspace, development(every), sources[inside], seed=0)


def test_a_model_folder_with_known_states_tells_a_foreign_task_from_its_own(workspace):
    known = learn(workspace)
    assert known is not None
    assert figures_of(known)["n_states"] == len(known.distance)
    folder = workspace.path(CANDIDATE_MODEL)
    manifest = read_manifest(folder)
    known.save(folder)
    write_manifest(folder, manifest.model_copy(update={"files": file_digests(folder)}))
    controller = Controller.load(folder)

    def strangeness(description: str) -> float:
        state = {"description": description, "language": "sql"}
        decision = controller.select(state, [{"kind": "code", "text": "SELECT 1"}])
        assert decision.out_of_distribution is not None
        return decision.out_of_distribution

    own = strangeness("sql task 4: do the thing number 4 properly")  # of the frozen slice
    assert own < strangeness("Bitte prüfe, ob der Vertrag kündbar ist.")


def test_without_texts_no_states_are_known(workspace):
    workspace.path(TRAJECTORIES).unlink()
    assert learn(workspace) is None
    assert figures_of(None) == {"n_states": 0}
