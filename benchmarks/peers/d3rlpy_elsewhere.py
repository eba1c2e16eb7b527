"""d3rlpy in an environment of its own, whose packages cannot be installed beside ours.

The other interpreter (`python -m benchmarks.peers.d3rlpy_elsewhere FOLDER`) reads the very arrays
of the log from files, measures itself, and takes turns: it waits for a line of JSON on its standard
input while others are measured, and answers with one. Starting it takes seconds, so that one of
them may serve several trainers, each with a log of its own.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import weakref
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from benchmarks.agent_log import AgentLog, Runs
from benchmarks.peers.d3rlpy_iql import D3rlpyIql, Study
from benchmarks.peers.trainer import LEARNING_RATE, POLYAK, PeerMissing, Shape
from harness_core.features.batch import Floats, TransitionArrays

PYTHON_VARIABLE: Final = "HARNESS_BENCH_D3RLPY_PYTHON"
"""Names the interpreter of an environment that has d3rlpy, where ours has not."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_LOG, _HELD_OUT, _SHAPE = "log_{}.npz", "held_out.npz", "shape_{}.json"
_TO_SCORE, _SCORES = "to_score.npz", "scores.npy"


class D3rlpyElsewhere:
    """Measures d3rlpy through another interpreter.

    Raises:
        PeerMissing: the interpreter cannot be started or has no d3rlpy.
    """

    name: Final = D3rlpyIql.name

    def __init__(
        self,
        log: AgentLog,
        shape: Shape,
        *,
        python: Path,
        learning_rate: float = LEARNING_RATE,
        polyak: float = POLYAK,
        beside: "D3rlpyElsewhere | None" = None,
    ) -> None:
        self._interpreter: _Interpreter = (
            _Interpreter(python) if beside is None else beside._interpreter
        )
        self._number = self._interpreter.n_trainers
        self._interpreter.n_trainers += 1
        folder = self._interpreter.folder
        write_log(folder / _LOG.format(self._number), log)
        job = {
            "shape": asdict(shape),
            "steps": {"learning_rate": learning_rate, "polyak": polyak},
        }
        (folder / _SHAPE.format(self._number)).write_text(json.dumps(job))
        try:
            self.versions: dict[str, str] = self._ask({"begin": True})
        except PeerMissing:
            self.close()
            raise

    def seconds_per_update(self, n_updates: int) -> float:
        """As the other interpreter measures it."""
        return float(self._ask({"n_updates": n_updates}))

    def study(self, held_out: AgentLog, budget: int) -> Study:
        """As `D3rlpyIql.study`, over there."""
        write_log(self._interpreter.folder / _HELD_OUT, held_out)
        return Study(**self._ask({"budget": budget}))

    def train(self, n_updates: int) -> None:
        """As `D3rlpyIql.train`, over there."""
        self._ask({"train": n_updates})

    def q(self, log: AgentLog) -> Floats:
        """As `D3rlpyIql.q`, over there; [N, 1]."""
        folder = self._interpreter.folder
        write_log(folder / _TO_SCORE, log)
        self._ask({"score": True})
        scores: Floats = np.load(folder / _SCORES, allow_pickle=False)
        return scores

    def close(self) -> None:
        """End the other interpreter and remove the files.

        Happens by itself when the last trainer that it serves is gone.
        """
        self._interpreter.close()

    def _ask(self, question: dict[str, Any]) -> Any:
        return self._interpreter.ask({"of": self._number, **question})


def open_d3rlpy(
    log: AgentLog,
    shape: Shape,
    *,
    learning_rate: float = LEARNING_RATE,
    polyak: float = POLYAK,
    beside: D3rlpyIql | D3rlpyElsewhere | None = None,
) -> D3rlpyIql | D3rlpyElsewhere:
    """d3rlpy in this interpreter, or in the one that the environment names.

    Raises:
        PeerMissing: it is not there.
    """
    named = os.environ.get(PYTHON_VARIABLE)
    if named is None:
        return D3rlpyIql(log, shape, learning_rate=learning_rate, polyak=polyak)
    return D3rlpyElsewhere(
        log,
        shape,
        python=Path(named),
        learning_rate=learning_rate,
        polyak=polyak,
        beside=beside if isinstance(beside, D3rlpyElsewhere) else None,
    )


class _Interpreter:
    """The other interpreter and the folder that both look into.

    Raises:
        PeerMissing: it cannot be started.
    """

    def __init__(self, python: Path) -> None:
        self.n_trainers = 0
        kept = tempfile.TemporaryDirectory(prefix="harness-bench-")
        self.folder = Path(kept.name)
        # It warns of what nobody here can change; what it said last is told if it ends.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the interpreter
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the interpreter that was asked for
                [str(python), "-m", "benchmarks.peers.d3rlpy_elsewhere", kept.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                text=True,
            )
        except OSError as error:
            self._said.close()
            kept.cleanup()
            raise PeerMissing(f"{python} cannot be started: {error.strerror}") from error
        self.close = weakref.finalize(self, _end, self._process, kept, self._said)

    def ask(self, question: dict[str, Any]) -> Any:
        """Its answer to a line of JSON."""
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
        found = json.loads(line) if line else {"missing": f"its interpreter ended{self._last()}"}
        if isinstance(found, dict) and "missing" in found:
            raise PeerMissing(str(found["missing"]))
        return found

    def _last(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1]}" if lines else " without a word"


def _end(
    process: "subprocess.Popen[str]", folder: "tempfile.TemporaryDirectory[str]", said: IO[bytes]
) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # a question that nobody was there to read
                stream.close()
    process.wait()
    said.close()
    folder.cleanup()


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


def _begin(folder: Path, number: int) -> D3rlpyIql:
    job = json.loads((folder / _SHAPE.format(number)).read_text())
    sizes = {**job["shape"], "hidden_sizes": tuple(job["shape"]["hidden_sizes"])}
    log = read_log(folder / _LOG.format(number))
    return D3rlpyIql(log, Shape(**sizes), **job["steps"])


def _serve(folder: Path) -> None:
    trainers: dict[int, D3rlpyIql] = {}
    for line in sys.stdin:
        question = json.loads(line)
        number = question["of"]
        if "begin" in question:
            try:
                trainers[number] = _begin(folder, number)
            except PeerMissing as error:
                _say({"missing": str(error)})
                return
            _say({name: sys.modules[name].__version__ for name in ("torch", "numpy", "d3rlpy")})
            continue
        trainer = trainers[number]
        if "budget" in question:
            held_out = read_log(folder / _HELD_OUT)
            _say(trainer.study(held_out, question["budget"])._asdict())
        elif "train" in question:
            trainer.train(question["train"])
            _say(None)
        elif "score" in question:
            np.save(folder / _SCORES, trainer.q(read_log(folder / _TO_SCORE)), allow_pickle=False)
            _say(None)
        else:
            _say(trainer.seconds_per_update(question["n_updates"]))


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
