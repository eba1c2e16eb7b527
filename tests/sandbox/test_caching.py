import multiprocessing
from datetime import date
from pathlib import Path

import pytest

from harness_core.sandbox.caching import RunCache, VerdictCache, run_cached, run_key, verdict_key
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob
from harness_core.sandbox.result import (
    CallResult,
    CallStatus,
    CheckRun,
    CheckStatus,
    Evidence,
    ProgramRun,
    Verdict,
)

WHOLE = "for x in broken: assert f(x) == 2"  # cannot be taken apart
JOB = GradeJob("def f(x): return x", "f", ("assert f(1) == 1", WHOLE))
CALLS = ProgramJob("def f(x): return x", ("f(1)", "f({(1, 2): {3}})", "f(None)"))


class CountingSandbox:
    """Answers without running anything, and counts what it was asked."""

    trusted = True
    layers = ("fake",)

    def __init__(self, config: SandboxConfig, value: object = 1) -> None:
        self.config = config
        self.value = value
        self.n_programs = 0
        self.n_checks = 0

    def run_programs(self, jobs):
        self.n_programs += len(jobs)
        result = CallResult(status=CallStatus.VALUE, value=self.value)
        return [ProgramRun(calls=(result,) * len(job.calls), layers=("fake",)) for job in jobs]

    def run_checks(self, jobs):
        self.n_checks += len(jobs)
        return [CheckRun(status=CheckStatus.FAILED, layers=("fake",), detail="cpu") for _ in jobs]

    def close(self) -> None: ...

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def counting(config: SandboxConfig) -> CountingSandbox:
    return CountingSandbox(config)


def test_a_verdict_is_made_once_for_ever(counting: CountingSandbox, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "verdicts.sqlite"
    for _ in range(3):
        with VerdictCache(path) as cache:
            verdicts = Grader(counting, cache=cache).grade([JOB, JOB])
            assert [verdict.checks for verdict in verdicts] == [
                (CheckStatus.PASSED, CheckStatus.FAILED)
            ] * 2
    assert (counting.n_programs, counting.n_checks) == (1, 1)


def test_without_a_cache_each_different_job_is_graded_once(counting: CountingSandbox) -> None:
    Grader(counting).grade([JOB] * 5)
    assert counting.n_programs == 1


def test_a_run_comes_back_as_it_was(config: SandboxConfig, tmp_path: Path) -> None:
    value = {(1, 2): {3}, "a": [1.5, None, b"x", 10**30]}
    counting = CountingSandbox(config, value)
    with RunCache(tmp_path / "runs.sqlite") as cache:
        first = run_cached(counting, [CALLS], cache)
        again = run_cached(counting, [CALLS, CALLS], cache)
    assert [*first, *first] == again
    assert again[0].calls[0].value == value
    assert counting.n_programs == 1


@pytest.mark.parametrize(
    "status", [CallStatus.TIMEOUT, CallStatus.DIED, CallStatus.NOT_DATA, CallStatus.NOT_LOADED]
)
def test_a_failure_is_kept_too(status: CallStatus, tmp_path: Path) -> None:
    failed = CallResult(status=status, detail="cpu")
    seen = CallResult(status=CallStatus.VALUE, value=[1, {(2,): None}, date(2026, 1, 31)])
    run = ProgramRun(
        calls=(failed,), scripts=(seen, failed), layers=("a", "b"), tampered=True, stateful=True
    )
    with RunCache(tmp_path / "runs.sqlite") as cache:
        cache.put({"key": run})
        assert cache.get(["key", "another"]) == {"key": run}


def test_everything_that_changes_a_result_changes_its_key(config: SandboxConfig) -> None:
    variants = [
        verdict_key(JOB, config),
        verdict_key(GradeJob("def f(x): return 2", "f", JOB.checks), config),
        verdict_key(GradeJob(JOB.program, None, JOB.checks), config),
        verdict_key(GradeJob(JOB.program, "f", JOB.checks[:1]), config),
        verdict_key(JOB, config.model_copy(update={"cpu_s": 7})),
        verdict_key(JOB, config.model_copy(update={"backend": "unsafe_local"})),
        run_key(ProgramJob(JOB.program, JOB.checks), config),
        run_key(ProgramJob(JOB.program, ()), config),
        run_key(ProgramJob(JOB.program, (), JOB.checks), config),
    ]
    assert len(set(variants)) == len(variants)
    more_boxes = config.model_copy(update={"n_workers": 9})
    assert verdict_key(JOB, more_boxes) == verdict_key(JOB, config)


def test_odd_texts_have_keys(config: SandboxConfig) -> None:
    assert run_key(ProgramJob("\ud800", ("\udfff",)), config) != run_key(
        ProgramJob("?", ("?",)), config
    )


def test_the_first_value_of_a_key_stays(tmp_path: Path) -> None:
    first = Verdict(checks=(CheckStatus.PASSED,), layers=(), trusted=True)
    second = Verdict(checks=(CheckStatus.FAILED,), layers=(), trusted=True)
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        cache.put({"key": first})
        cache.put({"key": second})
        assert cache.get(["key"]) == {"key": first}


def test_a_verdict_comes_back_with_all_that_it_rests_on(tmp_path: Path) -> None:
    verdict = Verdict(
        checks=(CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.UNUSABLE),
        evidence=(Evidence.COMPARED, Evidence.IN_BOX, Evidence.NONE),
        vacuous=(True, False, False),
        layers=("a",),
        trusted=True,
        tampered=True,
        stateful=True,
    )
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        cache.put({"key": verdict})
        assert cache.get(["key"]) == {"key": verdict}


def _write(path: Path, writer: int) -> None:
    with VerdictCache(path) as cache:
        for number in range(50):
            verdict = Verdict(checks=(CheckStatus.PASSED,) * (number % 5), layers=(), trusted=True)
            cache.put({f"{number}": verdict, f"{writer}-{number}": verdict})


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, number)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    with VerdictCache(path) as cache:
        keys = [f"{number}" for number in range(50)]
        keys += [f"{writer}-{number}" for writer in range(2) for number in range(50)]
        assert len(cache.get(keys)) == 150
