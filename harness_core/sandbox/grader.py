"""Verdicts on programs: owns checks and expected values, believes only what it compared itself.

A check passes if the box sent, in time and under the nonce of the run, pure data that compares as
the check asks. Exit codes and printed text are never looked at. A check that cannot be taken apart
runs in a second box, where no candidate code ever runs, and passes if it ends without an exception.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from harness_core.sandbox.caching import VerdictCache, chunked, verdict_key
from harness_core.sandbox.protocol import CheckJob, ProgramJob, Sandbox
from harness_core.sandbox.result import (
    CallResult,
    CallStatus,
    CheckRun,
    CheckStatus,
    ProgramRun,
    Verdict,
)
from harness_core.sandbox.splitting import SplitCheck, is_usable, split_check, split_program


@dataclass(frozen=True, slots=True)
class GradeJob:
    """One program and the checks it is graded on."""

    program: str
    entry_point: str | None
    """Name of the function or class that the checks call, if it is known."""
    checks: tuple[str, ...]
    """Assert statements, or whole programs (`check(candidate)`, `unittest`); one verdict each."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one check is graded: parts to compare here, a whole test source, or (neither) not."""

    parts: tuple[SplitCheck, ...] = ()
    test: str | None = None


class Grader:
    """Grades programs in a sandbox, each different one once."""

    def __init__(self, sandbox: Sandbox, *, cache: VerdictCache | None = None) -> None:
        self._sandbox = sandbox
        self._cache = cache

    def grade(self, jobs: Sequence[GradeJob]) -> list[Verdict]:
        """The verdict on each job, in order."""
        keys = [verdict_key(job, self._sandbox.config) for job in jobs]
        verdicts = {} if self._cache is None else self._cache.get(keys)
        new = {key: job for key, job in zip(keys, jobs, strict=True) if key not in verdicts}
        # In portions: what was graded survives an interruption, and returned values do not pile up.
        for portion in chunked(list(new)):
            graded = self._grade_new([new[key] for key in portion])
            fresh = dict(zip(portion, graded, strict=True))
            if self._cache is not None:
                self._cache.put(fresh)
            verdicts.update(fresh)
        return [verdicts[key] for key in keys]

    def _grade_new(self, jobs: list[GradeJob]) -> list[Verdict]:
        plans = [[_plan(check, job.entry_point) for check in job.checks] for job in jobs]
        runs = self._run_calls(jobs, plans)
        tests = self._run_tests(jobs, plans)
        return list(map(self._verdict, plans, runs, tests))

    def _run_calls(self, jobs: list[GradeJob], plans: list[list[_Plan]]) -> list[ProgramRun | None]:
        calls = [
            tuple(part.call for plan in job_plans for part in plan.parts) for job_plans in plans
        ]
        wanted = [index for index, expressions in enumerate(calls) if expressions]
        results = self._sandbox.run_programs(
            [ProgramJob(jobs[index].program, calls[index]) for index in wanted]
        )
        runs: list[ProgramRun | None] = [None] * len(jobs)
        for index, run in zip(wanted, results, strict=True):
            runs[index] = run
        return runs

    def _run_tests(
        self, jobs: list[GradeJob], plans: list[list[_Plan]]
    ) -> list[dict[int, CheckRun]]:
        """Runs of whole test sources: for each job, by the number of the check."""
        wanted = [
            (job_number, number, CheckJob(jobs[job_number].program, plan.test, entry_point))
            for job_number, job_plans in enumerate(plans)
            for number, plan in enumerate(job_plans)
            if plan.test is not None
            for entry_point in (jobs[job_number].entry_point,)
        ]
        results = self._sandbox.run_checks([job for _, _, job in wanted])
        runs: list[dict[int, CheckRun]] = [{} for _ in jobs]
        for (job_number, number, _), run in zip(wanted, results, strict=True):
            runs[job_number][number] = run
        return runs

    def _verdict(
        self, plans: list[_Plan], run: ProgramRun | None, tests: dict[int, CheckRun]
    ) -> Verdict:
        results = iter(() if run is None else run.calls)
        return Verdict(
            checks=tuple(
                tests[number].status
                if number in tests
                else _compare(plan.parts, list(itertools.islice(results, len(plan.parts))))
                for number, plan in enumerate(plans)
            ),
            layers=self._sandbox.layers,
            trusted=self._sandbox.trusted,
            tampered=(run is not None and run.tampered)
            or any(test.tampered for test in tests.values()),
        )


@functools.lru_cache(maxsize=1 << 15)
def _plan(check: str, entry_point: str | None) -> _Plan:
    single = split_check(check, entry_point)
    if single is not None:
        return _Plan(parts=(single,))
    if not is_usable(check, entry_point):
        return _Plan()
    parts = split_program(check, entry_point)
    return _Plan(test=check) if parts is None else _Plan(parts=parts)


def _compare(parts: Sequence[SplitCheck], results: Sequence[CallResult]) -> CheckStatus:
    if not parts:
        return CheckStatus.UNUSABLE
    is_passed = all(
        result.status is CallStatus.VALUE and part.comparison.holds(result.value)
        for part, result in zip(parts, results, strict=True)
    )
    return CheckStatus.PASSED if is_passed else CheckStatus.FAILED
