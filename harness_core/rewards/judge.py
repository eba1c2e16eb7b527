"""The grader of the sandbox as the judge of rewards, with its verdicts kept across runs."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness_core.rewards.grading import GradeRequest
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.caching import VerdictCache
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import Sandbox
from harness_core.sandbox.result import Verdict

_LOG: Final = logging.getLogger("harness")
_BATCH: Final = 1000
"""Programs graded before their verdicts are kept; a run that is stopped loses no more."""


class _CountingCache(VerdictCache):
    """Verdicts kept on disk, and how many were there already."""

    n_hits = 0

    def get(self, keys: Iterable[str]) -> dict[str, Verdict]:
        """The verdicts that are known."""
        found = super().get(keys)
        self.n_hits += len(found)
        return found


class SandboxJudge:
    """Judges programs in an open sandbox."""

    def __init__(self, sandbox: Sandbox, cache: _CountingCache) -> None:
        self._sandbox = sandbox
        self._cache = cache
        self._grader = Grader(sandbox, cache=cache)
        self._anew = Grader(sandbox)

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation layers that programs run under."""
        return self._sandbox.layers

    @property
    def trusted(self) -> bool:
        """False when isolation was switched off."""
        return self._sandbox.trusted

    @property
    def n_cache_hits(self) -> int:
        """Verdicts that were known from an earlier run."""
        return self._cache.n_hits

    def judge(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """One verdict a request, in order."""
        verdicts: list[Verdict] = []
        for start in range(0, len(requests), _BATCH):
            jobs = [GradeJob(*request) for request in requests[start : start + _BATCH]]
            verdicts.extend(self._grader.grade(jobs))
            _LOG.info("rewards: %d of %d programs graded", len(verdicts), len(requests))
        return verdicts

    def judge_anew(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """The same, running every program whatever is known of it."""
        return self._anew.grade([GradeJob(*request) for request in requests])


@contextmanager
def open_judge(config: SandboxConfig, *, cache: Path) -> Iterator[SandboxJudge]:
    """A judge in a sandbox of its own, which ends with the context.

    Raises:
        IsolationUnavailable: no sandbox is strong enough for programs that nobody vouches for.
    """
    with open_sandbox(config) as sandbox, _CountingCache(cache / "verdicts.sqlite") as verdicts:
        yield SandboxJudge(sandbox, verdicts)
