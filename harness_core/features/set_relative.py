"""What a candidate is within its decision group: z-scores, ranks, and agreement with the others.

Every number compares a candidate with the *other* candidates of the same group, so it is zero when
there is nothing to compare with (K = 1, no check, no input). Agreement of what programs return
needs no answers: honest programs agree, wrong ones are wrong in their own ways (Chen et al., 2022,
"CodeT", for agreement weighted by generated checks). Inputs that were made are looked at only where
most programs of the group answer them, since others lie outside the contract of the task.

Letters: K candidates, I inputs, G generated checks, Dr features.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from harness_core.features.batch import Flags, Floats, GroupSignals, Integers

SET_RELATIVE: Final[tuple[str, ...]] = (
    "visible_z",
    "visible_rank",
    "visible_known",
    "generated_z",
    "generated_rank",
    "generated_known",
    "codet",
    "codet_rank",
    "same_outputs",
    "output_agreement",
    "output_agreement_z",
    "output_agreement_rank",
    "contested_agreement",
    "answered_inputs_z",
    "outputs_known",
    "made_agreement",
    "made_agreement_z",
    "made_agreement_rank",
    "made_contested",
    "made_contested_z",
    "made_contested_rank",
    "made_same_outputs",
    "made_most_common",
    "made_answered",
    "made_contested_share",
    "n_made_log",
    "vote",
    "vote_z",
    "vote_rank",
    "vote_weight",
    "generated_times_agreement",
    "generated_times_agreement_rank",
    "same_text",
    "same_answer",
    "same_answer_rank",
    "answer_known",
    "n_chars_z",
    "n_chars_rank",
    "prior_z",
    "prior_rank",
    "log_k",
)
"""Names of the Dr columns, in order."""

_MAX_Z: Final = 4.0
_MOST: Final = 0.5
_N_ROUNDS: Final = 2
_TINY: Final = 1e-6
_DIGITS: Final = 9

Doubles = npt.NDArray[np.float64]


def set_relative(signals: GroupSignals) -> Floats:
    """The set-relative features of a group, [K, Dr]; all zero for K = 1."""
    k = len(signals.n_chars)
    if k <= 1:
        return np.zeros((k, len(SET_RELATIVE)), dtype=np.float32)
    outputs = _agreement(signals.outputs)
    made = _agreement(within_contract(signals.made_outputs))
    votes = _vote(signals)
    generated = _share(signals.generated_passed)
    compared = {
        "visible": signals.visible_rate.astype(np.float64),
        "generated": generated,
        "codet": codet_score(signals) / max(k * signals.generated_passed.shape[1], 1),
        "output_agreement": outputs.mean,
        "answered_inputs": outputs.answered,
        "made_agreement": made.mean,
        "made_contested": made.contested,
        "vote": votes.share,
        "generated_times_agreement": generated * outputs.mean,
        "same_answer": _same(signals.answer_key),
        "n_chars": signals.n_chars.astype(np.float64),
        "n_chars_log": np.log1p(signals.n_chars.astype(np.float64)),
        "prior": signals.agent_prior.astype(np.float64),
    }
    # All at once, since numpy takes longer to begin than a small group is work.
    rows = np.stack(list(compared.values()))
    z = dict(zip(compared, _z(rows), strict=True))
    rank = dict(zip(compared, _rank(rows), strict=True))
    columns = (
        z["visible"],
        rank["visible"],
        np.isfinite(compared["visible"]),
        z["generated"],
        rank["generated"],
        np.full(k, float(signals.generated_passed.shape[1] > 0)),
        compared["codet"],
        rank["codet"],
        outputs.exact,
        outputs.mean,
        z["output_agreement"],
        rank["output_agreement"],
        outputs.contested,
        z["answered_inputs"],
        outputs.answered > 0,
        made.mean,
        z["made_agreement"],
        rank["made_agreement"],
        made.contested,
        z["made_contested"],
        rank["made_contested"],
        made.exact,
        made.most_common,
        made.answered,
        np.full(k, made.contested_share),
        np.full(k, np.log1p(made.n_inputs)),
        votes.share,
        z["vote"],
        rank["vote"],
        votes.weight,
        compared["generated_times_agreement"],
        rank["generated_times_agreement"],
        _same(signals.text_key),
        compared["same_answer"],
        rank["same_answer"],
        signals.answer_key != 0,
        z["n_chars_log"],
        rank["n_chars"],
        z["prior"],
        rank["prior"],
        np.full(k, np.log(k)),
    )
    return np.ascontiguousarray(np.array(columns, dtype=np.float64).T, dtype=np.float32)


def codet_score(signals: GroupSignals) -> Floats:
    """Dual agreement, [K]: candidates that pass the same generated checks × number of checks."""
    passed = signals.generated_passed
    if not passed.shape[1]:
        return np.zeros(len(passed), dtype=np.float32)
    packed = np.ascontiguousarray(np.packbits(passed, axis=1))
    patterns = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, inverse, counts = np.unique(patterns, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse.ravel()] * passed.sum(axis=1), dtype=np.float32)


class _Agreement(NamedTuple):
    """How much of what a candidate returned the other candidates returned too."""

    exact: Doubles  # [K] share of the others that return the same on every input
    mean: Doubles  # [K] share of (other, input) pairs with the same value
    contested: Doubles  # [K] the same over inputs that tell candidates apart
    answered: Doubles  # [K] share of inputs with a value at all
    most_common: Doubles  # [K] share of contested inputs with the value that most returned
    contested_share: float  # of the inputs
    n_inputs: int


def within_contract(outputs: Integers) -> Integers:
    """The inputs [K, I'] that at least half of the candidates answer that answer anything."""
    answered = outputs != 0
    working = answered.any(axis=1)
    if not working.any():
        return outputs[:, :0]
    return outputs[:, answered[working].mean(axis=0) >= _MOST]


def _agreement(outputs: Integers) -> _Agreement:
    k, n_inputs = outputs.shape
    if not n_inputs:
        nothing = np.zeros(k)
        return _Agreement(nothing, nothing, nothing, nothing, nothing, 0.0, 0)
    answered = outputs != 0
    equal = outputs[:, None, :] == outputs[None, :, :]  # [K, K, I]
    exact = (equal.all(axis=2).sum(axis=1) - 1) / (k - 1) * answered.any(axis=1)
    # An error agrees with nothing: programs that crash on the same input need not be alike.
    n_agreeing = (equal.sum(axis=1) - 1) * answered  # [K, I]
    # Whole numbers are summed before the division, so that equal candidates tie exactly.
    mean = n_agreeing.sum(axis=1) / ((k - 1) * n_inputs)
    is_contested = _is_contested(outputs)
    n_contested = int(is_contested.sum())
    contested = (
        n_agreeing[:, is_contested].sum(axis=1) / ((k - 1) * n_contested) if n_contested else mean
    )
    of_most = (n_agreeing == n_agreeing.max(axis=0)) & answered
    return _Agreement(
        exact=exact,
        mean=mean,
        contested=contested,
        answered=answered.mean(axis=1),
        most_common=(of_most[:, is_contested] if n_contested else of_most).mean(axis=1),
        contested_share=n_contested / n_inputs,
        n_inputs=n_inputs,
    )


class _Vote(NamedTuple):
    """A vote on every input, in which a candidate counts by how well it agreed so far."""

    share: Doubles  # [K] mean weight of the others that return the same
    weight: Doubles  # [K] what the candidate counts, 1 on average


def _vote(signals: GroupSignals) -> _Vote:
    """Programs and their agreement judged together, by iteration.

    The first weights are those of dual agreement on generated checks, or equal. In each round a
    candidate's weight becomes the cube of the mean weight of those that return what it returns: who
    agrees with the reliable is reliable. The cube is what separates one large cluster of equals
    from several small ones.
    """
    outputs = within_contract(np.concatenate([signals.outputs, signals.made_outputs], axis=1))
    k, n_inputs = outputs.shape
    if not n_inputs:
        return _Vote(np.zeros(k), np.ones(k))
    answered = outputs != 0
    equal = (outputs[:, None, :] == outputs[None, :, :]) & answered[:, None, :]  # [K, K, I]
    n_equal = equal.astype(np.float64).sum(axis=2)  # [K, K]
    weight = 1.0 + codet_score(signals).astype(np.float64)
    share = np.zeros(k)
    for _ in range(_N_ROUNDS):
        weight = weight / weight.sum()
        own = weight * n_equal.diagonal()
        share = (n_equal @ weight - own) / (n_inputs * (1.0 - weight + _TINY))
        # Sums differ in their last digits by the order of candidates; equal ones must tie.
        share = np.round(share, _DIGITS)
        weight = share**3 + _TINY
    return _Vote(share, k * weight / weight.sum())


def _is_contested(outputs: Integers) -> Flags:
    """Inputs on which at least two different values came back, [I]."""
    highest = outputs.max(axis=0)
    # Hashes are positive, so an error (0) is replaced by a value that is there anyway.
    lowest = np.where(outputs == 0, highest, outputs).min(axis=0)
    return np.asarray(lowest < highest)


def _same(keys: Integers) -> Doubles:
    """Share of the other candidates with the same key, [K]; 0 where there is no key."""
    n_same = np.count_nonzero(keys[:, None] == keys, axis=1)
    return np.asarray((n_same - 1) / (len(keys) - 1) * (keys != 0))


def _share(flags: Flags) -> Doubles:
    return flags.mean(axis=1) if flags.shape[1] else np.zeros(len(flags))


def _z(rows: Doubles) -> Doubles:
    """Distance from the mean of a row's known values in standard deviations, [R, K].

    0 where a value is unknown.
    """
    known = np.isfinite(rows)
    n = np.maximum(known.sum(axis=1, keepdims=True), 1)
    filled = np.where(known, rows, 0.0)
    centred = np.where(known, rows - filled.sum(axis=1, keepdims=True) / n, 0.0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / n)
    # Equal values may differ in the last bit of their mean; that is no spread.
    largest = np.abs(filled).max(axis=1, keepdims=True)
    is_flat = spread <= 1e-9 * np.maximum(1.0, largest)
    scaled = centred / np.where(is_flat, 1.0, spread)
    return np.asarray(np.where(is_flat, 0.0, np.clip(scaled, -_MAX_Z, _MAX_Z)))


def _rank(rows: Doubles) -> Doubles:
    """Share of a row's others below minus share above, halved: in [−0.5, 0.5], [R, K].

    0 where a value is unknown, or the only known one.
    """
    known = np.isfinite(rows)
    filled = np.where(known, rows, np.nan)  # nothing is below or above what is unknown
    below = np.count_nonzero(filled[:, :, None] > filled[:, None, :], axis=2)
    above = np.count_nonzero(filled[:, :, None] < filled[:, None, :], axis=2)
    n_others = known.sum(axis=1, keepdims=True) - 1
    return np.asarray((below - above) / (2 * np.maximum(n_others, 1)))
