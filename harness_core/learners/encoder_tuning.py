"""Fine-tunes an encoder together with a head that tells good attempts from bad ones.

The head sees the texts of a state as features do (one vector a text) and the products of the
task's vector with the others, and is trained like the critic's terminal head: cross-entropy and a
pairwise term within decision groups. Afterwards it is thrown away: what it taught the encoder
stays. Update u draws from a generator seeded by (seed, u) alone.
"""

import logging
import re
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness_core.errors import ModelError, ParameterError
from harness_core.features.config import FinetuneConfig, LoraConfig
from harness_core.features.encoder import TransformersEncoder, pool_tokens
from harness_core.features.tuned_weights import TunedWeights
from harness_core.features.tuning import STATE_TEXTS, TextGroup, Tuning
from harness_core.learners.batches import Layout
from harness_core.learners.losses import binary_cross_entropy, pairwise_logistic_loss

_LOG: Final = logging.getLogger("harness")
_N_VECTORS: Final = 2 * len(STATE_TEXTS) - 1
"""Each text, and the product of the task's with each of the others."""
_ATTENTION: Final = re.compile(r"att(n|ention)", re.IGNORECASE)
_N_REPORTED: Final = 4
"""Parts of training whose mean loss is reported."""


def tune_encoder(
    encoder: TransformersEncoder, groups: Sequence[TextGroup], config: FinetuneConfig
) -> Tuning:
    """Fit the encoder to the outcomes of attempts; it is left as it is, the change is returned.

    Raises:
        ParameterError: a GPU is asked for and there is none, or the extra `finetune` is missing.
        ModelError: the encoder has no such layers, or training diverged.
    """
    device = _device(config)
    before = encoder.fresh_model()
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        model = _trainable(encoder.fresh_model(), config).to(device)
        head = nn.Linear(_N_VECTORS * encoder.width, 1).to(device)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        tokens = _Tokens(encoder, groups)
        losses = _train(model, head, tokens, groups, config)
    changed = _changed(_merged(model).cpu(), before)
    texts = {text for group in groups for item in group.texts for text in item if text}
    tasks = tuple(sorted({group.task_id for group in groups}))
    parts = np.array_split(losses, min(_N_REPORTED, len(losses)))
    figures = {
        "n_tasks": len(tasks),
        "n_attempts": sum(len(group.success) for group in groups),
        "n_texts": len(texts),
        "n_changed_weights": int(sum(weight.size for weight in changed.values())),
        "loss": [round(float(part.mean()), 4) for part in parts],
    }
    return Tuning(TunedWeights(changed), tasks, figures)


class _Tokens:
    """The chunks of every text, tokenised once."""

    def __init__(self, encoder: TransformersEncoder, groups: Sequence[TextGroup]) -> None:
        texts = sorted({text for group in groups for item in group.texts for text in item})
        self.chunks = {text: list(encoder.chunks(text)) for text in texts}
        self.pad: int = encoder.tokenizer().pad_token_id


class _Draw(NamedTuple):
    """The attempts of one update."""

    texts: list[tuple[str, ...]]  # [N] texts of a state
    success: Tensor  # [N]
    layout: Layout


def _train(
    model: Any,
    head: nn.Linear,
    tokens: _Tokens,
    groups: Sequence[TextGroup],
    config: FinetuneConfig,
) -> list[float]:
    """Loss of every update."""
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": learning, "lr": config.learning_rate},
            {"params": head.parameters(), "lr": config.head_learning_rate},
        ],
        weight_decay=config.weight_decay,
    )
    losses: list[float] = []
    for update in range(config.n_updates):
        draw = _draw(groups, config, np.random.default_rng([config.seed, update]))
        with _precision(model):
            logits = head(_vectors(model, tokens, draw.texts))[:, 0].float().cpu()
        loss = _loss(logits, draw, config)
        if not torch.isfinite(loss):
            raise ModelError(
                f"fine-tuning diverged after {update} updates; lower "
                "features.encoder.finetune.learning_rate"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # no annotations upstream
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        if (update + 1) % 50 == 0:
            _LOG.info("fine-tuning: %d of %d updates", update + 1, config.n_updates)
    return losses


def _draw(groups: Sequence[TextGroup], config: FinetuneConfig, rng: np.random.Generator) -> _Draw:
    texts: list[tuple[str, ...]] = []
    success: list[float] = []
    lengths: list[int] = []
    for number in rng.integers(len(groups), size=config.n_groups):
        group = groups[number]
        n = min(config.group_size, len(group.success))
        for index in rng.choice(len(group.success), size=n, replace=False):
            texts.append(group.texts[index])
            success.append(float(group.success[index]))
        lengths.append(n)
    return _Draw(texts, torch.tensor(success), Layout.of(np.asarray(lengths)))


def _loss(logits: Tensor, draw: _Draw, config: FinetuneConfig) -> Tensor:
    """The objective of the critic's terminal head."""
    layout = draw.layout
    pairs = pairwise_logistic_loss(layout.pad(logits), layout.pad(draw.success), layout.valid)
    return binary_cross_entropy(logits, draw.success) + config.pairwise_weight * pairs


def _vectors(model: Any, tokens: _Tokens, texts: Sequence[tuple[str, ...]]) -> Tensor:
    """What the head sees of states, [N, vectors × width]; "no text" is zero, as in features."""
    distinct = sorted({text for item in texts for text in item if text})
    place = {text: index for index, text in enumerate(distinct)}
    vectors = _encode(model, tokens, distinct)
    padded = torch.cat([vectors, vectors.new_zeros((1, vectors.shape[1]))])
    columns = [
        padded[[place.get(item[column], len(distinct)) for item in texts]]
        for column in range(len(STATE_TEXTS))
    ]
    # Unit vectors have tiny products; this brings them to the scale of the vectors themselves.
    scale = padded.shape[1] ** 0.5
    products = [columns[0] * other * scale for other in columns[1:]]
    result: Tensor = torch.cat([*columns, *products], dim=1) * scale
    return result


def _encode(model: Any, tokens: _Tokens, texts: Sequence[str]) -> Tensor:
    """Vectors of texts, with gradient: mean over chunks, L2 norm 1, as the encoder does it."""
    chunks = [(row, chunk) for row, text in enumerate(texts) for chunk in tokens.chunks[text]]
    if not chunks:
        return torch.zeros((0, int(model.config.hidden_size)), device=model.device)
    pooled = pool_tokens(model, [chunk for _, chunk in chunks], tokens.pad)
    sums = pooled.new_zeros((len(texts), pooled.shape[1]))
    rows = torch.tensor([row for row, _ in chunks], device=pooled.device)
    result: Tensor = functional.normalize(sums.index_add(0, rows, pooled), dim=1)
    return result


def _trainable(model: Any, config: FinetuneConfig) -> Any:
    """The model with only those weights learning that the configuration names."""
    model.requires_grad_(requires_grad=False)
    if config.lora is not None:
        return _with_lora(model, config.lora)
    layers = _layers(model)
    wanted = config.last_layers or 0
    if wanted > len(layers):
        raise ModelError(
            f"features.encoder.finetune.last_layers is {wanted}; the encoder has {len(layers)}"
        )
    for layer in layers[len(layers) - wanted :]:
        # Frozen layers stay as they score; those that learn drop out.
        layer.requires_grad_(requires_grad=True).train()
    return model


def _layers(model: Any) -> Sequence[nn.Module]:
    """The longest list of modules: a transformer's layers."""
    lists: list[nn.ModuleList] = [
        module for module in model.modules() if isinstance(module, nn.ModuleList)
    ]
    if not lists:
        raise ModelError("features.encoder.finetune: the encoder has no list of layers")
    lists.sort(key=len)
    return list(lists[-1])


def _with_lora(model: Any, config: LoraConfig) -> Any:
    try:
        from peft import LoraConfig as PeftConfig  # noqa: PLC0415  # an extra
        from peft import get_peft_model  # noqa: PLC0415  # as above
    except ImportError as error:
        raise ParameterError(
            "features.encoder.finetune.lora needs the package peft: pip install "
            "'harness-core[finetune]', or set last_layers"
        ) from error
    matrices = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and _ATTENTION.search(name)
    ]
    if not matrices:
        raise ModelError("features.encoder.finetune.lora: the encoder has no attention matrices")
    settings = PeftConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=matrices,
    )
    with warnings.catch_warnings():
        # It asks transformers for an attribute under its old name.
        warnings.simplefilter("ignore", FutureWarning)
        return get_peft_model(model, settings)


def _merged(model: Any) -> Any:
    """A plain transformer again, low-rank changes added to its matrices."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def _changed(model: Any, before: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors that differ from the model that training started from."""
    original = before.state_dict()
    return {
        name: weight.detach().numpy()
        for name, weight in model.state_dict().items()
        if not torch.equal(weight, original[name])
    }


def _device(config: FinetuneConfig) -> torch.device:
    has_gpu = torch.cuda.is_available()
    if config.accelerator == "gpu" and not has_gpu:
        raise ParameterError(
            "features.encoder.finetune.accelerator: no GPU is visible; use auto or cpu"
        )
    return torch.device("cuda" if has_gpu and config.accelerator != "cpu" else "cpu")


def _precision(model: Any) -> AbstractContextManager[Any]:
    """bfloat16 for matrix products on a GPU; weights stay in single precision."""
    kind = model.device.type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda")
