"""A blind study on disk: pairs without their origin, the key of the sides, and judgements.

```
<study>/pairs.jsonl        what judges see: left and right, and nothing of where they come from
        key.json           which side is whose; judging never opens it
        judgements.jsonl   one line a judged pair; a torn last line is left out
        unblinded.json     written when the result was read: the study is closed then
```
"""

import fcntl
import os
import random
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, Self

import orjson
from pydantic import Field, ValidationError

from harness_core.controller.decision import Reason
from harness_core.errors import DataError, NoDataError, ParameterError
from harness_core.evaluation.blind import CRITERIA, Criterion, Preference
from harness_core.records import Record
from harness_core.tables import publish_bytes
from harness_core.trajectories.decision_log import LogEntry, LoggedDecision
from harness_core.trajectories.schema import JsonObject

Side = Literal["left", "right"]
Choice = Literal["left", "right", "equal"]
CHOICES: Final[tuple[Choice, ...]] = ("left", "equal", "right")

_PAIRS: Final = "pairs.jsonl"
_KEY: Final = "key.json"
_JUDGEMENTS: Final = "judgements.jsonl"
_UNBLINDED: Final = "unblinded.json"
_PRIVATE: Final = 0o600
_SHOWN: Final = ("kind", "text", "arguments")
"""Fields of a candidate that a judge sees; any other one might tell where it comes from."""


class Pair(Record):
    """Two candidates for one state, in hidden order."""

    pair_id: str = Field(min_length=1)
    state: JsonObject
    left: JsonObject
    right: JsonObject


class PairKey(Record):
    """What is hidden of a pair."""

    pair_id: str
    decision_id: str
    task: str
    controller: Side
    """Where the controller's pick stands; the agent's first candidate stands on the other side."""


class StudyKey(Record):
    """What is hidden of a study, and how it was drawn."""

    format_version: Literal[1] = 1
    seed: int
    n_decisions: int
    """Decisions of the log with a pick and more than one candidate."""
    n_differing: int
    """Those where the pick is another text than the agent's first candidate."""
    pairs: tuple[PairKey, ...]


class Judgement(Record):
    """What one person said of one pair."""

    pair_id: str
    judge: str
    judged_at: datetime
    correctness: Choice
    brevity: Choice
    safety: Choice


class Study:
    """A prepared study, opened to judge: what it reads knows nothing of the sides."""

    def __init__(self, folder: Path) -> None:
        """Open a study.

        Raises:
            NoDataError: none was prepared there.
        """
        self.folder = folder
        if not (folder / _PAIRS).is_file():
            raise NoDataError(f"{folder}: no study; run `harness blind prepare` first")
        lines = (folder / _PAIRS).read_bytes().splitlines()
        self.pairs = {one.pair_id: one for one in map(Pair.model_validate_json, lines)}

    @classmethod
    def prepare(cls, folder: Path, entries: Iterable[LogEntry], *, n: int, seed: int) -> Self:
        """Draw pairs from a log and write them.

        Args:
            folder: of the study, which must not hold one.
            entries: of the log.
            n: pairs wanted; all that differ if there are fewer.
            seed: of the draw, the order and the sides.

        Raises:
            ParameterError: there is a study already.
            NoDataError: the controller's pick and the agent's first candidate never differ.
        """
        if (folder / _PAIRS).exists():
            raise ParameterError(f"{folder}: there is a study already; name another --study")
        n_decisions, differing = _differing(entries)
        if not differing:
            raise NoDataError("the controller's pick is the agent's first candidate everywhere")
        rng = random.Random(seed)
        drawn = rng.sample(differing, min(n, len(differing)))
        # Half of the picks stand on either side, so that a liking for one side moves nothing.
        sides: list[Side] = ["left", "right"] * ((len(drawn) + 1) // 2)
        rng.shuffle(sides)
        made = [_pair(one, side, rng) for one, side in zip(drawn, sides, strict=False)]
        key = StudyKey(
            seed=seed,
            n_decisions=n_decisions,
            n_differing=len(differing),
            pairs=tuple(hidden for _, hidden in made),
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish_bytes(folder / _KEY, key.model_dump_json(indent=2).encode())
        # Last, because it is what makes the folder a study.
        publish_bytes(
            folder / _PAIRS, b"".join(pair.model_dump_json().encode() + b"\n" for pair, _ in made)
        )
        return cls(folder)

    def judgements(self) -> list[Judgement]:
        """All judgements so far; the last one counts where a judge judged a pair twice."""
        found: dict[tuple[str, str], Judgement] = {}
        for line in _whole_lines(self.folder / _JUDGEMENTS):
            try:
                one = Judgement.model_validate_json(line)
            except ValidationError as error:
                raise DataError(f"{self.folder / _JUDGEMENTS}: a line is damaged") from error
            found[one.pair_id, one.judge] = one
        return list(found.values())

    def left_to_judge(self, judge: str) -> list[Pair]:
        """Pairs that this person has not judged, in the order of the study."""
        done = {one.pair_id for one in self.judgements() if one.judge == judge}
        return [pair for pair in self.pairs.values() if pair.pair_id not in done]

    @property
    def is_closed(self) -> bool:
        """Whether the result was read; judgements after that would not be blind."""
        return (self.folder / _UNBLINDED).exists()

    def judge(self, judgement: Judgement) -> None:
        """Write one judgement; it is on the disk once this returns.

        Raises:
            ParameterError: there is no such pair, or the study is closed.
        """
        if judgement.pair_id not in self.pairs:
            raise ParameterError(f"there is no pair {judgement.pair_id!r} in this study")
        if self.is_closed:
            raise ParameterError("the result was read, so this study is closed")
        line = judgement.model_dump_json().encode() + b"\n"
        path = self.folder / _JUDGEMENTS
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _cut_torn_tail(descriptor)
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def unblind(self, at: datetime) -> StudyKey:
        """Open the key and close the study.

        Raises:
            DataError: the key is gone or damaged.
        """
        try:
            key = StudyKey.model_validate_json((self.folder / _KEY).read_bytes())
        except (OSError, ValidationError) as error:
            raise DataError(f"{self.folder / _KEY}: the key of the sides cannot be read") from error
        if not self.is_closed:
            publish_bytes(self.folder / _UNBLINDED, orjson.dumps({"unblinded_at": at}))
        return key


def preferences(
    judgements: Iterable[Judgement], key: StudyKey
) -> dict[Criterion, list[Preference]]:
    """Judgements with their sides resolved, by criterion."""
    hidden = {one.pair_id: one for one in key.pairs}
    found: dict[Criterion, list[Preference]] = {name: [] for name in CRITERIA}
    for judgement in judgements:
        pair = hidden[judgement.pair_id]
        for name in CRITERIA:
            choice: Choice = getattr(judgement, name)
            sign = 0 if choice == "equal" else 1 if choice == pair.controller else -1
            found[name].append(Preference(pair.pair_id, pair.task, sign))
    return found


def _differing(entries: Iterable[LogEntry]) -> tuple[int, list[tuple[LoggedDecision, int]]]:
    """How many decisions had a choice, and those where the pick is not the agent's first."""
    n_decisions = 0
    found: dict[str, tuple[LoggedDecision, int]] = {}
    for entry in entries:
        if not isinstance(entry, LoggedDecision) or entry.decision is None:
            continue
        answer = entry.decision
        # What was drawn by lot to explore is not the controller's pick; interventions have no text.
        if answer.get("reason") == Reason.EXPLORATION or answer.get("legal"):
            continue
        chosen = answer.get("chosen_index")
        n_candidates = len(entry.candidates)
        if not isinstance(chosen, int) or not 0 <= chosen < n_candidates or n_candidates < 2:  # noqa: PLR2004
            continue
        n_decisions += 1
        if _shown(entry.candidates[chosen]) != _shown(entry.candidates[0]):
            found.setdefault(entry.decision_id, (entry, chosen))
    # Segments come in the order of their writers: sorted, equal logs give equal studies.
    return n_decisions, [found[name] for name in sorted(found)]


def _pair(
    drawn: tuple[LoggedDecision, int], side: Side, rng: random.Random
) -> tuple[Pair, PairKey]:
    logged, chosen = drawn
    ours, theirs = _shown(logged.candidates[chosen]), _shown(logged.candidates[0])
    pair_id = f"{rng.getrandbits(64):016x}"  # tells nothing of the decision
    left, right = (ours, theirs) if side == "left" else (theirs, ours)
    return (
        Pair(pair_id=pair_id, state=logged.state, left=left, right=right),
        PairKey(
            pair_id=pair_id,
            decision_id=logged.decision_id,
            task=_task(logged),
            controller=side,
        ),
    )


def _shown(candidate: JsonObject) -> JsonObject:
    return {name: candidate[name] for name in _SHOWN if candidate.get(name)}


def _task(logged: LoggedDecision) -> str:
    """What pairs that are not independent share: the task, else its description, else the run."""
    for name in (logged.state.get("task_id"), logged.state.get("description"), logged.session_id):
        if isinstance(name, str) and name:
            return name
    return logged.decision_id


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Lines that end; what a dying process left without an end is no judgement."""
    content = path.read_bytes() if path.exists() else b""
    yield from content.split(b"\n")[:-1]


def _cut_torn_tail(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    end = content.rfind(b"\n") + 1
    if end < size:
        os.ftruncate(descriptor, end)
