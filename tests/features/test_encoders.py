import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from harness_core.errors import ModelError, ParameterError
from harness_core.features.config import EncoderConfig
from harness_core.features.encoder import TextEncoder, TransformersEncoder, open_encoder
from harness_core.features.hashed import HashedEncoder

TEXTS = (
    "Write a function that adds two numbers.",
    "def add(a, b):\n    return a + b",
    "SELECT name FROM singer",
    "",
    "naïve – ünïcode 🙂 \ud800 and a [SEP] [CLS] token",
    "word " * 500,
)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A transformer with random weights, small enough to run in no time."""
    folder: Path = tmp_path_factory.mktemp("tiny")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[", "]", "add", "word", "select", "return", "SEP"]
    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    shape = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(shape).save_pretrained(folder)
    return folder


def tiny(folder: Path, *, max_tokens: int = 16, max_chunks: int = 2, batch_size: int = 4):
    return TransformersEncoder(
        folder, max_tokens=max_tokens, max_chunks=max_chunks, batch_size=batch_size
    )


@pytest.fixture(params=["hashed", "transformer"])
def encoder(request, tiny_folder) -> TextEncoder:
    return HashedEncoder() if request.param == "hashed" else tiny(tiny_folder)


class TestEveryEncoder:
    def test_gives_one_row_a_text(self, encoder):
        vectors = encoder.encode(TEXTS)
        assert vectors.shape == (len(TEXTS), encoder.width)
        assert vectors.dtype == np.float32

    def test_takes_no_text_at_all(self, encoder):
        assert encoder.encode([]).shape == (0, encoder.width)

    def test_vectors_have_length_one(self, encoder):
        norms = np.linalg.norm(encoder.encode(TEXTS), axis=1)
        np.testing.assert_allclose(norms[norms > 0], 1.0, atol=1e-4)

    def test_a_text_has_the_same_vector_in_any_company(self, encoder):
        together = encoder.encode(TEXTS)
        alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
        np.testing.assert_allclose(together, alone, atol=1e-5)

    def test_order_of_texts_is_order_of_rows(self, encoder):
        backwards = encoder.encode(TEXTS[::-1])[::-1]
        np.testing.assert_allclose(encoder.encode(TEXTS), backwards, atol=1e-5)

    def test_like_texts_are_nearer_than_unlike_ones(self, encoder):
        first, second, other = encoder.encode(
            ["return add word", "return add word word", "[ select ] select ["]
        )
        assert first @ second > first @ other

    def test_its_fingerprint_is_a_digest(self, encoder):
        assert len(encoder.fingerprint) == 64


def test_the_end_of_a_long_text_wins(tiny_folder):
    encoder = tiny(tiny_folder, max_tokens=8, max_chunks=1)
    long = "select " * 50 + "add " * 6
    np.testing.assert_allclose(encoder.encode([long]), encoder.encode(["add " * 6]), atol=1e-5)


def test_a_long_text_is_the_mean_of_its_chunks(tiny_folder):
    encoder = tiny(tiny_folder, max_tokens=8, max_chunks=4)
    parts = ["select add word return [ ] ", "add " * 6, "word select " * 3]
    together = encoder.encode(parts).sum(axis=0)
    np.testing.assert_allclose(
        encoder.encode(["".join(parts)])[0], together / np.linalg.norm(together), atol=1e-5
    )


def test_of_too_many_chunks_the_last_are_kept(tiny_folder):
    encoder = tiny(tiny_folder, max_tokens=8, max_chunks=2)
    start, end = "select add " * 30, "word return " * 3 + "add " * 6
    assert len(list(encoder.chunks(start + end))) == 2
    np.testing.assert_allclose(encoder.encode([start + end]), encoder.encode([end]), atol=1e-5)


def test_a_text_that_fits_is_one_chunk_with_all_its_words(tiny_folder):
    (chunk,) = tiny(tiny_folder, max_tokens=8).chunks("select add word")
    assert len(chunk) == 5


def test_a_special_token_in_a_text_is_text(tiny_folder):
    encoder = tiny(tiny_folder)
    chunks = encoder.chunks("add [SEP] add")
    assert [chunk.count(3) for chunk in chunks] == [1]


@pytest.mark.parametrize("change", [{"max_tokens": 12}, {"max_chunks": 1}])
def test_another_cut_is_another_fingerprint(tiny_folder, change):
    assert tiny(tiny_folder, **change).fingerprint != tiny(tiny_folder).fingerprint


def test_batch_size_is_no_part_of_the_fingerprint(tiny_folder):
    assert tiny(tiny_folder, batch_size=1).fingerprint == tiny(tiny_folder).fingerprint


def test_other_weights_are_another_fingerprint(tiny_folder, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(tiny_folder, folder)
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        weights.write(b"\x01")
    assert tiny(folder).fingerprint != tiny(tiny_folder).fingerprint


def test_unknown_weights_are_refused(tiny_folder):
    with pytest.raises(ModelError, match="sha256"):
        TransformersEncoder(
            tiny_folder, max_tokens=16, max_chunks=1, batch_size=4, weights_sha256="0" * 64
        )


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        tiny(tmp_path)


def test_a_folder_encoder_needs_a_path():
    config = EncoderConfig(
        name="folder", path=None, max_tokens=16, max_chunks=1, batch_size=1, max_texts=1
    )
    with pytest.raises(ParameterError, match="path"):
        open_encoder(config)


def test_the_packaged_model_knows_what_texts_are_about():
    config = EncoderConfig(
        name="minilm", path=None, max_tokens=32, max_chunks=1, batch_size=8, max_texts=1
    )
    encoder = open_encoder(config)
    cat, kitten, invoice = encoder.encode(
        ["A cat sleeps on the sofa.", "A kitten is napping on a couch.", "Pay the invoice by May."]
    )
    assert encoder.width == 384
    assert cat @ kitten > 0.5 > cat @ invoice
