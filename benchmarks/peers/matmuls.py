"""The matrix products of one update of IQL and nothing else, as `torch.mm` computes them.

Forward: V on states, again after its step and on next states; both target twins; both twins; the
actor. Backward: V, both twins, actor, without gradients to inputs. An implementation can be faster
only with fewer products or another library of them.
"""

import time
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor

from benchmarks.agent_log import N_KINDS, AgentLog
from benchmarks.peers.trainer import Shape


class Matmuls:
    """Measures products of the right shapes, written to memory that is already there."""

    name: Final = "matmul_time"

    def __init__(self, log: AgentLog, shape: Shape) -> None:
        n_state, n_action = log.arrays.state.shape[1], log.arrays.action.shape[1]
        hidden = shape.hidden_sizes
        value, twin = (n_state, *hidden, 1), (n_state + n_action, *hidden, 1)
        actor = (n_state, *hidden, N_KINDS)
        forward = [value] * 3 + [twin] * 4 + [actor]
        backward = [value, twin, twin, actor]
        generator = torch.Generator().manual_seed(shape.seed)
        b = shape.batch_size
        products = [(b, i, o) for sizes in forward for i, o in pairwise(sizes)]
        for sizes in backward:
            products += [(i, b, o) for i, o in pairwise(sizes)]
            products += [(b, o, i) for i, o in list(pairwise(sizes))[1:]]
        self._products = [_Product(*sizes, generator=generator) for sizes in products]
        self._n_threads = shape.n_threads

    @torch.no_grad()
    def seconds_per_update(self, n_updates: int) -> float:
        """All products of so many updates."""
        torch.set_num_threads(self._n_threads)
        began = time.perf_counter()
        for _ in range(n_updates):
            for product in self._products:
                torch.mm(product.left, product.right, out=product.out)
        return (time.perf_counter() - began) / n_updates


class _Product:
    def __init__(self, n: int, inner: int, m: int, *, generator: torch.Generator) -> None:
        self.left: Tensor = torch.randn(n, inner, generator=generator)
        self.right: Tensor = torch.randn(inner, m, generator=generator)
        self.out: Tensor = torch.empty(n, m)
