"""The weights of an encoder that fine-tuning changed, kept apart from the model that they change.

Only changed tensors are stored: the untouched ones are the model in the folder, whose digest is
part of the fingerprint anyway.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from harness_core.errors import FingerprintMismatch, ModelError
from harness_core.features.batch import Floats
from harness_core.tables import publish_bytes

FILE_NAME: Final = "encoder.safetensors"


class TunedWeights:
    """Changed tensors by their name in the model."""

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        self._tensors = {
            name: np.ascontiguousarray(tensor, dtype=np.float32)
            for name, tensor in sorted(tensors.items())
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the changed tensors, sorted."""
        return tuple(self._tensors)

    @cached_property
    def content(self) -> bytes:
        """The file: equal weights, equal bytes."""
        return safetensors.numpy.save(self._tensors)

    @cached_property
    def sha256(self) -> str:
        """Digest of the file; part of the encoder's fingerprint."""
        return hashlib.sha256(self.content).hexdigest()

    def save(self, folder: Path) -> None:
        """Write into the folder of a pipeline."""
        publish_bytes(folder / FILE_NAME, self.content)

    @classmethod
    def load(cls, folder: Path, *, sha256: str) -> "TunedWeights":
        """Read what `save` wrote.

        Raises:
            ModelError: the file is missing or damaged.
            FingerprintMismatch: these are other weights.
        """
        path = folder / FILE_NAME
        try:
            tuned = cls(safetensors.numpy.load(path.read_bytes()))
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path}: no usable encoder weights: {error}") from error
        if tuned.sha256 != sha256:
            raise FingerprintMismatch(
                expected=f"{sha256} ({FILE_NAME})", found=f"{tuned.sha256} ({FILE_NAME})"
            )
        return tuned

    def put_into(self, model: Any) -> None:
        """Give a transformer these weights.

        Raises:
            ModelError: the model has no such tensor, or one of another shape.
        """
        import torch  # noqa: PLC0415  # heavy; only those who encode pay for it

        known = model.state_dict()
        for name, tensor in self._tensors.items():
            if name not in known or tuple(known[name].shape) != tensor.shape:
                raise ModelError(f"fine-tuned weights do not fit the encoder: {name}")
        # A copy: numpy's view of a file's bytes cannot be written to.
        weights = {name: torch.from_numpy(tensor.copy()) for name, tensor in self._tensors.items()}
        model.load_state_dict(weights, strict=False)
