"""Bytes to records: hostile and broken logs, numbered as in the reliability paper."""

import gzip
import lzma
import os
from pathlib import Path, PurePosixPath

import orjson
import pytest

from harness_core.importers.base import ImportContext, RawRecord
from harness_core.importers.framing import Layout, parse_json, printable, read_records
from harness_core.importers.rejects import Reject, UnreadableError
from tests.importers.conftest import CONFIG, ReadBytes

GOOD = b'{"a": 1}'


def values(records: list[RawRecord | Reject]) -> list[object]:
    return [record.value for record in records if isinstance(record, RawRecord)]


def rules(records: list[RawRecord | Reject]) -> list[str]:
    return [record.rule_id for record in records if isinstance(record, Reject)]


@pytest.mark.parametrize(
    ("bad", "rule_id"),
    [
        pytest.param(b'{"a": "cut', "F-TRUNCATED", id="1 cut off"),
        pytest.param(b'{"a": "\xe2\x82', "F-UTF8", id="2 cut inside a character"),
        pytest.param(b'{"a": "\xff\xfe"}', "F-UTF8", id="5 invalid UTF-8"),
        pytest.param(b'{"a": "\\ud800"}', "F-SURROGATE", id="6 lone surrogate"),
        pytest.param(b'{"a": "\x01"}', "F-CONTROL", id="8 raw control character"),
        pytest.param(b'{"a": 1}{"b": 2}', "F-CONCATENATED", id="12 two on a line"),
        pytest.param(b'{"a": NaN}', "F-NAN", id="20 NaN"),
        pytest.param(b'{"a": -Infinity}', "F-NAN", id="20 infinity"),
        pytest.param(b'{"a": [Infinity]}', "F-NAN", id="20 infinity in a list"),
        pytest.param(b'{"a": 1e999}', "F-NUMBER", id="21 beyond double"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "F-NUMBER", id="22 5000 digits"),
        pytest.param(b'{"a": 18446744073709551616}', "F-NUMBER", id="23 beyond 64 bits"),
        pytest.param(b'{"a": 1, "a": 2}', "F-DUPLICATE-KEY", id="24 doubled key"),
        pytest.param(b'{"a": [{"b": 1, "b": 2}]}', "F-DUPLICATE-KEY", id="24 doubled inside"),
        pytest.param(b"[" * 1000 + b"]" * 1000, "F-DEPTH", id="25 deep arrays"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "F-DEPTH", id="25 deep objects"),
        pytest.param(b'{"a": 1,}', "F-JSON", id="27 trailing comma"),
        pytest.param(b"{'a': 1}", "F-PYTHON", id="27 Python value"),
        pytest.param(b'{"a": 1} // c', "F-CONCATENATED", id="27 comment"),
        pytest.param(b"oops", "F-JSON", id="no JSON at all"),
    ],
)
def test_a_broken_row_is_rejected_by_its_rule_and_its_neighbours_are_kept(
    read_bytes: ReadBytes, bad: bytes, rule_id: str
):
    records = read_bytes(GOOD + b"\n" + bad + b"\n" + GOOD)
    assert [type(record).__name__ for record in records] == ["RawRecord", "Reject", "RawRecord"]
    reject = records[1]
    assert isinstance(reject, Reject)
    assert (reject.rule_id, reject.line, reject.byte_offset) == (rule_id, 2, len(GOOD) + 1)
    assert len(reject.excerpt) <= 120
    assert reject.excerpt.isprintable()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbf" + GOOD + b"\n" + GOOD, id="3 byte order mark"),
        pytest.param(GOOD + b"\r\n" + GOOD + b"\r\n", id="9 CRLF"),
        pytest.param(GOOD + b"\r" + GOOD + b"\r", id="9 CR only"),
        pytest.param(b"\n\n  \n" + GOOD + b"  \n\t\n" + GOOD + b"\n\n", id="9 blank lines"),
        pytest.param(b"[" + GOOD + b",\n" + GOOD + b"]\n", id="12 array"),
        pytest.param(b'[\n  {\n    "a": 1\n  },\n  {"a": 1}\n]', id="12 pretty array"),
        pytest.param(b"\xef\xbb\xbf [" + GOOD + b"," + GOOD + b"] ", id="12 array after a mark"),
    ],
)
def test_two_records_are_read_however_they_are_framed(read_bytes: ReadBytes, content: bytes):
    assert values(read_bytes(content)) == [{"a": 1}, {"a": 1}]


def test_a_pretty_object_is_one_record(read_bytes: ReadBytes):
    content = orjson.dumps({"a": {"b": [1, {"c": 2}]}}, option=orjson.OPT_INDENT_2)
    assert values(read_bytes(content)) == [{"a": {"b": [1, {"c": 2}]}}]


def test_the_members_of_an_object_can_be_the_records(read_bytes: ReadBytes):
    records = read_bytes(b'{"x, y": {"a": "}{"}, "z": [1]}', layout=Layout.MEMBERS)
    assert [(record.key, record.value) for record in records if isinstance(record, RawRecord)] == [
        ("x, y", {"a": "}{"}),
        ("z", [1]),
    ]


@pytest.mark.parametrize("layout", Layout)
def test_a_broken_first_line_does_not_turn_a_log_into_a_document(
    read_bytes: ReadBytes, layout: Layout
):
    records = read_bytes(b'{"a": "cut\n' + GOOD + b"\n" + GOOD + b"\n", layout=layout)
    assert (values(records), len(rules(records))) == ([{"a": 1}, {"a": 1}], 1)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\u000b", "\u001c"])
def test_10_separators_inside_strings_do_not_end_a_line(read_bytes: ReadBytes, character: str):
    row = {"a": f"one{character}two"}
    assert values(read_bytes(orjson.dumps(row) + b"\n" + GOOD)) == [row, {"a": 1}]


def test_7_nul_in_a_string_is_kept(read_bytes: ReadBytes):
    assert values(read_bytes(b'{"a": "\\u0000"}')) == [{"a": "\x00"}]


def test_11_a_record_above_the_limit_is_skipped_and_the_next_one_is_read(read_bytes: ReadBytes):
    long = b'{"a": "' + b"x" * 5000 + b'"}'
    records = read_bytes(GOOD + b"\n" + long + b"\n" + GOOD + b"\n", max_record_bytes=1000)
    assert (values(records), rules(records)) == ([{"a": 1}, {"a": 1}], ["F-SIZE"])
    records = read_bytes(b"[" + GOOD + b"," + long + b"," + GOOD + b"]", max_record_bytes=1000)
    assert (values(records), rules(records)) == ([{"a": 1}, {"a": 1}], ["F-SIZE"])


def test_11_a_huge_line_is_skipped_in_memory_of_the_limit(tmp_path: Path):
    import tracemalloc  # noqa: PLC0415  # costs every other test time if it is traced

    with (tmp_path / "log.jsonl").open("wb") as sink:
        for _ in range(48):
            sink.write(b"x" * (1 << 20))
        sink.write(b"\n" + GOOD)
    context = ImportContext(
        source="test", config=CONFIG.model_copy(update={"max_record_bytes": 1 << 20})
    )
    tracemalloc.start()
    records = list(read_records(tmp_path, PurePosixPath("log.jsonl"), context))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (rules(records), values(records)) == (["F-SIZE"], [{"a": 1}])
    assert peak < 8 << 20


@pytest.mark.parametrize("content", [b"", b"\n\n", b"  \r\n", b"\xef\xbb\xbf", b"[]", b"[ \n ]"])
def test_13_nothing_in_a_file_is_no_record_and_no_reject(read_bytes: ReadBytes, content: bytes):
    assert read_bytes(content) == []


@pytest.mark.parametrize(
    ("content", "rule_id"),
    [
        pytest.param('{"a": 1}'.encode("utf-16"), "F-UTF16", id="4 UTF-16"),
        pytest.param('{"a": 1}'.encode("utf-16-le"), "F-UTF16", id="4 UTF-16 without a mark"),
        pytest.param('{"a": 1}'.encode("utf-32"), "F-UTF16", id="4 UTF-32"),
        pytest.param(b"PAR1\x15\x04", "F-FOREIGN", id="16 Parquet"),
        pytest.param(b"<!doctype html><p>404", "F-FOREIGN", id="16 HTML"),
        pytest.param(b"PK\x03\x04....", "F-FOREIGN", id="15 zip"),
        pytest.param(b"(\xb5/\xfd....", "F-FOREIGN", id="14 zstd"),
        pytest.param(gzip.compress(gzip.compress(GOOD)), "F-NESTED", id="14 gzip in gzip"),
        pytest.param(b'[{"a": 1}, {"a": 2}', "F-TRUNCATED", id="12 array cut off"),
        pytest.param(b'[{"a": 1}] {"b": 2}', "F-CONCATENATED", id="12 text after the array"),
        pytest.param(b'[{"a": 1},]', "F-JSON", id="27 trailing comma in an array"),
    ],
)
def test_a_file_that_is_something_else_is_named_as_such(
    read_bytes: ReadBytes, content: bytes, rule_id: str
):
    assert rules(read_bytes(content)) == [rule_id]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compression_is_told_by_content_not_by_name(read_bytes: ReadBytes, compress):
    assert values(read_bytes(compress(GOOD + b"\n") + compress(GOOD))) == [{"a": 1}, {"a": 1}]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_14_a_cut_compressed_file_gives_what_came_before_the_cut(read_bytes: ReadBytes, compress):
    rows = b"".join(orjson.dumps({"a": os.urandom(64).hex()}) + b"\n" for _ in range(4000))
    packed = compress(rows)
    records = read_bytes(packed[: len(packed) // 2])
    assert len(values(records)) > 100
    assert rules(records) == ["F-DAMAGED"]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_14_a_bomb_is_stopped_at_its_ratio(read_bytes: ReadBytes, compress):
    bomb = compress(b" " * (80 << 20))
    assert rules(read_bytes(bomb)) == ["F-RATIO"]


def test_17_only_regular_files_are_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    context = ImportContext(source="test", config=CONFIG)
    for name in ("pipe.jsonl", "vanished.jsonl"):
        assert rules(list(read_records(tmp_path, PurePosixPath(name), context))) == ["F-OPEN"]


@pytest.mark.parametrize("name", ["a\nb.jsonl", "-x.jsonl", "ü.jsonl", "a\x1b[31m.jsonl"])
def test_19_odd_file_names_are_safe_in_reports(read_bytes: ReadBytes, name: str):
    (reject,) = read_bytes(b"{", name=name)
    assert isinstance(reject, Reject)
    assert reject.path.isprintable()


def test_19_a_file_name_that_is_no_text_can_be_printed():
    assert printable(PurePosixPath(os.fsdecode(b"\xff.jsonl"))) == "\\xff.jsonl"


@pytest.mark.parametrize("depth", [64, 65])
def test_the_depth_limit_is_exact_and_strings_do_not_count(depth: int):
    data = b'["]]]]\\"[[[[",' * (depth - 1) + b"[1]" + b"]" * (depth - 1)
    if depth <= 64:
        parse_json(data, max_depth=64)
    else:
        with pytest.raises(UnreadableError, match="64 deep"):
            parse_json(data, max_depth=64)


def test_26_a_million_keys_are_refused_before_parsing():
    data = b"{" + b",".join(b'"%d":0' % number for number in range(300_000)) + b"}"
    with pytest.raises(UnreadableError, match="keys"):
        parse_json(data, max_depth=64)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1e300, 0.1 + 0.2])
def test_numbers_that_fit_are_exact(value: float):
    assert parse_json(orjson.dumps([value]), max_depth=4) == [value]


def test_numbers_in_strings_and_exponents_are_no_long_integers():
    data = b'["99999999999999999999", 1.00000000000000000000001, 1e-00000000000000000000001]'
    assert parse_json(data, max_depth=4)[0] == "99999999999999999999"


def test_53_an_unclosed_string_full_of_quotes_takes_linear_time(read_bytes: ReadBytes):
    records = read_bytes(b'{"a": "' + b'\\"' * 2_000_000)
    assert rules(records) == ["F-TRUNCATED"]
