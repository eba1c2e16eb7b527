"""The result of a blind study: sides resolved, figures by criterion, in words."""

from collections import Counter
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from harness_core.errors import NoDataError, ParameterError
from harness_core.evaluation.blind import (
    CRITERIA,
    BlindResult,
    agreement,
    exact_interval,
    in_words,
    judge_pairs,
)
from harness_core.serving.review.blind_study import Judgement, Study, preferences
from harness_core.tables import combine_digests, file_digest


def read_result(folder: Path, *, early: bool, at: datetime) -> BlindResult:
    """Unblind a study and close it.

    Args:
        folder: of the study.
        early: read it though nobody has judged all pairs.
        at: when it is unblinded.

    Raises:
        NoDataError: there is no study, or nothing was judged.
        ParameterError: pairs are still to be judged.
        DataError: the key or a judgement is damaged.
    """
    study = Study(folder)
    judgements = study.judgements()
    if not judgements:
        raise NoDataError(f"{folder}: nothing was judged; run `harness blind judge` first")
    n_judged = len({one.pair_id for one in judgements})
    if n_judged < len(study.pairs) and not early and not study.is_closed:
        raise ParameterError(
            f"{n_judged} of {len(study.pairs)} pairs are judged, and reading the result closes the "
            "study: a study that ends when it looks good looks better than it is. Go on judging, "
            "or say --early"
        )
    key = study.unblind(at)
    sides = preferences(judgements, key)
    verdicts = {name: judge_pairs(sides[name]) for name in CRITERIA}
    words = in_words(verdicts)
    words.append(
        f"The controller's pick differs from the agent's first candidate in {key.n_differing} of "
        f"{key.n_decisions} decisions; {n_judged} of {len(study.pairs)} drawn pairs were judged."
    )
    if n_judged < len(study.pairs):
        words.append("The study was ended early: intervals and p-values are too good for that.")
    return BlindResult(
        key=combine_digests(
            (name, file_digest(folder / name))
            for name in ("pairs.jsonl", "key.json", "judgements.jsonl")
        )[:32],
        figures={
            "n_pairs": len(study.pairs),
            "n_judged": n_judged,
            "n_judges": len({one.judge for one in judgements}),
            "n_decisions": key.n_decisions,
            "n_differing": key.n_differing,
            "seed": key.seed,
            "left": _left_share(judgements),
            "criteria": {
                name: {**asdict(verdict), "agreement": agreement(sides[name])}
                for name, verdict in verdicts.items()
            },
        },
        words=tuple(words),
    )


def _left_share(judgements: list[Judgement]) -> dict[str, float | None]:
    """Share of judgements that lean to the left, whosever side it was: a liking for one side."""
    leanings = []
    for one in judgements:
        said = Counter(getattr(one, name) for name in CRITERIA)
        leanings.append(said["left"] - said["right"])
    n_left, n = sum(lean > 0 for lean in leanings), sum(lean != 0 for lean in leanings)
    low, high = exact_interval(n_left, n) if n else (None, None)
    return {"share": n_left / n if n else None, "low": low, "high": high}
