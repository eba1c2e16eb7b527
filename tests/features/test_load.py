import numpy as np
import pyarrow as pa
import pytest

from harness_core.errors import DataError, NoDataError
from harness_core.features import interim
from harness_core.features.load import (
    groups_from,
    load_groups,
    load_transitions,
    read_schema,
)
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.set_relative import SET_RELATIVE, set_relative
from harness_core.features.table import SIGNALS, actions_schema, states_schema
from harness_core.rewards.table import COMPONENTS
from harness_core.stages import dag
from harness_core.tables import publish_bytes, write_table
from harness_core.trajectories.vocabulary import GroupKind
from tests.features.world import InProcessRunner, World


@pytest.fixture(scope="module")
def workspace(world: World, config, tmp_path_factory) -> dag.Workspace:
    workspace = world.write(tmp_path_factory.mktemp("work"))
    tables = interim.InterimTables.read(workspace)
    pipeline, features = FeaturePipeline.fit_transform(tables, config, runner=InProcessRunner())
    folder = workspace.path(dag.FEATURES)
    widths = pipeline.schema
    write_table(folder / "states.parquet", features.states, states_schema(len(widths.state)))
    write_table(folder / "actions.parquet", features.actions, actions_schema(len(widths.action)))
    write_table(folder / "signals.parquet", features.signals, SIGNALS)
    publish_bytes(folder / "schema.json", pipeline.schema.model_dump_json().encode())
    return workspace


def test_paths_agree_with_the_table_of_stages():
    assert interim.TRAJECTORIES_PATH == dag.TRAJECTORIES
    assert interim.STEPS_PATH == dag.STEPS
    assert interim.TASKS_PATH == dag.TASKS
    assert interim.CANDIDATES_PATH == dag.CANDIDATES
    assert interim.TRANSITIONS_PATH == dag.TRANSITIONS
    assert interim.FEATURES_PATH == dag.FEATURES


def test_every_group_is_there_with_its_labels_beside_it(workspace, world):
    groups = load_groups(workspace)
    rows = world.candidates().to_pylist()
    assert [group.group_id for group in groups] == sorted({row["group_id"] for row in rows})
    for group in groups:
        own = [row for row in rows if row["group_id"] == group.group_id]
        assert group.size == len(own)
        assert group.success.tolist() == [row["success"] for row in own]
        assert group.signals.outputs.shape[0] == group.size


def test_an_attempt_is_seen_before_and_after_its_last_action(workspace):
    schema = read_schema(workspace)
    block = [i for i, name in enumerate(schema.state) if name.startswith("last_action.")]
    for group in load_groups(workspace):
        if group.kind is GroupKind.ATTEMPT:
            assert np.array_equal(group.after[:, block], group.action)
        else:
            assert np.array_equal(group.after, group.before)


def test_transitions_follow_each_other(workspace):
    arrays = load_transitions(workspace)
    follows = (arrays.trajectory[1:] == arrays.trajectory[:-1]) & (arrays.discount[:-1] > 0)
    assert follows.any()
    assert np.array_equal(arrays.next_state[:-1][follows], arrays.state[1:][follows])
    assert not arrays.next_state[arrays.discount == 0].any()


def test_a_virtual_submit_is_its_kind_and_nothing_else(workspace, world):
    arrays = load_transitions(workspace)
    schema = read_schema(workspace)
    is_virtual = world.transitions()["is_virtual"].to_numpy(zero_copy_only=False)
    submits = arrays.action[is_virtual]
    assert submits.sum(axis=1).tolist() == [1.0] * len(submits)
    assert submits[:, schema.action.index("kind.submit")].all()


def test_an_action_taken_from_candidates_knows_its_place_among_them(workspace, world):
    arrays = load_transitions(workspace)
    schema = read_schema(workspace)
    within = arrays.action[:, len(schema.action) :]
    assert within.shape[1] == len(SET_RELATIVE)
    groups = {group.group_id: group for group in load_groups(workspace)}
    n_checked = 0
    for row, key in enumerate(
        world.transitions().select(["trajectory_id", "step_index"]).to_pylist()
    ):
        group = groups.get(f"{key['trajectory_id']}:{key['step_index']}")
        if group is None:
            assert not within[row].any()
        else:
            expected = set_relative(group.signals)[group.is_taken][0]
            assert np.array_equal(within[row], expected)
            n_checked += 1
    assert n_checked == 20


def test_a_component_that_does_not_apply_is_nan(workspace):
    arrays = load_transitions(workspace)
    assert np.isnan(arrays.rewards[:, COMPONENTS.index("syntax")]).all()
    assert np.isfinite(arrays.rewards[:, COMPONENTS.index("all_tests")]).sum() == len(
        set(arrays.trajectory.tolist())
    )


def test_candidates_of_another_run_are_named(workspace, world, config):
    features = FeaturePipeline.fit_transform(world.tables(), config)[1]
    candidates = world.candidates()
    strange = candidates.set_column(
        candidates.schema.get_field_index("step_index"),
        candidates.schema.field("step_index"),
        pa.array([77] * len(candidates), pa.int32()),
    )
    with pytest.raises(DataError, match="no features for"):
        groups_from(strange, features.states, features.actions, features.signals)


def test_a_missing_table_is_named(tmp_path, workspace):
    empty = dag.Workspace(tmp_path)
    publish_bytes(
        empty.path("data/features/schema.json"),
        workspace.path("data/features/schema.json").read_bytes(),
    )
    with pytest.raises(NoDataError, match="candidates"):
        load_groups(empty)
