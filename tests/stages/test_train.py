"""The stage on synthetic feature tables: what it publishes, and that it is reproducible."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness_core.controller.combination import Combination
from harness_core.controller.manifest import read_manifest
from harness_core.controller.stopping import Steering
from harness_core.errors import NoDataError, ParameterError
from harness_core.evaluation import out_of_fold
from harness_core.features.batch import DecisionGroup, GroupSignals, TransitionArrays
from harness_core.features.set_relative import SET_RELATIVE
from harness_core.features.table import SIGNALS, SIGNALS_FILE, FeatureSchema
from harness_core.learners.checkpoint import load_critic
from harness_core.rewards.table import COMPONENTS
from harness_core.stages import train as stage
from harness_core.stages.dag import CANDIDATE_MODEL, FEATURES, FOLD_MODELS, POLICY, Workspace
from harness_core.stages.project import shipped
from harness_core.tables import tree_digest, write_table
from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Split

N_STATE, N_ACTION, N_FOLDS = 4, len(ActionKind) + 1, 2


@pytest.fixture
def config(params):
    return params.train.model_copy(
        update={
            "accelerator": "cpu",
            "n_threads": 1,
            "hidden_sizes": (8,),
            "batch_size": 16,
            "n_groups": 4,
            "group_sizes": (2,),
            "max_updates": 20,
            "check_every": 10,
            "trees": params.train.trees.model_copy(update={"n_trees": 5, "n_members": 1}),
        }
    )


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> Workspace:
    return _workspace(tmp_path, monkeypatch)


def _workspace(root: Path, monkeypatch, *, success=None) -> Workspace:
    workspace = Workspace(root)
    pipeline = workspace.path(FEATURES) / "pipeline"
    pipeline.mkdir(parents=True)
    (pipeline / "pipeline.json").write_text("{}")
    schema = FeatureSchema(
        state=tuple(f"s{i}" for i in range(N_STATE)),
        action=tuple(f"a{i}" for i in range(N_ACTION)),
        set_relative=SET_RELATIVE,
        encoders={"task": "hashed"},
        fingerprint="f" * 64,
    )
    (workspace.path(FEATURES) / "schema.json").write_text(schema.model_dump_json())
    workspace.path(POLICY).write_bytes(shipped(POLICY))
    groups, arrays = _world(success)
    # Reading feature tables has its own tests; here only what is done with them counts.
    monkeypatch.setattr(stage, "load_groups", lambda _: groups)
    monkeypatch.setattr(stage, "load_transitions", lambda _: arrays)
    return workspace


def _world(fixed) -> tuple[list[DecisionGroup], TransitionArrays]:
    rng, k = np.random.default_rng(0), 4
    groups, rewards, states, folds, splits, tasks = [], [], [], [], [], []
    for task in range(10):
        split = Split.TEST if task == 9 else Split.VALIDATION if task % 4 == 3 else Split.TRAIN
        fold = -1 if split is Split.TEST else task % N_FOLDS
        after = rng.normal(size=(k, N_STATE)).astype(np.float32)
        success = (after[:, 0] > 0).astype(np.float32)
        if fixed is not None:
            success = np.full(k, fixed, dtype=np.float32)
        groups.append(
            DecisionGroup(
                group_id=f"task/{task}",
                kind=GroupKind.ATTEMPT,
                task_id=f"task/{task}",
                source="toy",
                family="toy",
                split=split,
                fold=fold,
                before=after,
                after=after,
                action=np.zeros((k, N_ACTION), dtype=np.float32),
                signals=GroupSignals(
                    n_chars=np.ones(k, dtype=np.float32),
                    text_key=np.arange(k),
                    answer_key=np.zeros(k, dtype=np.int64),
                    visible_rate=np.full(k, np.nan, dtype=np.float32),
                    generated_passed=np.zeros((k, 0), dtype=np.bool_),
                    outputs=np.zeros((k, 0), dtype=np.int64),
                    agent_prior=np.full(k, 0.5, dtype=np.float32),
                ),
                n_steps=np.ones(k, dtype=np.int64),
                n_tokens=np.zeros(k, dtype=np.int64),
                success=success,
                dangerous=np.zeros(k, dtype=np.bool_),
                is_taken=np.ones(k, dtype=np.bool_),
                trusted=True,
            )
        )
        row = np.full((k, len(COMPONENTS)), np.nan, dtype=np.float32)
        row[:, COMPONENTS.index("all_tests")] = success
        rewards.append(row)
        states.append(after)
        folds += [fold] * k
        splits += [str(split)] * k
        tasks += [f"task/{task}"] * k
    n = len(tasks)
    return groups, TransitionArrays(
        trajectory=np.arange(n),
        step_index=np.zeros(n, dtype=np.int64),
        state=np.concatenate(states),
        action=np.eye(1, N_ACTION + len(SET_RELATIVE), dtype=np.float32).repeat(n, axis=0),
        next_state=np.zeros((n, N_STATE), dtype=np.float32),
        rewards=np.concatenate(rewards),
        discount=np.zeros(n, dtype=np.float32),
        fold=np.asarray(folds),
        split=np.asarray(splits),
        task_id=np.asarray(tasks),
    )


def test_the_stage_publishes_a_complete_model_and_one_model_a_fold(
    workspace, params, config
) -> None:
    report = stage.run(config, params.rewards, params.controller, workspace)
    folder = workspace.path(CANDIDATE_MODEL)
    manifest = read_manifest(folder)
    assert manifest.learner == "iql"
    assert manifest.k_max == 4
    # Nine tasks are too few to say when an attempt is good enough.
    assert manifest.steering == Steering(actor="awr", acceptance=None)
    assert manifest.development_tasks == tuple(f"task/{task}" for task in range(9))
    assert set(manifest.files) == {
        "network.json",
        "trees_attempt.txt",
        "trees_rank.txt",
        "weights.safetensors",
        "policy.yaml",
        "pipeline/pipeline.json",
    }
    assert load_critic(folder).expected.components == COMPONENTS
    folds = workspace.path(FOLD_MODELS)
    assert sorted(path.name for path in folds.iterdir()) == [str(f) for f in range(N_FOLDS)]
    for fold in folds.iterdir():
        Combination.model_validate_json((fold / "combination.json").read_bytes())
        load_critic(fold)
    assert report.figures["n_attempt_groups"] == 9
    chart = report.figures["over_optimisation"]
    assert chart["k_max"] == manifest.k_max
    assert {size: row["n_tasks"] for size, row in chart["k"].items()} == {"1": 9, "2": 9, "4": 9}
    assert len(report.figures["folds"]) == N_FOLDS
    json.dumps(report.figures, allow_nan=False)


@pytest.mark.parametrize(
    ("told", "ran"),
    [({}, False), ({"outputs": [7]}, True), ({"visible_rate": 0.0}, True)],
)
def test_the_model_says_whether_programs_were_run_for_what_it_learnt_from(
    workspace, params, config, told, ran
) -> None:
    nothing = {"visible_rate": float("nan"), "outputs": [], "generated_passed": []}
    row = dict.fromkeys(SIGNALS.names) | nothing | told
    table = pa.Table.from_pylist([row], schema=SIGNALS)
    write_table(workspace.path(FEATURES) / SIGNALS_FILE, table, SIGNALS)
    stage.run(config, params.rewards, params.controller, workspace)
    assert read_manifest(workspace.path(CANDIDATE_MODEL)).ran_programs is ran


def test_two_runs_give_the_same_bytes(tmp_path, params, config, monkeypatch) -> None:
    digests = set()
    for name in ("a", "b"):
        workspace = _workspace(tmp_path / name, monkeypatch)
        report = stage.run(config, params.rewards, params.controller, workspace)
        digests.add((tree_digest(workspace.path("data/models")), report.model_dump_json()))
    assert len(digests) == 1


def test_a_tool_policy_that_cannot_be_used_stops_before_training(workspace, params, config) -> None:
    workspace.path(POLICY).write_text("version: 1\ndefault: perhaps\nrules: []\n")
    with pytest.raises(ParameterError, match=r"policy\.yaml: line 2: default"):
        stage.run(config, params.rewards, params.controller, workspace)
    assert not workspace.path(CANDIDATE_MODEL).exists()


def test_an_earlier_model_is_replaced_and_nothing_else_is_left(workspace, params, config) -> None:
    stale = workspace.path(CANDIDATE_MODEL) / "stale.txt"
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    stage.run(config, params.rewards, params.controller, workspace)
    assert not stale.exists()
    names = {path.name for path in workspace.path(CANDIDATE_MODEL).parent.iterdir()}
    assert names == {"candidate", "folds"}
    assert not list(workspace.root.glob(".harness/training/*"))


def test_a_killed_run_resumes_from_its_finished_models(
    tmp_path, params, config, monkeypatch
) -> None:
    """The run dies when stage two is fitted; the next one ends where an unbroken one does."""
    unbroken = _workspace(tmp_path / "unbroken", monkeypatch)
    stage.run(config, params.rewards, params.controller, unbroken)
    workspace = _workspace(tmp_path / "broken", monkeypatch)

    def die(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(out_of_fold, "fit_combination", die)
        with pytest.raises(KeyboardInterrupt):
            stage.run(config, params.rewards, params.controller, workspace)
    kept = sorted(path.name for path in workspace.root.glob(".harness/training/*/*"))
    assert kept == ["final.ckpt", "fold-0.ckpt", "fold-1.ckpt", "scout-0.ckpt"]
    assert not workspace.path(CANDIDATE_MODEL).exists()
    stage.run(config, params.rewards, params.controller, workspace)
    models = [tree_digest(item.path("data/models")) for item in (unbroken, workspace)]
    assert models[0] == models[1]


@pytest.mark.parametrize("success", [0.0, 1.0])
def test_logs_with_one_outcome_are_refused_with_a_sentence(
    tmp_path, params, config, monkeypatch, success: float
) -> None:
    workspace = _workspace(tmp_path, monkeypatch, success=success)
    with pytest.raises(NoDataError, match="same outcome"):
        stage.run(config, params.rewards, params.controller, workspace)
    assert not workspace.path(CANDIDATE_MODEL).exists()
