"""d3rlpy in an environment of its own, whose packages cannot be installed beside ours.

The other interpreter (`python -m benchmarks.peers.d3rlpy_elsewhere FOLDER`) reads the very arrays
of the log from files, measures itself, and takes turns: it waits for a line of JSON on its standard
input while others are measured, and answers with one.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.agent_log import AgentLog, Runs
from benchmarks.peers.d3rlpy_iql import D3rlpyIql, Study
from benchmarks.peers.trainer import PeerMissing, Shape
from harness_core.features.batch import TransitionArrays

_ROOT: Final = Path(__file__).resolve().parents[2]
_LOG, _HELD_OUT, _SHAPE = "log.npz", "held_out.npz", "shape.json"


class D3rlpyElsewhere:
    """Measures d3rlpy through another interpreter.

    Raises:
        PeerMissing: the interpreter cannot be started or has no d3rlpy.
    """

    name: Final = D3rlpyIql.name

    def __init__(self, log: AgentLog, shape: Shape, *, python: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="harness-bench-")
        folder = Path(self._folder.name)
        write_log(folder / _LOG, log)
        (folder / _SHAPE).write_text(json.dumps(asdict(shape)))
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the interpreter that was asked for
                [str(python), "-m", "benchmarks.peers.d3rlpy_elsewhere", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                text=True,
            )
        except OSError as error:
            self._folder.cleanup()
            raise PeerMissing(f"{python} cannot be started: {error.strerror}") from error
        try:
            self.versions: dict[str, str] = self._answer()
        except PeerMissing:
            self.close()
            raise

    def seconds_per_update(self, n_updates: int) -> float:
        """As the other interpreter measures it."""
        return float(self._ask({"n_updates": n_updates}))

    def study(self, held_out: AgentLog, budget: int) -> Study:
        """As `D3rlpyIql.study`, over there."""
        write_log(Path(self._folder.name) / _HELD_OUT, held_out)
        return Study(**self._ask({"budget": budget}))

    def close(self) -> None:
        """End the other interpreter and remove the files."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()
        self._folder.cleanup()

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and the answer says so
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = json.loads(line) if line else {"missing": "its interpreter ended without a word"}
        if isinstance(found, dict) and "missing" in found:
            raise PeerMissing(str(found["missing"]))
        return found


def write_log(path: Path, log: AgentLog) -> None:
    """All arrays of a log in one file."""
    parts: dict[str, TransitionArrays | Runs] = {"arrays": log.arrays, "runs": log.runs}
    columns = {
        f"{part}.{field.name}": getattr(record, field.name)
        for part, record in parts.items()
        for field in fields(record)
    }
    np.savez(path, allow_pickle=False, **columns)


def read_log(path: Path) -> AgentLog:
    """What `write_log` wrote."""
    with np.load(path, allow_pickle=False) as found:
        by_part: dict[str, dict[str, Any]] = {"arrays": {}, "runs": {}}
        for name in found.files:
            part, field = name.split(".", 1)
            by_part[part][field] = found[name]
    return AgentLog(arrays=TransitionArrays(**by_part["arrays"]), runs=Runs(**by_part["runs"]))


def _serve(folder: Path) -> None:
    job = json.loads((folder / _SHAPE).read_text())
    shape = Shape(**{**job, "hidden_sizes": tuple(job["hidden_sizes"])})
    try:
        trainer = D3rlpyIql(read_log(folder / _LOG), shape)
    except PeerMissing as error:
        _say({"missing": str(error)})
        return
    _say({name: sys.modules[name].__version__ for name in ("torch", "numpy", "d3rlpy")})
    for line in sys.stdin:
        question = json.loads(line)
        if "budget" in question:
            held_out = read_log(folder / _HELD_OUT)
            _say(trainer.study(held_out, question["budget"])._asdict())
        else:
            _say(trainer.seconds_per_update(question["n_updates"]))


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
