"""The controller's networks: twin Q, V, terminal head and actor over interventions.

Letters: B rows, M members, C reward components, Ds/Da/Dr widths of state, action and set-relative
vectors. Each network has its own trunk, so each can be kept at its own best moment of training.
Networks read rows in standard deviations: a method without `_of` standardises what it is given.
Dropout is an argument of a call, not a mode of a module: what scores never drops anything.
"""

from math import isfinite
from typing import Final, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from harness_core.learners.batches import Batch
from harness_core.learners.perceptrons import StackedMlp
from harness_core.records import Record
from harness_core.trajectories.vocabulary import ActionKind

N_TWINS: Final = 2
N_KINDS: Final = len(ActionKind)
_CLIP: Final = 5.0
"""Standard deviations beyond which an input says no more; keeps odd states from exploding."""
_ROWS_AT_ONCE: Final = 1 << 16


class NetworkSpec(Record):
    """Everything that decides the shapes of the weights, and what the outputs mean."""

    n_state: int = Field(ge=1, le=1 << 16)
    n_action: int = Field(ge=1, le=1 << 16)
    """Da, without the set-relative columns."""
    n_relative: int = Field(ge=0, le=1 << 16)
    hidden_sizes: tuple[int, ...] = Field(min_length=1, max_length=16)
    n_members: int = Field(ge=1, le=64)
    """Terminal heads whose logits are averaged."""
    components: tuple[str, ...] = Field(min_length=1, max_length=256)
    weights: tuple[float, ...]
    """Weight of each component; an output is in units of weight times component. A component of
    weight 0 is learnt unscaled and does not count in the sum."""

    @model_validator(mode="after")
    def _is_coherent(self) -> Self:
        if len(self.weights) != len(self.components):
            raise ValueError("weights and components differ in length")
        if not all(isfinite(weight) for weight in self.weights):
            raise ValueError("a weight is not a finite number")
        if not all(1 <= size <= 1 << 14 for size in self.hidden_sizes):
            raise ValueError("a hidden size is out of bounds")
        return self

    @property
    def reward_scale(self) -> tuple[float, ...]:
        """What a raw component is multiplied by before it is learnt."""
        return tuple(weight or 1.0 for weight in self.weights)

    @property
    def sum_weight(self) -> tuple[float, ...]:
        """1 for a component that counts in the sum of outputs, 0 for one that does not."""
        return tuple(1.0 if weight else 0.0 for weight in self.weights)


class Standardise(nn.Module):
    """(x − shift) / scale, clipped; both are estimated on training rows and saved as weights."""

    shift: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def fit(self, rows: Tensor, index: Tensor) -> None:
        """Estimate both from the chosen rows of [N, D]; a constant column keeps scale 1.

        A bounded number of rows at a time, since the table may be larger than memory. Parts are
        merged as in Chan, Golub & LeVeque (1983).
        """
        if not len(index) or not rows.shape[1]:
            return
        count, mean, squares = 0, *rows.new_zeros((2, rows.shape[1]), dtype=torch.float64)
        for part in torch.split(index, _ROWS_AT_ONCE):
            variance, part_mean = torch.var_mean(rows[part].double(), dim=0, correction=0)
            share = len(part) / (count + len(part))
            gap = part_mean - mean
            squares = squares + len(part) * variance + gap.square() * count * share
            mean = mean + gap * share
            count += len(part)
        deviation = (squares / count).sqrt()
        self.shift.copy_(mean)
        self.scale.copy_(torch.where(deviation > 1e-4, deviation, 1.0))  # noqa: PLR2004  # rounding noise of float32

    def forward(self, rows: Tensor) -> Tensor:
        """Rows [N, D] in standard deviations."""
        return _standardised(rows, self)


class CriticNetwork(nn.Module):
    """All networks of a controller.

    Outputs of `q` and `value` are return_shift + return_scale · network, in weighted-reward units.
    A component that no training row has keeps scale 0 and predicts exactly 0.
    """

    return_shift: Tensor  # [C]
    return_scale: Tensor  # [C]
    counts: Tensor  # [C] 1 for a component that counts in the sum

    def __init__(self, spec: NetworkSpec, *, seed: int = 0) -> None:
        super().__init__()
        self.spec = spec
        generator = torch.Generator().manual_seed(seed)
        n_components, hidden = len(spec.components), spec.hidden_sizes
        self.state_scaler = Standardise(spec.n_state)
        self.action_scaler = Standardise(spec.n_action + spec.n_relative)
        self.terminal_state_scaler = Standardise(spec.n_state)
        self.relative_scaler = Standardise(spec.n_relative)
        self.register_buffer("return_shift", torch.zeros(n_components))
        self.register_buffer("return_scale", torch.ones(n_components))
        self.register_buffer("counts", torch.tensor(spec.sum_weight), persistent=False)
        n_pair = spec.n_state + spec.n_action + spec.n_relative
        n_terminal = spec.n_state + spec.n_relative
        self.q_mlp = StackedMlp(N_TWINS, (n_pair, *hidden, n_components), generator=generator)
        self.value_mlp = StackedMlp(1, (spec.n_state, *hidden, n_components), generator=generator)
        self.actor_mlp = StackedMlp(1, (spec.n_state, *hidden, N_KINDS), generator=generator)
        self.terminal_mlp = StackedMlp(
            spec.n_members, (n_terminal, *hidden, 1), generator=generator
        )

    def value(self, state: Tensor) -> Tensor:
        """V(s), [B, C]."""
        return self.value_of(self.state_scaler(state))

    def q(self, state: Tensor, action: Tensor) -> Tensor:
        """Q(s, [a | set-relative]) of both twins, [2, B, C]."""
        return self.q_of(self._pair(state, action))

    def terminal(self, state: Tensor, relative: Tensor) -> Tensor:
        """Logit that a complete attempt succeeds, one a member, [M, B]."""
        scalers = self.terminal_state_scaler, self.relative_scaler
        return self.terminal_of(_standardised(torch.cat([state, relative], dim=1), *scalers))

    def policy(self, state: Tensor, legal: Tensor | None = None) -> Tensor:
        """Log-probability of each word of `ActionKind`, [B, kinds], −∞ for an illegal one.

        `legal` [B, kinds] says which interventions are legal; a row without any allows all words.
        """
        return self.policy_of(self.state_scaler(state), legal)

    def energy(self, state: Tensor, action: Tensor) -> Tensor:
        """Total Q of each twin, [2, B]."""
        return self.energy_of(self._pair(state, action))

    def standardised(self, batch: Batch) -> Batch:
        """The batch with all rows in standard deviations, as the methods `…_of` take them.

        Once an update: all networks of an update read the same rows.
        """
        rows, attempts, steps = batch
        of_pair = self.state_scaler, self.action_scaler
        of_attempt = self.terminal_state_scaler, self.relative_scaler
        return Batch(
            transitions=rows._replace(
                pair=_standardised(rows.pair, *of_pair), beyond=self.state_scaler(rows.beyond)
            ),
            attempts=None
            if attempts is None
            else attempts._replace(pair=_standardised(attempts.pair, *of_attempt)),
            steps=None
            if steps is None
            else steps._replace(pair=_standardised(steps.pair, *of_pair)),
        )

    def value_of(self, state: Tensor, *, dropout: float = 0.0) -> Tensor:
        """V of standardised states, [B, C]."""
        return self._to_reward_units(self.value_mlp(state, dropout=dropout)[0].float())

    def q_of(self, pair: Tensor, *, dropout: float = 0.0, mlp: StackedMlp | None = None) -> Tensor:
        """Q of standardised pairs, both twins, [2, B, C]; `mlp` may be the target network."""
        return self._to_reward_units((mlp or self.q_mlp)(pair, dropout=dropout).float())

    def terminal_of(self, pair: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Logits of standardised complete attempts, [M, B]."""
        output: Tensor = self.terminal_mlp(pair, dropout=dropout)
        return output[..., 0].float()

    def policy_of(
        self, state: Tensor, legal: Tensor | None = None, *, dropout: float = 0.0
    ) -> Tensor:
        """Log-probabilities in standardised states, [B, kinds]; `legal` as in `policy`."""
        output = self.actor_mlp(state, dropout=dropout)[0].float()
        if legal is not None:
            allowed = legal | ~legal.any(dim=1, keepdim=True)
            output = output.masked_fill(~allowed, -torch.inf)
        return functional.log_softmax(output, dim=-1)

    def energy_of(self, pair: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Total Q of standardised pairs, each twin, [2, B]."""
        return self.total(self.q_of(pair, dropout=dropout))

    def total(self, values: Tensor) -> Tensor:
        """Sum over the components that count, [..., C] → [...]."""
        return (values * self.counts).sum(dim=-1)

    def total_scale(self) -> Tensor:
        """Spread of the total return if its components were independent; at least 1e-6."""
        return self.total(self.return_scale.square()).sqrt().clamp(min=1e-6)

    def in_units_of_scale(self, values: Tensor) -> Tensor:
        """Values [..., C] divided by the scale of each component, so that all weigh alike."""
        return values / torch.where(self.return_scale > 0, self.return_scale, 1.0)

    def _to_reward_units(self, output: Tensor) -> Tensor:
        return torch.addcmul(self.return_shift, self.return_scale, output)

    def _pair(self, state: Tensor, action: Tensor) -> Tensor:
        scalers = self.state_scaler, self.action_scaler
        return _standardised(torch.cat([state, action], dim=1), *scalers)


def _standardised(rows: Tensor, *scalers: Standardise) -> Tensor:
    """(x − shift) / scale, clipped; the scalers share the columns between them."""
    shift, scale = (
        parts[0] if len(parts) == 1 else torch.cat(parts)
        for parts in ([each.shift for each in scalers], [each.scale for each in scalers])
    )
    return (rows - shift).div_(scale).clamp_(-_CLIP, _CLIP)
