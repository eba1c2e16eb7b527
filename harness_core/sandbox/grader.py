"""Verdicts on programs: owns checks and expected values, believes only what it compared itself.

A check passes if the box sent, in time and under the nonce of the run, pure data that compares as
the check asks. Exit codes and printed text are never looked at. A check is taken apart into calls
(`splitting`) or into scripts that observe (`sources`); one that cannot be runs in a second box,
where no candidate code ever runs, and passes if it ends without an exception. Each verdict says
which of the two it rests on.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness_core.sandbox.caching import VerdictCache, chunked, verdict_key
from harness_core.sandbox.claims import holds
from harness_core.sandbox.protocol import CheckJob, ProgramJob, Sandbox
from harness_core.sandbox.result import (
    CallResult,
    CallStatus,
    CheckRun,
    CheckStatus,
    Evidence,
    ProgramRun,
    Verdict,
)
from harness_core.sandbox.scripts import SplitScript
from harness_core.sandbox.sources import split_source
from harness_core.sandbox.splitting import SplitCheck, is_usable, split_check, split_program


@dataclass(frozen=True, slots=True)
class GradeJob:
    """One program and the checks it is graded on."""

    program: str
    entry_point: str | None
    """Name of the function or class that the checks call, if it is known."""
    checks: tuple[str, ...]
    """Assert statements, or whole programs (`check(candidate)`, `unittest`); one verdict each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How one check is graded: by calls, by scripts, as a whole test source, or (none) not."""

    parts: tuple[SplitCheck, ...] = ()
    scripts: tuple[SplitScript, ...] = ()
    test: str | None = None
    is_vacuous: bool = False


@dataclass(slots=True)
class _Runs:
    """What came back for one job; scripts and tests by the number of their check."""

    calls: ProgramRun | None = None
    scripts: dict[int, ProgramRun] = field(default_factory=dict)
    tests: dict[int, CheckRun] = field(default_factory=dict)

    @property
    def programs(self) -> list[ProgramRun]:
        return [*([] if self.calls is None else [self.calls]), *self.scripts.values()]


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
        runs = [_Runs() for _ in jobs]
        self._run_programs(jobs, plans, runs)
        self._run_tests(jobs, plans, runs)
        return list(map(self._verdict, plans, runs))

    def _run_programs(
        self, jobs: list[GradeJob], plans: list[list[_Plan]], runs: list[_Runs]
    ) -> None:
        """All calls of a job in one process, each script in a process of its own."""
        wanted: list[tuple[_Runs, int | None, ProgramJob]] = []
        for job, job_plans, run in zip(jobs, plans, runs, strict=True):
            calls = tuple(part.call for plan in job_plans for part in plan.parts)
            if calls:
                wanted.append((run, None, ProgramJob(job.program, calls)))
            for number, plan in enumerate(job_plans):
                if plan.scripts:
                    sources = tuple(script.source for script in plan.scripts)
                    wanted.append((run, number, ProgramJob(job.program, (), sources)))
        results = self._sandbox.run_programs([job for _, _, job in wanted])
        for (run, number_or_none, _), result in zip(wanted, results, strict=True):
            if number_or_none is None:
                run.calls = result
            else:
                run.scripts[number_or_none] = result

    def _run_tests(self, jobs: list[GradeJob], plans: list[list[_Plan]], runs: list[_Runs]) -> None:
        """Whole test sources, each beside the program in a box of its own."""
        wanted = [
            (run, number, CheckJob(job.program, plan.test, job.entry_point))
            for job, job_plans, run in zip(jobs, plans, runs, strict=True)
            for number, plan in enumerate(job_plans)
            if plan.test is not None
        ]
        results = self._sandbox.run_checks([job for _, _, job in wanted])
        for (run, number, _), result in zip(wanted, results, strict=True):
            run.tests[number] = result

    def _verdict(self, plans: list[_Plan], runs: _Runs) -> Verdict:
        results = iter(() if runs.calls is None else runs.calls.calls)
        checks: list[CheckStatus] = []
        evidence: list[Evidence] = []
        for number, plan in enumerate(plans):
            if number in runs.tests:
                status, kind = runs.tests[number].status, Evidence.IN_BOX
            elif plan.scripts:
                status = _compare_scripts(plan.scripts, runs.scripts[number].scripts)
                kind = Evidence.COMPARED
            else:
                status = _compare(plan.parts, list(itertools.islice(results, len(plan.parts))))
                kind = Evidence.COMPARED
            checks.append(status)
            evidence.append(Evidence.NONE if status is CheckStatus.UNUSABLE else kind)
        return Verdict(
            checks=tuple(checks),
            evidence=tuple(evidence),
            vacuous=tuple(plan.is_vacuous for plan in plans),
            layers=self._sandbox.layers,
            trusted=self._sandbox.trusted,
            tampered=any(run.tampered for run in runs.programs)
            or any(run.tampered for run in runs.tests.values()),
            stateful=any(run.stateful for run in runs.programs),
        )


@functools.lru_cache(maxsize=1 << 15)
def _plan(check: str, entry_point: str | None) -> _Plan:
    single = split_check(check, entry_point)
    if single is not None:
        return _plan_of_calls((single,))
    if not is_usable(check, entry_point):
        return _Plan()
    parts = split_program(check, entry_point)
    if parts is not None:
        return _plan_of_calls(parts)
    scripts = split_source(check, entry_point)
    if scripts is None:
        return _Plan(test=check)
    is_vacuous = all(holds(claim, script.idle) for script in scripts for claim in script.claims)
    return _Plan(scripts=scripts, is_vacuous=is_vacuous)


def _plan_of_calls(parts: tuple[SplitCheck, ...]) -> _Plan:
    is_vacuous = bool(parts) and (
        all(part.comparison.holds(None) for part in parts)
        or all(part.holds_for_echo for part in parts)
    )
    return _Plan(parts=parts, is_vacuous=is_vacuous)


def _compare(parts: Sequence[SplitCheck], results: Sequence[CallResult]) -> CheckStatus:
    if not parts:
        return CheckStatus.UNUSABLE
    is_passed = all(
        result.status is CallStatus.VALUE and part.comparison.holds(result.value)
        for part, result in zip(parts, results, strict=True)
    )
    return CheckStatus.PASSED if is_passed else CheckStatus.FAILED


def _compare_scripts(scripts: Sequence[SplitScript], results: Sequence[CallResult]) -> CheckStatus:
    # There are fewer results than scripts if one of them gave no values.
    is_passed = len(results) == len(scripts) and all(map(_is_as_claimed, scripts, results))
    return CheckStatus.PASSED if is_passed else CheckStatus.FAILED


def _is_as_claimed(script: SplitScript, result: CallResult) -> bool:
    observed = result.value
    if result.status is not CallStatus.VALUE or type(observed) is not list:
        return False
    return len(observed) == len(script.idle) and all(
        holds(claim, observed) for claim in script.claims
    )
