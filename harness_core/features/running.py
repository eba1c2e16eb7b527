"""Programs run and graded in a sandbox, each distinct one once for ever."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from harness_core.features.config import FeatureConfig
from harness_core.sandbox.caching import RunCache, VerdictCache, run_cached
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import ProgramRun, Verdict

_BATCH: Final = 512
"""Programs between two writes to the cache: what is lost when a run is cut off."""
_LOG = logging.getLogger("harness")


def run_limits(sandbox: SandboxConfig, features: FeatureConfig) -> SandboxConfig:
    """Limits of programs that are run for features, in training and in serving alike."""
    return sandbox.model_copy(
        update={
            "cpu_s": min(sandbox.cpu_s, features.run_cpu_s),
            "call_cpu_s": features.run_call_cpu_s,
            "max_slow_calls": features.run_slow_inputs,
        }
    )


class SandboxRunner:
    """A `ProgramRunner` over a sandbox; a context manager that closes its caches.

    `cache` is the folder of the content-addressed caches; without one nothing is kept.
    """

    def __init__(self, sandbox: Sandbox, *, cache: Path | None = None) -> None:
        self._sandbox = sandbox
        self._files = ExitStack()
        self._runs: RunCache | None = None
        verdicts: VerdictCache | None = None
        if cache is not None:
            self._runs = self._files.enter_context(RunCache(cache / "runs.sqlite"))
            verdicts = self._files.enter_context(VerdictCache(cache / "verdicts.sqlite"))
        self._grader = Grader(sandbox, cache=verdicts)
        self.n_programs = 0
        """Distinct programs that were asked for, from the cache or not."""

    def run(self, jobs: Sequence[ProgramJob]) -> list[ProgramRun]:
        """What each program returned, in order."""
        self.n_programs += len(jobs)
        runs: list[ProgramRun] = []
        for start in range(0, len(jobs), _BATCH):
            part = jobs[start : start + _BATCH]
            runs += run_cached(self._sandbox, part, self._runs)
            _LOG.info(
                "features: %d of %d programs run or found in the cache",
                start + len(part),
                len(jobs),
            )
        return runs

    def grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        """Verdicts on visible checks that are no plain calls, in order."""
        return self._grader.grade(jobs) if jobs else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()
