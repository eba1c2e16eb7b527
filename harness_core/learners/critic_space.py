"""Complete attempts as the critic sees them: the last hidden layer of its terminal heads."""

import numpy as np
import torch

from harness_core.features.batch import Floats
from harness_core.learners.networks import CriticNetwork


@torch.inference_mode()
def attempt_space(network: CriticNetwork, x: Floats) -> Floats:
    """Rows [N, members · hidden] of complete attempts [state | set-relative] of [N, Ds + Dr].

    What the heads add up to a logit. Attempts that are near each other there get like scores for
    like reasons.
    """
    n_state = network.spec.n_state
    rows = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    scaled = torch.cat(
        [
            network.terminal_state_scaler(rows[:, :n_state]),
            network.relative_scaler(rows[:, n_state:]),
        ],
        dim=1,
    )
    mlp = network.terminal_mlp
    hidden = scaled.expand(mlp.weights[0].shape[0], *scaled.shape)
    for weight, bias in zip(mlp.weights[:-1], mlp.biases[:-1], strict=True):
        hidden = torch.relu(torch.baddbmm(bias, hidden, weight))
    flat: Floats = hidden.transpose(0, 1).reshape(len(rows), -1).numpy()
    return flat
