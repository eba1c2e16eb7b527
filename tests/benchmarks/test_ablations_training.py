"""What the ablations of training compare, on packs whose answers are known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.selection import ablations_training
from benchmarks.selection.ablations_training import ABLATIONS, CHOSEN, PUBLISHED
from benchmarks.selection.arms import Material
from benchmarks.selection.cut_features import pack_under
from benchmarks.selection.pack import Pack
from harness_core.evaluation.subsets import labelled
from harness_core.features.load import load_groups, load_transitions, read_schema
from harness_core.learners.config import CurriculumConfig, CurriculumStage
from harness_core.stages import features
from harness_core.stages.dag import CANDIDATES, Workspace
from harness_core.tables import read_table, write_table
from harness_core.trajectories.vocabulary import GroupKind
from harness_core.transitions.table import CANDIDATES as CANDIDATES_SCHEMA
from tests.benchmarks.test_selection_methods import make_pack
from tests.features.test_encoders import tiny_folder
from tests.features.test_tuning import config_of, finetune
from tests.stages.small_run import world_without_programs

__all__ = ["tiny_folder"]  # a fixture
N_TASKS = 16
ROW = {
    "name",
    "k",
    "n_tasks",
    "success",
    "gap_closed",
    "interval",
    "difference",
    "difference_interval",
    "validation_auc",
    "wall_s",
}


@pytest.fixture(scope="module")
def material(params, tmp_path_factory) -> Material:
    pack = make_pack(params)
    groups = tuple(
        replace(group, family=f"family-{number % 4 == 0}", fold=group.fold % 2)
        for number, group in enumerate(pack.groups[:N_TASKS])
    )
    few = params.evaluation.model_copy(update={"n_resamples": 100, "n_subsets": 2})
    settings = pack.params.model_copy(update={"evaluation": few})
    return Material(
        pack=replace(pack, groups=groups, params=settings),
        workspace=Workspace(tmp_path_factory.mktemp("none")),
    )


@pytest.fixture
def one_curriculum(monkeypatch):
    schedule = CurriculumConfig(stages=(CurriculumStage(until=0.5, task_share=0.5),))
    monkeypatch.setattr(ablations_training, "CURRICULA", {"half first": schedule})
    monkeypatch.setattr(ablations_training, "OLD_SHARES", (0.5,))


@pytest.mark.usefixtures("one_curriculum")
def test_rows_are_compared_with_the_first_one(material):
    rows = ABLATIONS["curriculum"](material, 0)
    assert [row["name"] for row in rows] == ["no curriculum", "half first", CHOSEN]
    assert all(set(row) == ROW for row in rows)
    assert rows[0]["difference"] == 0.0
    assert rows[0]["difference_interval"] == [0.0, 0.0]
    best = max(row["validation_auc"] for row in rows[:2])
    assert rows[2]["validation_auc"] >= best


@pytest.mark.usefixtures("one_curriculum")
def test_old_and_new_tasks_have_rows_of_their_own(material):
    rows = {row["name"]: row for row in ABLATIONS["old_and_new"](material, 0)}
    every = rows["all logs alike"]["n_tasks"]
    ages = [rows[f"all logs alike, {age} tasks"]["n_tasks"] for age in ("old", "new")]
    assert sum(ages) == every
    assert min(ages) > 0


@pytest.fixture(scope="module")
def encoded(params, tmp_path_factory, tiny_folder) -> Material:
    """A pack of text alone, all of its tasks in folds."""
    workspace = world_without_programs().write(tmp_path_factory.mktemp("run"))
    write_table(workspace.path(CANDIDATES), _with_validation_tasks(workspace), CANDIDATES_SCHEMA)
    config = config_of(tiny_folder)
    plain = config.model_copy(
        update={"encoder": config.encoder.model_copy(update={"finetune": None})}
    )
    features.run(plain, params.sandbox, workspace)
    settings = {"max_updates": 6, "check_every": 3, "hidden_sizes": (8,), "accelerator": "cpu"}
    trees = params.train.trees.model_copy(update={"n_trees": 3, "n_members": 1})
    train = params.train.model_copy(update={**settings, "trees": trees})
    pack = Pack(
        name="text",
        groups=tuple(group for group in labelled(load_groups(workspace)) if group.fold >= 0),
        transitions=load_transitions(workspace),
        schema=read_schema(workspace),
        params=params.model_copy(update={"features": plain, "train": train}),
    )
    return Material(pack=pack, workspace=workspace)


def _with_validation_tasks(workspace: Workspace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(
        workspace.path(CANDIDATES), CANDIDATES_SCHEMA
    ).to_pylist()
    return [row | {"split": "validation"} if row["task_id"][-1] in "23" else row for row in rows]


def test_attempts_that_are_not_cut_have_the_vectors_that_the_stage_gave_them(encoded):
    pack = encoded.pack
    made = pack_under(pack, encoded.workspace, pack.params.features)
    attempts = [group for group in pack.groups if group.kind is GroupKind.ATTEMPT]
    assert [group.group_id for group in made.groups] == [group.group_id for group in attempts]
    for one, two in zip(made.groups, attempts, strict=True):
        np.testing.assert_allclose(one.after, two.after, atol=1e-5)


def test_every_row_of_fine_tuning_is_judged_on_the_same_untouched_tasks(encoded, monkeypatch):
    settings = finetune(n_updates=2).model_dump() | {"lora": None}
    arms = {PUBLISHED: None, "last layer": settings}
    monkeypatch.setattr(ablations_training, "ENCODERS", arms)
    rows = ABLATIONS["finetuning"](encoded, 0)
    assert [row["name"] for row in rows] == [
        PUBLISHED,
        f"{PUBLISHED}, apart",
        "last layer",
        "last layer, apart",
    ]
    tasks = {group.task_id for group in encoded.pack.groups}
    set_aside = {
        group.task_id
        for group in encoded.pack.groups
        if group.fold == 0 and group.split.value == "train"
    }
    assert {row["n_tasks"] for row in rows} == {len(tasks - set_aside)}
