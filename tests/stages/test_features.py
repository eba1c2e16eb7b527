import pytest

from harness_core.errors import IsolationUnavailable, NoDataError
from harness_core.features.load import load_groups, load_transitions
from harness_core.features.pipeline import FeaturePipeline
from harness_core.stages import dag, features
from harness_core.tables import tree_digest
from tests.features.world import World, make_config, make_world


def without_programs() -> World:
    world = make_world()
    return World(
        trajectories=tuple(t for t in world.trajectories if t.provenance.source != "code"),
        tasks=tuple(t for t in world.tasks if t.source != "code"),
    )


def test_a_second_run_of_the_stage_encodes_and_changes_nothing(params, tmp_path, caplog):
    workspace = make_world().write(tmp_path)
    first = features.run(make_config(), params.sandbox, workspace)
    digest = tree_digest(workspace.path(dag.FEATURES))
    with caplog.at_level("INFO", logger="harness"):
        second = features.run(make_config(), params.sandbox, workspace)
    assert first.figures["n_programs"] > 0
    assert second == first
    assert "features: 0 texts encoded" in caplog.text
    assert tree_digest(workspace.path(dag.FEATURES)) == digest


def test_what_the_stage_writes_can_be_loaded(params, tmp_path):
    workspace = without_programs().write(tmp_path)
    report = features.run(make_config(), params.sandbox, workspace)
    pipeline = FeaturePipeline.load(workspace.path(dag.FEATURES) / "pipeline")
    groups = load_groups(workspace)
    transitions = load_transitions(workspace)
    widths = report.figures["widths"]
    assert {group.after.shape[1] for group in groups} == {widths["state"]}
    assert transitions.action.shape[1] == widths["action"] + widths["set_relative"]
    assert pipeline.schema.fingerprint == report.figures["fingerprint"]


def test_programs_are_not_run_without_isolation(params, tmp_path, monkeypatch):
    def refuse(_: object) -> None:
        raise IsolationUnavailable("no box on this machine")

    monkeypatch.setattr(features, "open_sandbox", refuse)
    workspace = make_world().write(tmp_path / "programs")
    with pytest.raises(IsolationUnavailable):
        features.run(make_config(), params.sandbox, workspace)
    assert not workspace.path(dag.FEATURES).exists()
    other = without_programs().write(tmp_path / "queries")
    assert features.run(make_config(), params.sandbox, other).figures["n_programs"] == 0


def test_a_missing_table_is_named(params, tmp_path):
    with pytest.raises(NoDataError, match="trajectories"):
        features.run(make_config(), params.sandbox, dag.Workspace(tmp_path))
