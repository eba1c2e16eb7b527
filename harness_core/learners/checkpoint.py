"""Trained networks in a folder: `weights.safetensors` and `network.json`, nothing executable.

Trees (`learners.trees`, as text) and a linear head (`learners.linear`) lie beside them, where there
are any.
"""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from harness_core.errors import FeatureSchemaMismatch, ModelError
from harness_core.features.batch import Flags, Floats
from harness_core.learners.linear import LinearHead, load_linear, save_linear
from harness_core.learners.networks import N_KINDS, CriticNetwork, NetworkSpec
from harness_core.learners.threads import alone_for_few_rows
from harness_core.learners.trees import NO_TREES, TreeHeads, load_trees, save_trees
from harness_core.tables import publish_bytes

WEIGHTS: Final = "weights.safetensors"
NETWORK: Final = "network.json"

_MAX_HEADER_BYTES: Final = 1 << 20
_MAX_JSON_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 8
_BATCH: Final = 4096


class Critic:
    """Trained networks, trees and a linear head, numpy in and numpy out.

    Rows are scored in batches of bounded size.
    """

    def __init__(
        self,
        network: CriticNetwork,
        trees: TreeHeads = NO_TREES,
        linear: LinearHead | None = None,
    ) -> None:
        self._trees = trees
        self._linear = linear
        self._network = network.eval().requires_grad_(requires_grad=False)
        self._sum_weight = np.asarray(network.spec.sum_weight, dtype=np.float32)

    @property
    def network(self) -> CriticNetwork:
        """The networks without what stands beside them."""
        return self._network

    @property
    def trees(self) -> TreeHeads:
        """The trees beside the networks, if any."""
        return self._trees

    @property
    def linear(self) -> LinearHead | None:
        """The linear head beside the networks, if there is one."""
        return self._linear

    @property
    def expected(self) -> NetworkSpec:
        """Widths of the inputs, components of the outputs."""
        return self._network.spec

    @alone_for_few_rows
    @torch.inference_mode()
    def terminal(self, x: Floats) -> Floats:
        """Logits [K] of success of complete attempts, from [state | set-relative] [K, Ds + Dr].

        The network's and, where there are others, theirs added: uncalibrated, since all have learnt
        the same. Stage two calibrates them.
        """
        spec = self.expected
        self._check("terminal input", x, spec.n_state + spec.n_relative)
        n = spec.n_state
        parts = [
            self._network.terminal(rows[:, :n], rows[:, n:]).mean(dim=0) for rows in _batches(x)
        ]
        logits, trees = _array(parts), self._trees.score_attempts(x)
        if trees is not None:
            logits = logits + trees
        return logits if self._linear is None else logits + self._linear.score(x)

    def running(self, state: Floats) -> Floats:
        """How promising attempts are that still run, [K]: log-odds of trees, else the total V."""
        self._check("state", state, self.expected.n_state)
        score = self._trees.score_running(state)
        if score is not None:
            return score
        total: Floats = self.value(state).sum(axis=1)
        return total

    @alone_for_few_rows
    @torch.inference_mode()
    def q(self, state: Floats, action: Floats) -> Floats:
        """Expected return by component [K, C], the lower of the twins, in weighted-reward units.

        A component of weight 0 is 0, so that the sum over components is the total.
        """
        spec = self.expected
        self._check("state", state, spec.n_state)
        self._check("action", action, spec.n_action + spec.n_relative)
        pairs = zip(_batches(state), _batches(action), strict=True)
        parts = [self._network.q(s, a).amin(dim=0) for s, a in pairs]
        return _array(parts) * self._sum_weight

    @alone_for_few_rows
    @torch.inference_mode()
    def value(self, state: Floats) -> Floats:
        """Worth of states by component, [K, C], in weighted-reward units; weight 0 gives 0."""
        self._check("state", state, self.expected.n_state)
        parts = [self._network.value(rows) for rows in _batches(state)]
        return _array(parts) * self._sum_weight

    @alone_for_few_rows
    @torch.inference_mode()
    def policy(self, state: Floats, legal: Flags | None = None) -> Floats:
        """Log-probability of each intervention, [K, kinds], in the order of `ActionKind`.

        −∞ where `legal` [K, kinds] is false; without it, or in a row without any, all words count.
        """
        self._check("state", state, self.expected.n_state)
        allowed = np.ones((len(state), N_KINDS), dtype=np.bool_) if legal is None else legal
        starts = range(0, max(len(state), 1), _BATCH)
        masks = [torch.from_numpy(allowed[first : first + _BATCH]) for first in starts]
        pairs = zip(_batches(state), masks, strict=True)
        return _array([self._network.policy(rows, mask) for rows, mask in pairs])

    def _check(self, name: str, rows: Floats, width: int) -> None:
        if rows.ndim != 2 or rows.shape[1] != width:  # noqa: PLR2004  # rows and columns
            raise FeatureSchemaMismatch(
                expected=f"{name} of width {width}", found=f"an array of shape {rows.shape}"
            )


def save_critic(
    folder: Path,
    network: CriticNetwork,
    trees: TreeHeads = NO_TREES,
    linear: LinearHead | None = None,
) -> None:
    """Write both files, and what stands beside the networks; equal networks give equal bytes."""
    weights = {name: value.detach().contiguous() for name, value in network.state_dict().items()}
    publish_bytes(folder / WEIGHTS, save_tensors(weights))
    publish_bytes(folder / NETWORK, network.spec.model_dump_json(indent=2).encode() + b"\n")
    save_trees(folder, trees)
    save_linear(folder, linear)


def load_critic(folder: Path) -> Critic:
    """Read and verify both files.

    Raises:
        ModelError: a file is missing or malformed, or a weight has another name, shape or type
            than `network.json` says, or is not finite.
    """
    network = CriticNetwork(_read_spec(folder / NETWORK))
    path = folder / WEIGHTS
    expected = network.state_dict()
    content = _read_weights(path, max_bytes=sum(w.nbytes for w in expected.values()))
    try:
        found = load_tensors(content)
    except (SafetensorError, ValueError) as error:
        raise ModelError(f"{path} is not a safetensors file: {error}") from error
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected:
            raise ModelError(f"{path}: {name} is {'missing' if name in expected else 'unknown'}")
        if found[name].shape != expected[name].shape or found[name].dtype != expected[name].dtype:
            raise ModelError(
                f"{path}: {name} is {_kind(found[name])}, expected {_kind(expected[name])}"
            )
        if not torch.isfinite(found[name]).all():
            raise ModelError(f"{path}: {name} holds a value that is not finite")
    network.load_state_dict(found)
    spec = network.spec
    width = spec.n_state + spec.n_relative
    trees = load_trees(folder, n_attempt=width, n_state=spec.n_state)
    return Critic(network, trees, load_linear(folder, width=width))


def _read_spec(path: Path) -> NetworkSpec:
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise ModelError(f"{path} is larger than {_MAX_JSON_BYTES} bytes")
        return NetworkSpec.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelError(f"{path}: {where}: {first['msg']}") from error


def _read_weights(path: Path, *, max_bytes: int) -> bytes:
    """The file's bytes, after its size and the header length that it claims were bounded."""
    limit = _LENGTH_BYTES + _MAX_HEADER_BYTES + max_bytes
    try:
        size = path.stat().st_size
        if size > limit:
            raise ModelError(f"{path}: {size} bytes are more than the {limit} that fit the network")
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    header = int.from_bytes(content[:_LENGTH_BYTES], "little")
    if len(content) < _LENGTH_BYTES or header > _MAX_HEADER_BYTES:
        raise ModelError(f"{path}: its header claims {header} bytes")
    return content


def _batches(rows: Floats) -> list[torch.Tensor]:
    tensor = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
    return [tensor[first : first + _BATCH] for first in range(0, max(len(tensor), 1), _BATCH)]


def _array(parts: list[torch.Tensor]) -> Floats:
    array: Floats = torch.cat(parts).numpy()
    return array


def _kind(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"
