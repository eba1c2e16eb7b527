import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from harness_core.errors import FeatureSchemaMismatch, FingerprintMismatch, ModelError
from harness_core.features.hashed import HashedEncoder
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.set_relative import SET_RELATIVE
from harness_core.features.storage import DOCUMENT
from harness_core.features.vectors import FeatureTables
from harness_core.trajectories import arrow
from tests.features.world import InProcessRunner, World


@pytest.fixture(scope="module")
def fitted(world, config) -> tuple[FeaturePipeline, FeatureTables]:
    return FeaturePipeline.fit_transform(world.tables(), config, runner=InProcessRunner())


def with_column(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    index = table.schema.get_field_index(name)
    field = table.schema.field(name)
    return table.set_column(index, field, pa.array(values, field.type))


def rows_of(table: pa.Table, trajectory_ids: set[str]) -> list[dict[str, object]]:
    return [row for row in table.to_pylist() if row["trajectory_id"] in trajectory_ids]


@pytest.mark.parametrize("task_id", ["code/0", "code/4", "sql/1", "tools/2"])
def test_no_hidden_outcome_of_a_task_reaches_its_features(world, config, fitted, task_id):
    tables = world.tables()
    trajectories = tables.trajectories
    is_own = [item == task_id for item in trajectories["task_id"].to_pylist()]
    ids = {
        item
        for item, own in zip(trajectories["trajectory_id"].to_pylist(), is_own, strict=True)
        if own
    }
    swaps: dict[str, Callable[[Any], object]] = {
        "success": lambda value: not value,
        "score": lambda value: 1.0 - value,
        "n_tests_passed": lambda _: 7,
        "n_tests_total": lambda _: 9,
        "terminated": lambda value: not value,
        "truncated": lambda value: not value,
        "n_steps": lambda value: value + 5,
        "extra": lambda _: '{"solved": true}',
    }
    for name, swap in swaps.items():
        old = trajectories[name].to_pylist()
        new = [swap(value) if own else value for value, own in zip(old, is_own, strict=True)]
        trajectories = with_column(trajectories, name, new)
    steps = with_column(tables.steps, "logged_reward", [0.123] * len(tables.steps))
    tasks = with_column(
        tables.tasks, "hidden_checks", [["assert add(0, 0) == 1"]] * len(tables.tasks)
    )
    tasks = with_column(tasks, "reference", ["def add(a, b): return 0"] * len(tasks))
    flipped = [
        1.0 - row["success"] if row["task_id"] == task_id else row["success"]
        for row in tables.candidates.to_pylist()
    ]
    swapped = dataclasses.replace(
        tables,
        trajectories=trajectories,
        steps=steps,
        tasks=tasks,
        candidates=with_column(tables.candidates, "success", flipped),
    )
    _, expected = fitted
    _, found = FeaturePipeline.fit_transform(swapped, config, runner=InProcessRunner())
    for table in ("states", "actions", "signals"):
        before = rows_of(getattr(expected, table), ids)
        assert str(rows_of(getattr(found, table), ids)) == str(before)
        assert before


def test_hidden_checks_never_reach_the_runner(world, config):
    runner = InProcessRunner()
    FeaturePipeline.fit(world.tables(), config, runner=runner)
    assert runner.calls
    assert "add(7, 8)" not in runner.calls


def test_features_are_reproducible(world, config, fitted, tmp_path):
    pipeline, tables = fitted
    again, found = FeaturePipeline.fit_transform(
        world.tables(), config, runner=InProcessRunner(), cache=tmp_path
    )
    assert again.schema == pipeline.schema
    assert found.states.equals(tables.states)
    assert found.actions.equals(tables.actions)
    assert str(found.signals.to_pylist()) == str(tables.signals.to_pylist())


def test_names_of_the_schema_match_the_widths(fitted):
    pipeline, tables = fitted
    schema = pipeline.schema
    assert tables.states.schema.field("state").type.list_size == len(schema.state)
    assert tables.actions.schema.field("action").type.list_size == len(schema.action)
    assert schema.set_relative == SET_RELATIVE
    for names in (schema.state, schema.action):
        assert len(set(names)) == len(names)


def test_a_trajectory_of_n_steps_has_n_plus_one_states(world, fitted):
    _, tables = fitted
    n_steps = [len(item.steps) for item in world.trajectories]
    assert tables.states.num_rows == sum(n_steps) + len(n_steps)


def test_vectors_are_finite(fitted):
    _, tables = fitted
    for name, column in (("states", "state"), ("actions", "action")):
        values = getattr(tables, name)[column].combine_chunks().flatten().to_numpy()
        assert np.isfinite(values).all()


def test_the_first_state_knows_of_no_action(fitted):
    pipeline, tables = fitted
    names = pipeline.schema.state
    block = [index for index, name in enumerate(names) if name.startswith("last_action.")]
    first = [row["state"] for row in tables.states.to_pylist() if row["step_index"] == 0]
    assert not np.array(first)[:, block].any()


def test_a_state_holds_the_vector_of_the_action_taken_before_it(fitted):
    pipeline, tables = fitted
    names = pipeline.schema.state
    block = [index for index, name in enumerate(names) if name.startswith("last_action.")]
    taken = {}
    for row in tables.actions.to_pylist():
        # With two candidates the second one is the one taken in these logs.
        taken[row["trajectory_id"], row["step_index"] + 1] = row["action"]
    for row in tables.states.to_pylist():
        if row["step_index"]:
            expected = taken[row["trajectory_id"], row["step_index"]]
            assert np.array(row["state"])[block].tolist() == expected


def test_scales_come_from_development_tasks_only(world, config, fitted):
    pipeline, _ = fitted
    tables = world.tables()
    test_tasks = {row["task_id"] for row in tables.candidates.to_pylist() if row["fold"] == -1}
    ids = [
        row["trajectory_id"]
        for row in tables.trajectories.to_pylist()
        if row["task_id"] in test_tasks
    ]
    is_test = pa.compute.is_in(tables.steps["trajectory_id"], pa.array(ids))
    text = pa.compute.if_else(is_test, "something else entirely", tables.steps["action_text"])
    changed = dataclasses.replace(
        tables, steps=with_column(tables.steps, "action_text", text.to_pylist())
    )
    again = FeaturePipeline.fit(changed, config, runner=InProcessRunner())
    assert again.schema.fingerprint == pipeline.schema.fingerprint


def test_a_stored_pipeline_gives_the_same_features(world, fitted, tmp_path):
    pipeline, tables = fitted
    pipeline.save(tmp_path)
    again = FeaturePipeline.load(tmp_path)
    found = again.transform(world.tables(), runner=InProcessRunner())
    assert again.schema == pipeline.schema
    assert found.states.equals(tables.states)
    assert found.actions.equals(tables.actions)


def test_another_encoder_is_refused_with_both_fingerprints(world, config, tmp_path):
    class Other(HashedEncoder):
        def __init__(self) -> None:
            super().__init__(width=256)

    first, second = HashedEncoder(width=128), Other()
    FeaturePipeline.fit(world.tables(), config, encoder=first).save(tmp_path)
    with pytest.raises(FingerprintMismatch) as caught:
        FeaturePipeline.load(tmp_path, encoder=second)
    assert first.fingerprint in str(caught.value)
    assert second.fingerprint in str(caught.value)


def test_a_column_that_this_version_does_not_know_is_refused(fitted, tmp_path):
    pipeline, _ = fitted
    pipeline.save(tmp_path)
    document = orjson.loads((tmp_path / DOCUMENT).read_bytes())
    action = document["columns"]["action"]
    action[action.index("summary.n_chars")] = "summary.n_dragons"
    (tmp_path / DOCUMENT).write_bytes(orjson.dumps(document))
    with pytest.raises(FeatureSchemaMismatch, match="n_dragons"):
        FeaturePipeline.load(tmp_path)


def test_a_folder_without_a_pipeline_is_named(tmp_path):
    with pytest.raises(ModelError, match="no usable feature pipeline"):
        FeaturePipeline.load(tmp_path)


def test_a_column_with_many_texts_is_hashed(world, config):
    few = config.model_copy(update={"encoder": config.encoder.model_copy(update={"max_texts": 25})})
    encoder = HashedEncoder(width=64)
    pipeline, tables = FeaturePipeline.fit_transform(world.tables(), few, encoder=encoder)
    chosen = tables.figures["encoders"]
    assert tables.figures["n_texts"]["task"] > 25
    assert chosen["task"] == "hashed"
    assert chosen["observation"] == "configured"
    assert pipeline.schema.encoders["observation"] == encoder.fingerprint
    assert pipeline.schema.encoders["task"] == HashedEncoder().fingerprint


def test_without_a_runner_the_signals_of_programs_are_unknown(world, config):
    pipeline, tables = FeaturePipeline.fit_transform(world.tables(), config)
    column = pipeline.schema.action.index("execution.was_run")
    assert not any(row["action"][column] for row in tables.actions.to_pylist())
    assert all(not row["outputs"] for row in tables.signals.to_pylist())


def test_a_trajectory_without_its_task_is_described_by_itself(world, config):
    tables = world.tables()
    empty = dataclasses.replace(tables, tasks=arrow.TASKS.empty_table())
    _, found = FeaturePipeline.fit_transform(empty, config, runner=InProcessRunner())
    assert found.states.num_rows == sum(len(item.steps) + 1 for item in world.trajectories)


def test_logs_of_one_kind_have_no_columns_of_another(world, config):
    only = World(
        trajectories=tuple(t for t in world.trajectories if t.provenance.source == "sql"),
        tasks=tuple(t for t in world.tasks if t.source == "sql"),
    )
    pipeline = FeaturePipeline.fit(only.tables(), config)
    assert not any(name.startswith("summary.program") for name in pipeline.schema.action)
    assert any(name.startswith("summary.sql") for name in pipeline.schema.action)
