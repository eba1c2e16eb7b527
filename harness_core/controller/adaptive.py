"""Whether one more candidate is worth its price.

Candidates of one state are draws from an unknown distribution of probabilities of success. What is
known of it is a Dirichlet process: the n draws so far, and a prior that weighs as much as one draw.
The prior is what candidates were like on calibration tasks, or even on [0, 1] where that is not
known. The gain of one more is then

    E[max(p − p_best, 0)] = (Σ_i max(p_i − p_best, 0) + E_prior[max(p − p_best, 0)]) / (n + 1)

which never grows with further candidates that are no better: sampling ends by itself.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

PRIOR_WEIGHT: Final = 1.0
"""How many draws the prior counts as."""


def expected_gain(
    probabilities: Sequence[float], *, best: float, prior: Sequence[float] = ()
) -> float:
    """Expected gain in probability of success of one more candidate, in [0, 1].

    Args:
        probabilities: of success, of the candidates so far, in [0, 1]; possibly none.
        best: that of the candidate that would be chosen now; 0 where nobody would.
        prior: equally likely probabilities of a candidate of a new task; none for even on [0, 1].
    """
    so_far = float(np.maximum(np.asarray(probabilities, dtype=np.float64) - best, 0.0).sum())
    before = (
        float(np.maximum(np.asarray(prior, dtype=np.float64) - best, 0.0).mean())
        if prior
        else (1.0 - best) ** 2 / 2.0
    )
    return (so_far + PRIOR_WEIGHT * before) / (len(probabilities) + PRIOR_WEIGHT)
