"""The sweep of weights on a small working folder, and what it leaves in the tracker."""

from typing import Any

import numpy as np
import orjson
import pytest

from harness_core.cli import app, run_app
from harness_core.errors import DataError, NoDataError
from harness_core.evaluation.config import WeightSetting
from harness_core.features.batch import TransitionArrays
from harness_core.registry.mlflow_tracker import MlflowTracker
from harness_core.registry.store import MlflowStore
from harness_core.rewards.table import COMPONENTS
from harness_core.stages import calibrate, transitions
from harness_core.stages import rewards as rewards_stage
from harness_core.stages.calibrate_tables import SmallPart, read_small_part, rewards_under
from harness_core.stages.dag import FEATURES, POLICY, TRANSITIONS, Workspace
from harness_core.stages.project import shipped
from harness_core.stages.register import STORE, describe_champion
from harness_core.tables import read_table, write_table
from harness_core.transitions.table import TRANSITIONS as SCHEMA
from tests.features.world import World, make_world
from tests.stages.small_run import finished_run
from tests.stages.test_rewards import FakeJudge


def setting(name, *, gate_process=True, **weights):
    return WeightSetting(name=name, gate_process=gate_process, weights=weights)


@pytest.fixture(scope="module")
def small(params):
    """Parameters for seconds instead of minutes."""
    return params.model_copy(
        update={
            "train": params.train.model_copy(
                update={
                    "accelerator": "cpu",
                    "hidden_sizes": (4,),
                    "batch_size": 16,
                    "n_groups": 4,
                    "group_sizes": (2,),
                    "max_updates": 20,
                    "trees": params.train.trees.model_copy(update={"n_trees": 3, "n_members": 1}),
                    "check_every": 10,
                }
            ),
            "evaluation": params.evaluation.model_copy(update={"n_resamples": 100, "n_subsets": 3}),
            "calibration": params.calibration.model_copy(
                update={
                    "task_share": 1.0,
                    "settings": (
                        setting("same"),
                        setting("costs_only", all_tests=0.0, outcome=0.0, step_cost=-10.0),
                    ),
                }
            ),
        }
    )


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, params):
    return finished_run(tmp_path_factory.mktemp("run"), params)


@pytest.fixture(scope="module")
def result(small, workspace):
    return calibrate.run(small, workspace)


def test_every_setting_is_described_beside_the_references(result):
    assert set(result["settings"]) == {"present", "same", "costs_only"}
    assert result["settings"]["costs_only"]["weights"]["all_tests"] == 0.0
    rows = result["attempt"]["rows"]
    assert list(rows) == ["random", "oracle", "no_goal", "present", "same", "costs_only"]
    for name in ("success", "dangerous", "dangerous_unfiltered", "characters"):
        assert set(rows["costs_only"][name]) == {"value", "low", "high", "n"}
    assert rows["oracle"]["success"]["value"] == 1.0
    assert rows["random"]["success"]["value"] < 1.0
    assert result["attempt"]["reference"] == "no_goal"
    assert result["step"] is None
    assert orjson.loads(orjson.dumps(result)) == result


def test_equal_weights_pick_alike_and_the_success_head_knows_no_weights(result):
    rows = result["attempt"]["rows"]
    assert rows["same"]["differs"]["value"] == 0.0
    assert rows["same"]["success"] == rows["present"]["success"]
    assert rows["same"]["earned_gain"] == rows["present"]["earned_gain"]


def test_what_is_paid_nowhere_is_named(result):
    assert "style" in result["never_paid"]
    assert "all_tests" not in result["never_paid"]


def test_the_sweep_is_one_run_of_its_own_kind_and_registers_nothing(result, small, workspace):
    again = calibrate.run(small, workspace)
    assert again == result
    tracker = MlflowTracker(
        MlflowStore(workspace.path(STORE)), experiment=small.registry.experiment
    )
    run = tracker._client.get_run(result["run_id"])
    assert run.data.tags["kind"] == "calibrate"
    assert run.data.tags["run_key"].startswith("calibrate/")
    assert run.info.run_name.startswith("calibrate-")
    assert run.data.params["calibration.group_size"] == "8"
    assert "calibrate/costs_only/success" in run.data.metrics
    names = {item.path for item in tracker._client.list_artifacts(result["run_id"])}
    assert names == {"calibration.json", "calibration.md", "calibration.png"}
    assert tracker.find(run.data.tags["run_key"].removeprefix("calibrate/")) is None
    assert describe_champion(small.registry, workspace) == {"champion": None}


def test_the_small_part_is_a_share_of_the_development_tasks_that_stays_the_same(small, workspace):
    def tasks(share):
        config = small.calibration.model_copy(update={"task_share": share})
        part = read_small_part(config, workspace)
        assert part.n_development_tasks == 16
        return {group.task_id for group in part.groups}

    assert tasks(0.4) < tasks(0.8) < tasks(1.0)
    assert not {task for task in tasks(1.0) if int(task.rpartition("/")[2]) % 5 == 4}


def test_a_table_that_is_missing_is_named_with_its_stage(small, workspace, tmp_path):
    with pytest.raises(NoDataError, match=r"trajectories.parquet does not exist; run `harness in"):
        calibrate.run(small, Workspace(tmp_path))
    assert run_app(app, ["--quiet", "calibrate", "--workdir", str(tmp_path)]) == 3
    half = finished_tables(tmp_path / "half")
    with pytest.raises(NoDataError, match=f"{FEATURES} does not exist; run `harness features`"):
        calibrate.run(small, half)


def finished_tables(root):
    """Programs and their rewards, as the stages up to `transitions` leave them; no features."""
    world = make_world()
    logs = World(
        trajectories=tuple(t for t in world.trajectories if t.provenance.source == "code"),
        tasks=tuple(t for t in world.tasks if t.source == "code"),
    )
    workspace = logs.write(root)
    workspace.path(POLICY).write_bytes(shipped(POLICY))
    return workspace


def test_without_the_gate_rewards_are_paid_anew_for_the_same_transitions(
    small, tmp_path, monkeypatch
):
    judge = FakeJudge()
    monkeypatch.setattr(rewards_stage, "open_judge", lambda *_, **__: judge.open())
    workspace = finished_tables(tmp_path)
    rewards_stage.run(small.rewards, small.sandbox, workspace)
    transitions.run(small.transitions, workspace)
    part = part_of(workspace)
    ungated = small.rewards.model_copy(update={"gate_process": False})
    found = rewards_under(part, ungated, small, workspace)
    place = COMPONENTS.index("syntax")
    names = part.rows.column("trajectory_id").to_pylist()
    present = total(names, column(part, "syntax"))
    without = total(names, found[:, place].tolist())
    # A program that fails its visible test earns nothing for its syntax behind the gate.
    assert set(present.values()) == {0.0, 1.0}
    assert all(without[name] >= present[name] for name in present)
    assert sum(without.values()) > sum(present.values())
    done = found[:, COMPONENTS.index("all_tests")]
    assert column(part, "all_tests") == pytest.approx(done.tolist(), nan_ok=True)


def test_tables_that_do_not_belong_together_are_refused(small, tmp_path, monkeypatch):
    monkeypatch.setattr(rewards_stage, "open_judge", lambda *_, **__: FakeJudge().open())
    workspace = finished_tables(tmp_path)
    rows = read_table(workspace.path(TRANSITIONS), SCHEMA).to_pylist()
    write_table(
        workspace.path(TRANSITIONS), [row | {"trajectory_id": "gone"} for row in rows], SCHEMA
    )
    ungated = small.rewards.model_copy(update={"gate_process": False})
    with pytest.raises(DataError, match="run `harness transitions` again"):
        rewards_under(part_of(workspace), ungated, small, workspace)


def part_of(workspace):
    """Nothing but the rows: what is paid needs no features."""
    nothing: Any = np.zeros(0)
    return SmallPart(
        groups=(),
        arrays=TransitionArrays(**dict.fromkeys(TransitionArrays.__slots__, nothing)),
        rows=read_table(workspace.path(TRANSITIONS), SCHEMA),
        candidates={},
        tasks={},
        n_development_tasks=0,
    )


def column(part, name):
    values = part.rows.column(f"reward_{name}").to_pylist()
    return [float("nan") if value is None else value for value in values]


def total(names, values):
    """What each trajectory was paid in all."""
    paid = dict.fromkeys(names, 0.0)
    for name, value in zip(names, np.nan_to_num(values).tolist(), strict=True):
        paid[name] += value
    return paid
