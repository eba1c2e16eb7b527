"""Tasks whose verdicts change when the same programs are graded again: nothing is learnt of them.

A sample of all requests, drawn by digest, is graded a second time without the cache. A task with
one program that was judged otherwise is quarantined whole: its checks depend on time, chance or a
limit, and what they say of other programs is no better.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from harness_core.rewards.grading import GradeRequest, Judge
from harness_core.sandbox.result import Verdict

_SCALE: Final = 1 << 64


def flaky_checks(
    verdicts: Mapping[GradeRequest, Verdict], judge: Judge, *, repeat_share: float
) -> frozenset[tuple[str, ...]]:
    """Grade a sample again; return the check lists of which a verdict changed."""
    sample = [request for request in verdicts if _draw(request) < repeat_share]
    again = dict(zip(sample, judge.judge_anew(sample), strict=True)) if sample else {}
    return frozenset(
        request.checks
        for request, verdict in again.items()
        if _says(verdict) != _says(verdicts[request])
    )


def n_repeated(requests: Iterable[GradeRequest], *, repeat_share: float) -> int:
    """Size of the sample."""
    return sum(_draw(request) < repeat_share for request in requests)


def _says(verdict: Verdict) -> tuple[object, ...]:
    return (verdict.checks, verdict.tampered, verdict.stateful)


def _draw(request: GradeRequest) -> float:
    """A number in [0, 1) that depends on the request alone."""
    text = "\0".join(("repeat", request.program, *request.checks))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / _SCALE
