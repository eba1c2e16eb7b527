"""Fits a network: Lightning's loop, early stopping, atomic checkpoints, exact resume."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, isnan
from pathlib import Path
from typing import Any, Final

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins import TorchCheckpointIO
from torch import Tensor
from torch.utils import deterministic as deterministic_memory
from torch.utils.data import DataLoader

from harness_core.errors import ParameterError
from harness_core.learners.catalogue import LEARNERS
from harness_core.learners.checks import PARTS, Check, check, part_weights, validation_batch
from harness_core.learners.config import TrainConfig
from harness_core.learners.data import TrainingData
from harness_core.learners.linear import LinearHead
from harness_core.learners.module import ControllerModule
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.learners.stream import BatchStream
from harness_core.learners.trees import NO_TREES, TreeHeads

_FILLS_MEMORY: Final = "fill_uninitialized_memory"
"""A property that the stubs of torch do not know."""


_LARGE_BLOCK_BYTES: Final = 31 << 20
"""Blocks of 32 MiB and more teach the allocator nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A trained network and how it came about."""

    network: CriticNetwork
    checks: tuple[Check, ...]
    """Looks at the validation tasks that decided where to stop."""
    kept_at: dict[str, int]
    """Part of the network → number of updates after which it was kept."""
    trees: TreeHeads = NO_TREES
    linear: LinearHead | None = None


def fit(
    data: TrainingData,
    spec: NetworkSpec,
    config: TrainConfig,
    *,
    validation: TrainingData | None = None,
    keep_at: Mapping[str, int] | None = None,
    checkpoint: Path | None = None,
    seed: int,
) -> Fitted:
    """Train one network.

    Args:
        data: what it learns from.
        spec: its shapes.
        config: the section `train`.
        validation: tasks to stop early on; each part is kept at its best check.
        keep_at: updates after which each part is kept, where there is nothing to stop early on;
            by default the last.
        checkpoint: file that training is saved to after every epoch, and resumed from if it exists.
        seed: decides initial weights, batches and dropout.

    Raises:
        ParameterError: a GPU is asked for and there is none.
        ModelError: the weights are no longer finite.
    """
    network = CriticNetwork(spec, seed=seed)
    fit_scalers(network, data)
    learner = LEARNERS[config.learner]
    module = ControllerModule(network, learner, config, seed=seed)
    n_updates = max(keep_at.values()) if keep_at else config.max_updates
    keeper = _Keeper(
        check=None if validation is None else _checker(module, validation, config, seed=seed),
        keep_at=keep_at or dict.fromkeys(PARTS, n_updates),
    )
    stream = BatchStream(
        data,
        config,
        seed=seed,
        first=lambda: int(module.n_updates),
        n_updates=n_updates,
        stops=() if keep_at is None else tuple(keep_at.values()),
    )
    with _quiet(), _local_torch_state(config):
        trainer = _trainer(config, n_updates, callbacks=[keeper, *_savers(checkpoint)])
        resumed = checkpoint if checkpoint is not None and checkpoint.exists() else None
        trainer.fit(module, DataLoader(stream, batch_size=None, num_workers=0), ckpt_path=resumed)
    network.cpu()
    keeper.restore(network)
    return Fitted(network=network, checks=tuple(keeper.checks), kept_at=dict(keeper.kept_at))


def fit_scalers(network: CriticNetwork, data: TrainingData) -> None:
    """Estimate all shifts and scales of inputs and returns on the training rows."""
    pool = data.transitions
    rows = torch.from_numpy(pool.rows())
    network.state_scaler.fit(pool.state, rows)
    network.action_scaler.fit(pool.action, rows)
    if data.attempts is not None:
        index = data.attempts.rows()
        source = torch.from_numpy(data.attempts.source_row[index])
        network.terminal_state_scaler.fit(data.attempts.state, source)
        network.relative_scaler.fit(data.attempts.other, torch.from_numpy(index))
    returns, mask = pool.returns[rows].double(), pool.mask[rows].double()
    count = mask.sum(dim=0)
    mean = (returns * mask).sum(dim=0) / count.clamp(min=1)
    variance = ((returns - mean).square() * mask).sum(dim=0) / count.clamp(min=1)
    deviation = variance.sqrt()
    network.return_shift.copy_(mean)
    network.return_scale.copy_(torch.where(deviation > 1e-4, deviation, 1.0) * (count > 0))  # noqa: PLR2004  # rounding noise of float32


class _Keeper(pl.Callback):  # type: ignore[misc]  # Lightning is untyped here
    """Checks after every epoch and remembers each part at its best, or at a given update."""

    def __init__(self, *, check: Callable[[], Check] | None, keep_at: Mapping[str, int]) -> None:
        self._check = check
        self._keep_at = dict(keep_at)
        self.checks: list[Check] = []
        self.kept_at: dict[str, int] = {}
        self._best: dict[str, float] = {}
        self._weights: dict[str, dict[str, Tensor]] = {}

    def on_train_batch_end(
        self,
        trainer: Any,  # noqa: ARG002  # Lightning's interface
        pl_module: ControllerModule,
        *_: Any,
    ) -> None:
        if self._check is None:
            update = int(pl_module.n_updates)
            for part, wanted in self._keep_at.items():
                if update == wanted:
                    self._keep(part, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: ControllerModule) -> None:  # noqa: ARG002  # Lightning's interface
        pl_module.check_finite()
        if self._check is None:
            return
        found = self._check()
        self.checks.append(found)
        losses = {"terminal": found.terminal_loss, "critic": found.critic_loss}
        for part, loss in losses.items():
            # Without anything to look at, the last moment is as good as any.
            if isnan(loss) or loss < self._best.get(part, float("inf")):
                self._best[part] = loss
                self._keep(part, pl_module)

    def restore(self, network: CriticNetwork) -> None:
        """Give every part the weights that were kept."""
        for weights in self._weights.values():
            network.load_state_dict(weights, strict=False)

    def state_dict(self) -> dict[str, Any]:
        return {
            "checks": [tuple(item) for item in self.checks],
            "kept_at": self.kept_at,
            "best": self._best,
            "weights": self._weights,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.checks = [Check(*item) for item in state_dict["checks"]]
        self.kept_at = state_dict["kept_at"]
        self._best = state_dict["best"]
        self._weights = state_dict["weights"]

    def _keep(self, part: str, module: ControllerModule) -> None:
        self.kept_at[part] = int(module.n_updates)
        self._weights[part] = part_weights(module.network, part)


class _Saver(pl.Callback):  # type: ignore[misc]  # Lightning is untyped here
    """Saves after every epoch; must come after the keeper, whose state it saves."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_train_epoch_end(self, trainer: Any, pl_module: ControllerModule) -> None:  # noqa: ARG002  # Lightning's interface
        trainer.save_checkpoint(self._path)


class AtomicCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]  # Lightning is untyped here
    """Checkpoints that are whole or absent: temporary neighbour, fsync, rename."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any = None,  # noqa: ARG002  # Lightning's interface
    ) -> None:
        """Write next to the target, then rename over it."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".tmp-{os.getpid()}-{target.name}")
        try:
            with temporary.open("wb") as sink:
                torch.save(checkpoint, sink)
                sink.flush()
                os.fsync(sink.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = "cpu",
        weights_only: bool | None = True,  # noqa: ARG002, FBT001, FBT002  # never anything else
    ) -> dict[str, Any]:
        """Read tensors and plain values only."""
        loaded: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
        return loaded


def _trainer(config: TrainConfig, n_updates: int, *, callbacks: list[Any]) -> pl.Trainer:
    has_gpu = torch.cuda.is_available()
    if config.accelerator == "gpu" and not has_gpu:
        raise ParameterError("train.accelerator: no GPU is visible; use auto or cpu")
    on_gpu = has_gpu and config.accelerator != "cpu"
    return pl.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=1,
        precision="bf16-mixed" if on_gpu else "32-true",
        deterministic=True,
        max_epochs=ceil(n_updates / config.check_every),
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO()],
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stderr.isatty(),
        num_sanity_val_steps=0,
    )


def _checker(
    module: ControllerModule, validation: TrainingData, config: TrainConfig, *, seed: int
) -> Callable[[], Check]:
    batch = module.network.standardised(validation_batch(validation, seed=seed))

    def look() -> Check:
        on_device = pl.LightningModule.transfer_batch_to_device(module, batch, module.device, 0)
        learner = LEARNERS[config.learner]
        return check(module.network, learner, on_device, config, update=int(module.n_updates))

    return look


def _savers(checkpoint: Path | None) -> list[Any]:
    return [] if checkpoint is None else [_Saver(checkpoint)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning's hints about hardware, loaders and loggers are not for our users."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\..*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _keep_freed_memory() -> None:
    """Let memory that an update frees stay with the process for the next one.

    The allocator of the C library gives freed memory back to the system, and gets it again page by
    page, unless it has seen a larger block freed. Elsewhere this does nothing.
    """
    torch.empty(_LARGE_BLOCK_BYTES, dtype=torch.uint8)


@contextmanager
def _local_torch_state(config: TrainConfig) -> Iterator[None]:
    """Threads, determinism and random state are ours while we train, and as before afterwards."""
    n_threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    fills_memory = getattr(deterministic_memory, _FILLS_MEMORY)
    torch.set_num_threads(config.n_threads)
    # Nothing here reads memory before it is written, so nobody need fill it first.
    setattr(deterministic_memory, _FILLS_MEMORY, False)
    _keep_freed_memory()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(n_threads)
        torch.use_deterministic_algorithms(deterministic)
        setattr(deterministic_memory, _FILLS_MEMORY, fills_memory)
