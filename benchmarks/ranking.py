"""How well actions of held-out runs are ranked, whoever ranks them."""

import numpy as np
from scipy.stats import rankdata, spearmanr

from benchmarks.agent_log import AgentLog
from benchmarks.peers.trainer import Ranker
from harness_core.features.batch import Flags, Floats


def quality(ranker: Ranker, held_out: AgentLog) -> dict[str, float]:
    """AUC of Q for the success of the run, and rank correlation with the true Q."""
    q = ranker.q(held_out)
    return {
        "auc": round(auc(q, held_out.runs.success), 4),
        "spearman": round(float(spearmanr(q, held_out.runs.true_q()).statistic), 4),
    }


def auc(score: Floats, label: Flags) -> float:
    """Share of (success, failure) pairs in the right order; ties count half."""
    n_true, n_false = int(label.sum()), int((~label).sum())
    ranks = np.asarray(rankdata(score))
    return float((ranks[label].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))
