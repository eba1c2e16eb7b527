"""Importer `decisions`: the controller's own log as trajectories.

A folder of segments, one entry a line (`trajectories.decision_log`) with its check sum
(`decision_seal`). Decisions whose requests tell as their history what was answered before are the
steps of one trajectory, within a session where one is named; any other decision is a trajectory of
its own. What a request told as history beyond that stands before it as steps without candidates.

What came of it: the outcome of the last decision that has one. None at all: the trajectory is kept
as cut off, with an unknown outcome, for its propensities. A late one is joined whenever the log is
read next. Of several the one that `settled` names. Reviews: a person's `choose`, `correct`, and
`approve` of what nobody had answered give a trajectory of their own, which ends in what the person
wanted; an `appeal` is counted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from harness_core.importers.base import (
    ImportContext,
    Item,
    RawRecord,
    build_items,
    has_suffix,
    log_files,
)
from harness_core.importers.decision_requests import Request, read_request, task_of
from harness_core.importers.decision_runs import reviewed_run, runs_of, told_run
from harness_core.importers.decision_seal import unsealed
from harness_core.importers.framing import read_pieces
from harness_core.importers.inflating import chunks
from harness_core.importers.rejects import Reject
from harness_core.importers.tasks import TaskBook
from harness_core.tables import file_digest
from harness_core.trajectories.decision_log import (
    LoggedDecision,
    LoggedOutcome,
    LoggedReview,
    entry_key,
    parse_entry,
)
from harness_core.trajectories.schema import Trajectory

_MAX_HELD_BYTES: Final = 32 << 20


@dataclass(slots=True)
class _Log:
    """All entries of a log."""

    requests: list[Request] = field(default_factory=list)
    outcomes: dict[str, list[LoggedOutcome]] = field(default_factory=lambda: defaultdict(list))
    reviews: dict[str, list[LoggedReview]] = field(default_factory=lambda: defaultdict(list))


class DecisionsImporter:
    """Reads decision logs, open segments and compressed ones."""

    name: Final = "decisions"

    def reads(self, path: PurePosixPath) -> bool:
        """JSON Lines."""
        return has_suffix(path, ".jsonl", ".ndjson")

    def sniff(self, path: PurePosixPath, head: bytes) -> float:
        """The keys that every entry has."""
        del path
        has_keys = b'"record"' in head and b'"decision_id"' in head
        return 0.98 if has_keys and b'"format_version"' in head else 0.0

    def read(self, folder: Path, context: ImportContext) -> Iterator[Item]:
        """All entries are read before the first trajectory is told: outcomes come late."""
        log = _Log()
        seen: set[tuple[str, str]] = set()

        def note(record: RawRecord) -> tuple[Item, ...]:
            entry = parse_entry(unsealed(record.raw))
            key = entry_key(entry)
            if key in seen:
                context.warn("D-TWICE")
            elif isinstance(entry, LoggedDecision):
                log.requests.append(read_request(entry, record))
            elif isinstance(entry, LoggedOutcome):
                log.outcomes[entry.decision_id].append(entry)
            else:
                log.reviews[entry.decision_id].append(entry)
            seen.add(key)
            return ()

        for path in log_files(folder, self):
            for record in _records(folder, path, context):
                yield from build_items(record, context, note)
        yield from _tell(log, context)


def _records(
    folder: Path, path: PurePosixPath, context: ImportContext
) -> Iterator[RawRecord | Reject]:
    file = folder / path
    pieces = whole_lines(chunks(file))
    return read_pieces(pieces, path, context, digest=lambda: file_digest(file))


def whole_lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """A stream without what stands after its last line feed: a line that was still being written.

    What begins with `[` is no segment but a document, and is passed on as it is.
    """
    held = b""
    is_document: bool | None = None
    for chunk in stream:
        if is_document is None and chunk.strip():
            is_document = chunk.lstrip()[:1] == b"["
        if is_document:
            yield held + chunk
            held = b""
            continue
        held += chunk
        end = held.rfind(b"\n") + 1
        # Whoever takes lines apart refuses one that is so long; it need not be held whole.
        end = end or (len(held) if len(held) > _MAX_HELD_BYTES else 0)
        if end:
            yield held[:end]
            held = held[end:]


def _tell(log: _Log, context: ImportContext) -> Iterator[Item]:
    tasks = TaskBook()
    known = {request.decision.decision_id for request in log.requests}
    for said in (log.outcomes, log.reviews):
        for name in said.keys() - known:
            for _ in said[name]:
                context.warn("D-NO-DECISION")
    for run in runs_of(log.requests):

        def build(record: RawRecord, run: list[Request] = run) -> Iterator[Item]:
            del record
            told = list(_told(run, log, context))
            # A task that nobody tried is none.
            for request in run if told else ():
                if tasks.add(task_of(request, context)):
                    context.warn("D-TASK-CONFLICT")
            yield from told

        yield from build_items(run[0].record, context, build)
    yield from tasks


def _told(run: list[Request], log: _Log, context: ImportContext) -> Iterator[Trajectory]:
    """What was done, and what people wanted instead."""
    trajectory = told_run(run, log.outcomes, log.reviews, context)
    if trajectory is None:
        context.warn("D-NOT-ANSWERED")
    else:
        yield trajectory
    for request in run:
        reviews = log.reviews.get(request.decision.decision_id, ())
        yield from reviewed_run(request, reviews, log.outcomes, context)
