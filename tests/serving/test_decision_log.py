import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.errors import DecisionLogError
from harness_core.importers.base import ImportContext
from harness_core.importers.decisions import DecisionsImporter
from harness_core.importers.rejects import Reject
from harness_core.serving import log_files
from harness_core.serving.decision_log import MAX_DEPTH, DecisionLog, LogTally, read_log
from harness_core.trajectories.decision_log import LogEntry
from harness_core.trajectories.schema import Trajectory
from tests.importers.conftest import CONFIG
from tests.serving.logged import decision, outcome

N_KILLS = 12
PROCESS = "tests.serving.appending_process"


def ids(folder: Path) -> list[str]:
    return [entry.decision_id for entry in read_log(folder)]


def files(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[2] for path in folder.iterdir())


def test_what_was_appended_is_read_back_in_order(tmp_path: Path):
    entries: list[LogEntry] = [
        decision("a"),
        outcome("o", "a", source="user", score=0.5),
        decision("b"),
    ]
    with DecisionLog(tmp_path / "log") as log:
        for entry in entries:
            log.append(entry)
    assert list(read_log(tmp_path / "log")) == entries


def test_an_entry_can_be_read_as_soon_as_it_is_acknowledged(tmp_path: Path):
    with DecisionLog(tmp_path, fsync_window_s=3600) as log:
        log.append(decision("a"))
        assert ids(tmp_path) == ["a"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path):
    assert ids(tmp_path / "nowhere") == []


def test_prompts_are_readable_by_their_owner_only(tmp_path: Path):
    with DecisionLog(tmp_path / "log") as log:
        log.append(decision("a"))
    (segment,) = (tmp_path / "log").iterdir()
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    assert segment.stat().st_mode & 0o077 == 0


def test_what_was_acknowledged_survives_kill_9_at_any_moment(tmp_path: Path, project_root: Path):
    """X7, with rotation and compression on the way, in one folder over many deaths."""
    moments = random.Random(7)
    acknowledged: list[str] = []
    for number in range(N_KILLS):
        with subprocess.Popen(
            [sys.executable, "-m", PROCESS, str(tmp_path), str(number), "60000"],
            stdout=subprocess.PIPE,
            cwd=project_root,
        ) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            for _ in range(moments.randrange(200)):
                said += process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            said += process.stdout.read()
        whole, _, _ = said.rpartition(b"\n")
        acknowledged += whole.decode().split("\n")
    tally = LogTally()
    found = Counter(entry.decision_id for entry in read_log(tmp_path, tally=tally))
    assert len(acknowledged) > N_KILLS
    assert set(acknowledged) <= found.keys()
    assert set(found.values()) == {1}
    assert tally.n_damaged == 0
    # At most one entry a thread was written and not acknowledged.
    assert sum(found.values()) <= len(acknowledged) + 2 * N_KILLS
    with DecisionLog(tmp_path, max_segment_bytes=1):
        assert Counter(ids(tmp_path)) == found
    assert {name.partition(".")[2] for name in files(tmp_path)} <= {"gz", ""}


def test_many_threads_write_whole_lines(tmp_path: Path):
    with DecisionLog(tmp_path, max_segment_bytes=20_000) as log:

        def append(part: int) -> None:
            for number in range(40):
                log.append(decision(f"{part}-{number}"))

        threads = [threading.Thread(target=append, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    tally = LogTally()
    assert len(list(read_log(tmp_path, tally=tally))) == 160
    assert (tally.n_damaged, tally.n_duplicates) == (0, 0)


def test_two_writers_of_one_folder_have_a_segment_each(tmp_path: Path):
    with DecisionLog(tmp_path) as first, DecisionLog(tmp_path) as second:
        first.append(decision("a"))
        second.append(decision("b"))
        assert len(files(tmp_path)) == 2
    assert sorted(ids(tmp_path)) == ["a", "b"]


def test_a_full_segment_is_compressed_and_a_small_one_is_gone_on_with(tmp_path: Path):
    with DecisionLog(tmp_path, max_segment_bytes=2000) as log:
        for number in range(8):
            log.append(decision(str(number)))
    assert files(tmp_path).count("jsonl.gz") >= 2
    assert files(tmp_path).count("jsonl") == 1
    before = len(files(tmp_path))
    with DecisionLog(tmp_path, max_segment_bytes=1 << 20) as log:
        log.append(decision("8"))
    assert len(files(tmp_path)) == before
    assert ids(tmp_path) == [str(number) for number in range(9)]


def test_an_old_segment_is_finished_by_the_next_entry(tmp_path: Path):
    with DecisionLog(tmp_path, max_segment_age_s=0.0) as log:
        log.append(decision("a"))
        log.append(decision("b"))
    assert "jsonl.gz" in files(tmp_path)
    assert ids(tmp_path) == ["a", "b"]


def test_a_torn_tail_is_no_entry_and_is_cut_off_by_the_next_writer(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
    (segment,) = tmp_path.iterdir()
    with segment.open("ab") as file:
        file.write(decision("torn").model_dump_json().encode()[:-20])
    tally = LogTally()
    assert [entry.decision_id for entry in read_log(tmp_path, tally=tally)] == ["a"]
    assert tally.n_damaged == 0
    with DecisionLog(tmp_path) as log:
        log.append(decision("b"))
    assert ids(tmp_path) == ["a", "b"]


def test_dying_between_compressing_and_removing_tells_nothing_twice(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
    (segment,) = tmp_path.iterdir()
    segment.with_name(f"{segment.name}.gz").write_bytes(gzip.compress(segment.read_bytes()))
    assert ids(tmp_path) == ["a"]
    with DecisionLog(tmp_path, max_segment_bytes=1):
        assert ids(tmp_path) == ["a"]
    assert files(tmp_path) == ["jsonl.gz"]


def test_a_segment_that_is_compressed_while_it_is_listed_is_still_found(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
    (listed,) = log_files.segments(tmp_path)
    (path, descriptor) = next(log_files.abandoned_segments(tmp_path))
    log_files.finish(path, descriptor)
    assert log_files.present_form(listed).name.endswith(".jsonl.gz")


def test_a_damaged_line_is_counted_with_its_place_and_costs_nothing_else(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        for name in "abc":
            log.append(decision(name))
    (segment,) = tmp_path.iterdir()
    lines = segment.read_bytes().split(b"\n")
    lines[1] = lines[1][:50] + b"\x00" + lines[1][51:]
    segment.write_bytes(b"\n".join(lines))
    tally = LogTally()
    assert [entry.decision_id for entry in read_log(tmp_path, tally=tally)] == ["a", "c"]
    assert tally.n_damaged == 1
    assert tally.damaged[0].startswith(f"{segment.name}, line 2: ")


def test_a_damaged_line_is_warned_of_where_nobody_counts(tmp_path: Path, caplog):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
    (segment,) = tmp_path.iterdir()
    segment.write_bytes(segment.read_bytes().replace(b"Hi.", b"Ha."))
    assert ids(tmp_path) == []
    assert f"1 damaged lines, as {segment.name}, line 1: the line was changed" in caplog.text


def test_lines_from_before_there_was_a_check_sum_are_read(tmp_path: Path):
    lines = [decision(name).model_dump_json() for name in "ab"]
    (tmp_path / f"{1:020d}-1-a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with DecisionLog(tmp_path) as log:
        log.append(decision("c"))
    tally = LogTally()
    assert [entry.decision_id for entry in read_log(tmp_path, tally=tally)] == ["a", "b", "c"]
    assert tally.n_damaged == 0


def test_a_line_stays_json_for_everybody_else(tmp_path: Path):
    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
    (segment,) = tmp_path.iterdir()
    line = segment.read_bytes()
    told = json.loads(line)
    body, _, _ = line.partition(b',"crc32":')
    assert told.pop("crc32") == f"{zlib.crc32(body):08x}"
    assert decision("a").model_dump(mode="json") == told


NAMES = "abc"
ENTRIES = [decision(name, candidates=({"text": f"é {name} \\ \n"},)) for name in NAMES]


@pytest.fixture(scope="module")
def three_lines(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    with DecisionLog(folder) as log:
        for entry in ENTRIES:
            log.append(entry)
    (segment,) = folder.iterdir()
    return segment.read_bytes()


@given(data=st.data())
@settings(max_examples=300)
def test_any_changed_byte_of_a_record_is_told_and_costs_that_record_only(
    tmp_path_factory: pytest.TempPathFactory, three_lines: bytes, data: st.DataObject
):
    """What was changed is neither read nor imported; all else is, whatever the byte became."""
    folder = tmp_path_factory.mktemp("log")
    # Without the last line feed, a line is one that was still being written.
    place = data.draw(st.integers(0, len(three_lines) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda one: one != three_lines[place]))
    changed = three_lines[:place] + bytes([byte]) + three_lines[place + 1 :]
    (folder / "1-1-a.jsonl").write_bytes(changed)
    number = three_lines[:place].count(b"\n")
    is_line_feed = three_lines[place : place + 1] == b"\n"
    lost = {number, number + 1} if is_line_feed else {number}

    tally = LogTally()
    found = list(read_log(folder, tally=tally))
    assert found == [entry for index, entry in enumerate(ENTRIES) if index not in lost]
    assert tally.n_damaged >= 1
    assert tally.damaged[0].startswith(f"1-1-a.jsonl, line {number + 1}: ")

    context = ImportContext(source="log", config=CONFIG)
    items = list(DecisionsImporter().read(folder, context))
    rejects = [item for item in items if isinstance(item, Reject)]
    imported = [item.steps[0].decision_id for item in items if isinstance(item, Trajectory)]
    if not (is_line_feed and byte == ord("\r")):  # the line end of other systems costs nothing
        assert rejects
        assert rejects[0].line == number + 1
        # What begins as no log does is not looked into at all.
        is_foreign = rejects[0].rule_id in {"F-FOREIGN", "F-UTF16"}
        assert imported == ([] if is_foreign else [entry.decision_id for entry in found])


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (decision("deep", state={"a": eval("[" * MAX_DEPTH + "]" * MAX_DEPTH)}), "deep"),  # noqa: S307  # a constant
        (decision("long", candidates=({"text": "x" * (1 << 24)},)), "larger than"),
        (decision("half", candidates=({"text": "\ud800"},)), "surrogate"),
    ],
    ids=["deep", "long", "half"],
)
def test_what_readers_would_refuse_is_not_acknowledged(tmp_path: Path, entry, reason: str):
    with DecisionLog(tmp_path) as log:
        with pytest.raises(DecisionLogError, match=reason):
            log.append(entry)
        log.append(decision("a"))
    assert ids(tmp_path) == ["a"]


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """The system refuses to let a file grow beyond this, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_leaves_no_half_entry(tmp_path: Path):
    written, refused = [], set()
    with DecisionLog(tmp_path) as log:
        with files_of_at_most(3000):
            for number in range(20):
                try:
                    log.append(decision(str(number)))
                    written.append(str(number))
                except DecisionLogError as error:
                    refused.add(str(error).partition(": ")[2])
        assert refused == {"File too large; the entry was not logged"}
        assert 0 < len(written) < 20
        log.append(decision("after"))
    tally = LogTally()
    found = [entry.decision_id for entry in read_log(tmp_path, tally=tally)]
    assert found == [*written, "after"]
    assert tally.n_damaged == 0


def test_what_cannot_be_cut_off_stays_behind_in_a_segment_of_its_own(tmp_path: Path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with DecisionLog(tmp_path) as log:
        log.append(decision("a"))
        with monkeypatch.context() as patch, files_of_at_most(900):
            patch.setattr(os, "ftruncate", refuse)
            with pytest.raises(DecisionLogError):
                log.append(decision("b"))
        log.append(decision("c"))
    tally = LogTally()
    assert [entry.decision_id for entry in read_log(tmp_path, tally=tally)] == ["a", "c"]
    assert tally.n_damaged == 0


def test_a_closed_log_takes_nothing(tmp_path: Path):
    log = DecisionLog(tmp_path)
    log.close()
    log.close()
    with pytest.raises(DecisionLogError, match="closed"):
        log.append(decision("a"))
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(DecisionLogError, match="file"):
        DecisionLog(tmp_path / "file" / "log")


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, texts: list[str]):
    folder = tmp_path_factory.mktemp("log")
    entries = [
        decision(str(number), state={"description": text}, candidates=({"text": text},))
        for number, text in enumerate(texts)
    ]
    with DecisionLog(folder) as log:
        for entry in entries:
            log.append(entry)
    assert list(read_log(folder)) == entries
