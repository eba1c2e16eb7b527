import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from harness_core.errors import FingerprintMismatch, ModelError, NoDataError, ParameterError
from harness_core.features.config import EncoderConfig, FinetuneConfig
from harness_core.features.encoder import TransformersEncoder, open_encoder
from harness_core.features.load import groups_from
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.tuned_weights import FILE_NAME, TunedWeights
from harness_core.features.tuning import TextGroup, Tuning, judgeable
from harness_core.transitions.table import CANDIDATES
from tests.features.test_encoders import TEXTS, tiny, tiny_folder
from tests.features.world import make_config

__all__ = ["tiny_folder"]  # a fixture


def finetune(**changes) -> FinetuneConfig:
    settings = {
        "last_layers": 1,
        "lora": None,
        "n_folds": 1,
        "max_texts": 1000,
        "n_updates": 3,
        "n_groups": 2,
        "group_size": 2,
        "learning_rate": 0.01,
        "head_learning_rate": 0.01,
        "weight_decay": 0.0,
        "pairwise_weight": 1.0,
        "accelerator": "cpu",
        "seed": 0,
    }
    return FinetuneConfig(**(settings | changes))


def config_of(folder, **changes):
    encoder = EncoderConfig(
        name="folder",
        path=str(folder),
        max_tokens=16,
        max_chunks=2,
        batch_size=8,
        max_texts=1000,
        finetune=finetune(**changes),
    )
    return make_config().model_copy(update={"encoder": encoder})


class Tuner:
    """Keeps what it was given and moves one bias."""

    def __init__(self) -> None:
        self.groups: list[TextGroup] = []

    def __call__(self, encoder, groups, config):
        self.groups = list(groups)
        bias = np.full(16, 0.5 * len(groups), dtype=np.float32)
        weights = TunedWeights({"encoder.layer.0.output.LayerNorm.bias": bias})
        tasks = tuple(sorted({group.task_id for group in groups}))
        return Tuning(weights, tasks, {"n_tasks": len(tasks)})


@pytest.fixture(scope="module")
def fitted(world, tiny_folder):
    tuner = Tuner()
    pipeline, tables = FeaturePipeline.fit_transform(
        world.tables(), config_of(tiny_folder), tuner=tuner
    )
    return pipeline, tables, tuner


def test_the_encoder_learns_from_training_tasks_of_the_first_folds_alone(world, fitted):
    pipeline, _, tuner = fitted
    rows = world.candidates().to_pylist()
    allowed = {row["task_id"] for row in rows if row["split"] == "train" and row["fold"] == 0}
    assert {group.task_id for group in tuner.groups} == allowed
    assert set(pipeline.schema.encoder_tasks) == allowed


def test_it_sees_the_texts_that_the_state_after_an_attempt_is_made_of(fitted):
    _, _, tuner = fitted
    group = next(group for group in tuner.groups if group.task_id.startswith("tools/"))
    number = group.task_id.rpartition("/")[2]
    assert {texts[0] for texts in group.texts} == {
        f"tools task {number}: do the thing number {number} properly"
    }
    assert {texts[1] for texts in group.texts} == {
        f"The answer is: done {attempt}. OK?" for attempt in (0, 1)
    }
    assert sorted(group.success) == [0.0, 1.0]


def test_a_program_that_is_hashed_is_no_text_to_learn_from(fitted):
    _, _, tuner = fitted
    group = next(group for group in tuner.groups if group.task_id.startswith("code/"))
    assert {texts[1] for texts in group.texts} == {""}


def test_no_task_that_the_encoder_learnt_from_is_judged(world, fitted):
    pipeline, tables, _ = fitted
    groups = groups_from(world.candidates(), tables.states, tables.actions, tables.signals)
    kept = judgeable(groups, pipeline.schema)
    seen = set(pipeline.schema.encoder_tasks)
    assert {group.task_id for group in kept} == {group.task_id for group in groups} - seen
    assert seen


def test_an_encoder_that_saw_everything_leaves_nothing_to_judge(world, fitted):
    pipeline, tables, _ = fitted
    groups = groups_from(world.candidates(), tables.states, tables.actions, tables.signals)
    tasks = tuple(sorted({group.task_id for group in groups}))
    schema = pipeline.schema.model_copy(update={"encoder_tasks": tasks})
    with pytest.raises(NoDataError, match="n_folds"):
        judgeable(groups, schema)


def test_outcomes_of_other_tasks_change_neither_weights_nor_vectors(world, tiny_folder, fitted):
    pipeline, tables, _ = fitted
    rows = world.candidates().to_pylist()
    seen = set(pipeline.schema.encoder_tasks)
    for row in rows:
        if row["task_id"] not in seen:
            row["success"] = 1.0 - row["success"]
    swapped = dataclasses.replace(
        world.tables(), candidates=pa.Table.from_pylist(rows, schema=CANDIDATES)
    )
    other = Tuner()
    again, changed = FeaturePipeline.fit_transform(swapped, config_of(tiny_folder), tuner=other)
    assert [group.texts for group in other.groups] == [group.texts for group in fitted[2].groups]
    assert again.schema.encoders == pipeline.schema.encoders
    priors = {"agent_prior"}
    names = pipeline.schema.state
    kept = [index for index, name in enumerate(names) if name not in priors]
    before, after = (_matrix(item.states)[:, kept] for item in (tables, changed))
    np.testing.assert_array_equal(before, after)


def test_tuned_weights_are_another_fingerprint(tiny_folder, fitted):
    pipeline, _, _ = fitted
    assert pipeline.schema.encoders["task"] != tiny(tiny_folder).fingerprint


def test_a_stored_pipeline_encodes_as_the_fitted_one_did(world, fitted, tmp_path):
    pipeline, tables, _ = fitted
    pipeline.save(tmp_path)
    again = FeaturePipeline.load(tmp_path)
    assert again.schema == pipeline.schema
    assert again.transform(world.tables()).states.equals(tables.states)


def test_damaged_encoder_weights_are_refused(fitted, tmp_path):
    pipeline, _, _ = fitted
    pipeline.save(tmp_path)
    with (tmp_path / FILE_NAME).open("r+b") as weights:
        weights.seek(-1, 2)
        weights.write(b"\x01")
    with pytest.raises(FingerprintMismatch):
        FeaturePipeline.load(tmp_path)


def test_missing_encoder_weights_are_named(fitted, tmp_path):
    pipeline, _, _ = fitted
    pipeline.save(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    with pytest.raises(ModelError, match=FILE_NAME):
        FeaturePipeline.load(tmp_path)


def test_weights_of_another_model_do_not_fit(tiny_folder):
    weights = TunedWeights({"encoder.layer.7.output.LayerNorm.bias": np.zeros(16, np.float32)})
    encoder = TransformersEncoder(
        tiny_folder, max_tokens=16, max_chunks=1, batch_size=4, tuned=weights
    )
    with pytest.raises(ModelError, match=r"layer\.7"):
        encoder.encode(TEXTS)


def test_equal_weights_have_equal_bytes():
    one, two = np.ones(3, np.float32), np.zeros((2, 2), np.float32)
    assert TunedWeights({"a": one, "b": two}).content == TunedWeights({"b": two, "a": one}).content


def test_a_bound_on_texts_leaves_tasks_to_the_critic(world, tiny_folder):
    tuner = Tuner()
    pipeline = FeaturePipeline.fit(world.tables(), config_of(tiny_folder, max_texts=5), tuner=tuner)
    texts = {text for group in tuner.groups for item in group.texts for text in item if text}
    assert len(texts) <= 5
    assert len(pipeline.schema.encoder_tasks) == len(tuner.groups) == 1


def test_a_hashed_encoder_has_nothing_to_fine_tune():
    encoder = make_config().encoder.model_copy(update={"finetune": finetune()})
    with pytest.raises(ParameterError, match="hashed"):
        open_encoder(encoder)


def test_without_an_encoded_column_there_is_nothing_to_learn(world, tiny_folder):
    config = config_of(tiny_folder)
    encoder = config.encoder.model_copy(update={"max_texts": 0})
    with pytest.raises(ParameterError, match="max_texts"):
        FeaturePipeline.fit(
            world.tables(), config.model_copy(update={"encoder": encoder}), tuner=Tuner()
        )


def test_last_layers_and_lora_exclude_each_other():
    with pytest.raises(ValidationError, match="either"):
        finetune(last_layers=None)


def _matrix(table):
    return np.stack(table.column("state").to_numpy())
