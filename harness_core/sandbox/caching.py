"""Verdicts and runs kept for ever, by content: the same program is never run twice on the same.

The key is the sha256 of everything that can change the result: program, calls or checks, limits,
backend, Python version and `SANDBOX_VERSION`. Time-outs are kept too, which also makes verdicts
near a limit stable. SQLite in WAL mode; several processes may share a file.
"""

import hashlib
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

import orjson
from filelock import FileLock

from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.inside.codec import decode, encode
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallResult, CallStatus, ProgramRun, Verdict

if TYPE_CHECKING:
    from harness_core.sandbox.grader import GradeJob

SANDBOX_VERSION: Final = 2
"""Raised whenever a change of the sandbox or the grader can change a result."""

_PARALLELISM: Final = frozenset({"n_workers"})
_BUSY_S: Final = 60.0
_CHUNK: Final = 500  # below SQLite's limit of variables in one statement
_ANY_SIZE: Final[dict[str, Any]] = {"limit_bytes": 1 << 30, "max_depth": 900}
"""What is kept here was within the limits when it came out of a box."""
_Value = TypeVar("_Value")


def verdict_key(job: "GradeJob", config: SandboxConfig) -> str:
    """Key of a verdict."""
    return _key("verdict", config, [job.program, job.entry_point, list(job.checks)])


def run_key(job: ProgramJob, config: SandboxConfig) -> str:
    """Key of a run."""
    return _key("run", config, [job.program, list(job.calls), list(job.scripts)])


class _Cache(Generic[_Value]):
    """A table from key to bytes."""

    def __init__(
        self, path: Path, *, dump: Callable[[_Value], bytes], load: Callable[[bytes], _Value]
    ) -> None:
        self._dump = dump
        self._load = load
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        # Switching to WAL does not wait for another process that is just doing the same.
        with FileLock(path.with_name(f"{path.name}.lock")):
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS results "
                "(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
        self._connection.execute("PRAGMA synchronous=NORMAL")

    def get(self, keys: Iterable[str]) -> dict[str, _Value]:
        """The values that are known."""
        found: dict[str, _Value] = {}
        for chunk in chunked(list(dict.fromkeys(keys))):
            marks = ",".join("?" * len(chunk))
            rows = self._connection.execute(
                f"SELECT key, value FROM results WHERE key IN ({marks})",  # noqa: S608  # only question marks
                chunk,
            )
            found.update((key, self._load(value)) for key, value in rows)
        return found

    def put(self, values: Mapping[str, _Value]) -> None:
        """Keep values, all or none; a key that is already there keeps its first value."""
        rows = [(key, self._dump(value)) for key, value in values.items()]
        if not rows:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("INSERT OR IGNORE INTO results VALUES (?, ?)", rows)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class VerdictCache(_Cache[Verdict]):
    """Verdicts by `verdict_key`."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            dump=lambda verdict: verdict.model_dump_json().encode(),
            load=Verdict.model_validate_json,
        )


class RunCache(_Cache[ProgramRun]):
    """Runs by `run_key`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, dump=_dump_run, load=_load_run)


def run_cached(
    sandbox: Sandbox, jobs: Sequence[ProgramJob], cache: RunCache | None
) -> list[ProgramRun]:
    """`sandbox.run_programs`, but each different job once, and only if the cache lacks it."""
    keys = [run_key(job, sandbox.config) for job in jobs]
    runs = {} if cache is None else cache.get(keys)
    new = {key: job for key, job in zip(keys, jobs, strict=True) if key not in runs}
    for portion in chunked(list(new)):
        results = sandbox.run_programs([new[key] for key in portion])
        fresh = dict(zip(portion, results, strict=True))
        if cache is not None:
            cache.put(fresh)
        runs.update(fresh)
    return [runs[key] for key in keys]


def chunked(keys: list[str]) -> Iterator[list[str]]:
    """Keys in portions: small enough for SQLite, and for what an interruption may lose."""
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]


def _key(kind: str, config: SandboxConfig, content: list[Any]) -> str:
    limits = config.model_dump(mode="json", exclude=set(_PARALLELISM))
    python = list(sys.version_info[:2])
    text = orjson.dumps(
        [kind, SANDBOX_VERSION, python, limits, _plain(content)], option=orjson.OPT_SORT_KEYS
    )
    return hashlib.sha256(text).hexdigest()


def _plain(content: Any) -> Any:
    # orjson refuses lone surrogates, which hostile logs do hold.
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass").decode("latin-1")
    return [_plain(item) for item in content] if isinstance(content, list) else content


def _dump_run(run: ProgramRun) -> bytes:
    return orjson.dumps(
        {
            "calls": list(map(_dump_result, run.calls)),
            "scripts": list(map(_dump_result, run.scripts)),
            "layers": run.layers,
            "tampered": run.tampered,
            "stateful": run.stateful,
        }
    )


def _dump_result(result: CallResult) -> list[str]:
    has_value = result.status is CallStatus.VALUE
    value = encode(result.value, **_ANY_SIZE) if has_value else b"null"
    return [result.status.value, result.detail, value.decode("ascii")]


def _load_run(data: bytes) -> ProgramRun:
    tree = orjson.loads(data)
    return ProgramRun(
        calls=tuple(map(_load_result, tree["calls"])),
        scripts=tuple(map(_load_result, tree["scripts"])),
        layers=tuple(tree["layers"]),
        tampered=tree["tampered"],
        stateful=tree["stateful"],
    )


def _load_result(parts: list[str]) -> CallResult:
    status, detail, value = parts
    return CallResult(
        status=CallStatus(status),
        detail=detail,
        value=decode(value.encode("ascii"), **_ANY_SIZE),
    )
