import importlib.util

import numpy as np
import pytest
import torch

from harness_core.errors import ModelError, ParameterError
from harness_core.features.config import LoraConfig
from harness_core.features.encoder import TransformersEncoder
from harness_core.features.tuning import TextGroup
from harness_core.learners.encoder_tuning import tune_encoder
from tests.features.test_encoders import tiny, tiny_folder
from tests.features.test_tuning import finetune

__all__ = ["tiny_folder"]  # a fixture

LORA = LoraConfig(rank=2, alpha=4, dropout=0.0)


def text_groups(n: int = 6) -> list[TextGroup]:
    """Attempts that say `select` succeed, others fail."""
    return [
        TextGroup(
            task_id=f"task/{number}",
            texts=tuple(
                ("add word", f"{word} return " * (number + 1), "word word")
                for word in ("select", "add")
            ),
            success=np.array([1.0, 0.0], dtype=np.float32),
        )
        for number in range(n)
    ]


def settings(**changes):
    return finetune(n_updates=60, n_groups=4, head_learning_rate=0.02, **changes)


@pytest.fixture(scope="module")
def tuned(tiny_folder):
    return tune_encoder(tiny(tiny_folder), text_groups(), settings())


def encoder_with(folder, weights):
    return TransformersEncoder(folder, max_tokens=16, max_chunks=2, batch_size=4, tuned=weights)


def test_the_loss_falls(tuned):
    losses = tuned.figures["loss"]
    assert losses[-1] < 0.5 * losses[0]


def test_good_and_bad_attempts_move_apart(tiny_folder, tuned):
    texts = ["select return word", "add return word"]
    before = tiny(tiny_folder).encode(texts)
    after = encoder_with(tiny_folder, tuned.weights).encode(texts)
    assert after[0] @ after[1] < before[0] @ before[1] - 0.1


def test_only_the_last_layers_change(tuned):
    assert all(name.startswith("encoder.layer.0.") for name in tuned.weights.names)


def test_the_same_seed_gives_the_same_weights(tiny_folder, tuned):
    again = tune_encoder(tiny(tiny_folder), text_groups(), settings())
    assert again.weights.sha256 == tuned.weights.sha256


def test_tuning_leaves_the_random_numbers_of_others_alone(tiny_folder):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    tune_encoder(tiny(tiny_folder), text_groups(), finetune(n_updates=1))
    assert torch.equal(torch.rand(2), expected)


def test_the_encoder_that_is_given_stays_as_it_is(tiny_folder):
    encoder = tiny(tiny_folder)
    before = encoder.encode(["select add"])
    tune_encoder(encoder, text_groups(), finetune(n_updates=2))
    np.testing.assert_array_equal(encoder.encode(["select add"]), before)


def test_more_layers_than_there_are_is_refused(tiny_folder):
    with pytest.raises(ModelError, match="has 1"):
        tune_encoder(tiny(tiny_folder), text_groups(), finetune(last_layers=2))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to be found")
def test_a_gpu_that_is_not_there_is_refused(tiny_folder):
    with pytest.raises(ParameterError, match="GPU"):
        tune_encoder(tiny(tiny_folder), text_groups(), finetune(accelerator="gpu"))


needs_peft = pytest.mark.skipif(
    importlib.util.find_spec("peft") is None, reason="the extra finetune is not installed"
)


@needs_peft
def test_low_rank_changes_are_stored_as_matrices_of_the_model(tiny_folder):
    result = tune_encoder(tiny(tiny_folder), text_groups(), settings(last_layers=None, lora=LORA))
    assert result.weights.names
    assert all("attention" in name and name.endswith("weight") for name in result.weights.names)
    original = tiny(tiny_folder).fresh_model().state_dict()
    model = encoder_with(tiny_folder, result.weights).fresh_model().state_dict()
    for name in result.weights.names:
        change = model[name] - original[name]
        assert int(torch.linalg.matrix_rank(change, atol=1e-5)) <= LORA.rank


@needs_peft
def test_low_rank_changes_lower_the_loss_too(tiny_folder):
    lora = settings(last_layers=None, lora=LORA)
    losses = tune_encoder(tiny(tiny_folder), text_groups(), lora).figures["loss"]
    assert losses[-1] < losses[0]
