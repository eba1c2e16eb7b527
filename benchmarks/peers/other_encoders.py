"""Other ways to turn texts into vectors: the same transformer in ONNX Runtime, and token vectors.

Each has the tokens and the pooling of the transformer it is made of, so that vectors of the same
space are compared and nothing but the arithmetic differs.
"""

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import torch
from transformers import AutoModel

from harness_core.errors import ParameterError
from harness_core.features.batch import Floats, Integers
from harness_core.features.encoder import TransformersEncoder, _Loaded

_OPSET: Final = 17
_TOKENS_PER_PASS: Final = 512
_RANK_WEIGHT: Final = 1e-4
"""a of the weight a / (a + p) of a token of probability p (Arora et al., 2017)."""
_PACKAGES: Final = ("onnx", "onnxruntime")


def has_onnx() -> bool:
    """Whether the packages are there; they come with the extra `bench`."""
    return all(importlib.util.find_spec(name) for name in _PACKAGES)


class OnnxModel:
    """A transformer exported to ONNX, called like the model that it was exported from."""

    device: Final = torch.device("cpu")

    def __init__(self, path: Path, *, n_threads: int) -> None:
        import onnxruntime  # noqa: PLC0415  # only with the extra `bench`

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = n_threads
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, *, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> "_Output":
        """Hidden states [B, T, width] of tokens [B, T]."""
        inputs = {"input_ids": input_ids.numpy(), "attention_mask": attention_mask.numpy()}
        return _Output(torch.from_numpy(self._session.run(None, inputs)[0]))


class _Output(NamedTuple):
    last_hidden_state: torch.Tensor


def onnx_encoders(
    folder: Path, settings: Mapping[str, Any], *, n_threads: int, scratch: Path
) -> dict[str, TransformersEncoder]:
    """The transformer of a folder as ONNX in full precision and in int8, by name.

    int8: weights by channel, activations by tensor, at run time (`quantize_dynamic`).

    Raises:
        ParameterError: a package is missing.
    """
    if not has_onnx():
        raise ParameterError(
            f"{' and '.join(_PACKAGES)} are needed: pip install harness-core[bench]"
        )
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415  # as above

    full, small = scratch / "full.onnx", scratch / "int8.onnx"
    _export(_plain_model(folder), full)
    # By tensor the fidelity is far worse: some channels hold weights of another order.
    quantize_dynamic(full, small, weight_type=QuantType.QInt8, per_channel=True)
    return {
        name: _with_model(folder, settings, OnnxModel(path, n_threads=n_threads))
        for name, path in (("onnx_fp32", full), ("onnx_int8", small))
    }


def unpacked_encoder(folder: Path, settings: Mapping[str, Any]) -> TransformersEncoder:
    """The transformer of a folder with linear layers as torch has them."""
    return _with_model(folder, settings, _plain_model(folder))


def _with_model(folder: Path, settings: Mapping[str, Any], model: Any) -> TransformersEncoder:
    encoder = TransformersEncoder(folder, **settings)
    encoder._loaded = _Loaded(model, encoder._load().tokenizer)
    return encoder


def _plain_model(folder: Path) -> Any:
    model = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    return model.eval().float()


class StaticEncoder:
    """One vector a token, whatever stands around it: the transformer's answer to the token alone.

    A text is the mean of its tokens, weighted by a / (a + p), with p from the rank of the token by
    Zipf's law, since vocabularies are sorted by frequency; L2 norm 1. Nothing is downloaded.
    """

    fingerprint = "static"

    def __init__(self, vectors: Floats, transformer: TransformersEncoder) -> None:
        self._vectors = vectors  # [tokens, width], weighted
        self._transformer = transformer
        self.width = vectors.shape[1]

    @classmethod
    def of(cls, transformer: TransformersEncoder, texts: Sequence[str]) -> Self:
        """Ask the transformer for every token of some texts; only those can be encoded then."""
        used = np.unique([token for text in texts for token in _body(transformer, text)])
        return cls._of_tokens(transformer, used)

    @classmethod
    def of_vocabulary(cls, transformer: TransformersEncoder) -> Self:
        """Ask the transformer for every token that there is."""
        return cls._of_tokens(transformer, np.arange(len(transformer._load().tokenizer)))

    @classmethod
    def _of_tokens(cls, transformer: TransformersEncoder, used: Integers) -> Self:
        model, tokenizer = transformer._load()
        first, *_, last = tokenizer("")["input_ids"]
        starts = range(0, len(used), _TOKENS_PER_PASS)
        passes = [torch.from_numpy(used[i : i + _TOKENS_PER_PASS]) for i in starts]
        with torch.inference_mode():
            parts = [_mean_of(model, _framed(tokens, first, last)) for tokens in passes]
        answers = torch.nn.functional.normalize(torch.cat(parts), dim=1).numpy()
        # What all tokens have in common says nothing, and would make all texts alike.
        answers -= answers.mean(axis=0)
        probability = 1.0 / (used + 1.0) / np.log(len(tokenizer))
        vectors = np.zeros((len(tokenizer), transformer.width), dtype=np.float32)
        vectors[used] = answers * (_RANK_WEIGHT / (_RANK_WEIGHT + probability))[:, None]
        return cls(vectors, transformer)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width], in order."""
        bodies = [_body(self._transformer, text) for text in texts]
        sums = np.stack([self._vectors[tokens].sum(axis=0) for tokens in bodies])
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _body(transformer: TransformersEncoder, text: str) -> list[int]:
    """The tokens of a text without the frame of its chunks."""
    return [token for chunk in transformer.chunks(text) for token in chunk[1:-1]]


def _framed(tokens: torch.Tensor, first: int, last: int) -> torch.Tensor:
    edge = torch.ones_like(tokens)
    return torch.stack([edge * first, tokens, edge * last], dim=1)


def _mean_of(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    hidden: torch.Tensor = model(
        input_ids=tokens, attention_mask=torch.ones_like(tokens)
    ).last_hidden_state
    return hidden.mean(dim=1)


class _Plain(torch.nn.Module):
    """A model with tensors in and a tensor out, as the exporter wants it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self._model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def _export(model: Any, path: Path) -> None:
    example = torch.ones((2, 16), dtype=torch.long)
    free = {0: "batch", 1: "tokens"}
    with warnings.catch_warnings():
        # The exporter that replaces this one needs one package more, for the same graph.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Plain(model),
            (example, example),
            path,
            input_names=["input_ids", "attention_mask"],
            output_names=["hidden"],
            dynamic_axes={"input_ids": free, "attention_mask": free, "hidden": free},
            opset_version=_OPSET,
            dynamo=False,
        )
