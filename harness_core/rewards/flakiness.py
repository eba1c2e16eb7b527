"""Tasks whose verdicts change when the same programs are graded again: nothing is learnt of them.

A sample of all requests, drawn by digest, is graded a second time without the cache. A task with
one program that was judged otherwise is quarantined whole: its checks depend on time, chance or a
limit, and what they say of other programs is no better.
"""

from collections.abc import Iterable, Mapping

from harness_core.rewards.grading import GradeRequest, Judge
from harness_core.sandbox.result import Verdict


def flaky_checks(
    verdicts: Mapping[GradeRequest, Verdict], judge: Judge, *, repeat_share: float
) -> frozenset[tuple[str, ...]]:
    """Grade a sample again; return the check lists of which a verdict changed."""
    sample = [request for request in verdicts if request.draw("repeat") < repeat_share]
    again = dict(zip(sample, judge.judge_anew(sample), strict=True)) if sample else {}
    return frozenset(
        request.checks
        for request, verdict in again.items()
        if _says(verdict) != _says(verdicts[request])
    )


def n_repeated(requests: Iterable[GradeRequest], *, repeat_share: float) -> int:
    """Size of the sample."""
    return sum(request.draw("repeat") < repeat_share for request in requests)


def _says(verdict: Verdict) -> tuple[object, ...]:
    return (verdict.checks, verdict.tampered, verdict.stateful)
