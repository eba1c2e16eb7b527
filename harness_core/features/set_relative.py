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
    visible = signals.visible_rate.astype(np.float64)
    generated = _share(signals.generated_passed)
    outputs = _agreement(signals.outputs)
    made = _agreement(within_contract(signals.made_outputs))
    votes = _vote(signals)
    product = generated * outputs.mean
    answers = _same(signals.answer_key)
    codet = codet_score(signals) / max(k * signals.generated_passed.shape[1], 1)
    has_generated = np.full(k, float(signals.generated_passed.shape[1] > 0))
    columns = (
        _z(visible),
        _rank(visible),
        np.isfinite(visible),
        _z(generated),
        _rank(generated),
        has_generated,
        codet,
        _rank(codet),
        outputs.exact,
        outputs.mean,
        _z(outputs.mean),
        _rank(outputs.mean),
        outputs.contested,
        _z(outputs.answered),
        outputs.answered > 0,
        made.mean,
        _z(made.mean),
        _rank(made.mean),
        made.contested,
        _z(made.contested),
        _rank(made.contested),
        made.exact,
        made.most_common,
        made.answered,
        np.full(k, made.contested_share),
        np.full(k, np.log1p(made.n_inputs)),
        votes.share,
        _z(votes.share),
        _rank(votes.share),
        votes.weight,
        product,
        _rank(product),
        _same(signals.text_key),
        answers,
        _rank(answers),
        signals.answer_key != 0,
        _z(np.log1p(signals.n_chars.astype(np.float64))),
        _rank(signals.n_chars.astype(np.float64)),
        _z(signals.agent_prior.astype(np.float64)),
        _rank(signals.agent_prior.astype(np.float64)),
        np.full(k, np.log(k)),
    )
    return np.stack(columns, axis=1).astype(np.float32)


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
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return np.asarray((counts[inverse.ravel()] - 1) / (len(keys) - 1) * (keys != 0))


def _share(flags: Flags) -> Doubles:
    return flags.mean(axis=1) if flags.shape[1] else np.zeros(len(flags))


def _z(values: Doubles) -> Doubles:
    """Distance from the mean of the known values in standard deviations, [K]; 0 if unknown."""
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(len(values))
    filled = np.where(known, values, 0.0)
    n = known.sum()
    centred = np.where(known, values - filled.sum() / n, 0.0)
    spread = np.sqrt((centred**2).sum() / n)
    # Equal values may differ in the last bit of their mean; that is no spread.
    if spread <= 1e-9 * max(1.0, np.abs(filled).max()):
        return np.zeros(len(values))
    return np.asarray(np.clip(centred / spread, -_MAX_Z, _MAX_Z))


def _rank(values: Doubles) -> Doubles:
    """Share of the others below minus share above, halved: in [−0.5, 0.5]; 0 if unknown."""
    known = np.isfinite(values)
    filled = np.sort(values[known])
    if len(filled) < 2:  # noqa: PLR2004  # a rank needs another one
        return np.zeros(len(values))
    safe = np.where(known, values, 0.0)
    below = np.searchsorted(filled, safe, side="left")
    above = len(filled) - np.searchsorted(filled, safe, side="right")
    return np.asarray(np.where(known, (below - above) / (2 * (len(filled) - 1)), 0.0))
