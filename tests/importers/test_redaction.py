import time

import pytest

from harness_core.importers.redaction import excerpt, redact


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-" + "a1B2" * 6,
        "ghp_" + "x" * 36,
        "AKIA" + "Q" * 16,
        "AIza" + "S" * 30,
        "xoxb-" + "1234567890-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "ann.lee+x@mail.example.com",
        "postgres://ann:hunter2@db.example",
        '"password": "hunter2"',
        "Authorization: Bearer abcdef123456",
        "4111 1111 1111 1111",
        "0123456789abcdef" * 3,
        "QUJD" * 20,
    ],
)
def test_what_looks_like_a_secret_does_not_reach_an_excerpt(secret: str):
    shown = excerpt(f'{{"note": "before {secret} after"}}'.encode())
    assert secret not in shown
    assert "[" in shown


def test_plain_text_stays_readable():
    text = '{"thought": "try 12 and 13", "code": "def f(x):"}'
    assert redact(text) == text


def test_an_excerpt_is_one_short_printable_line():
    shown = excerpt(b"\x1b[31mred\r\nINFO gate passed\x00" + b"x " * 500 + b"\xff")
    assert shown.isprintable()
    assert len(shown) == 120
    assert shown.startswith("\\x1b[31mred\\r\\nINFO")


def test_a_secret_cut_by_the_window_is_not_shown():
    assert "sk-" not in excerpt(b"eyJ" + b"a" * 960 + b" sk-" + b"b" * 99)


@pytest.mark.parametrize(
    "pattern", ["a@", "a.", "1 ", "eyJa.", "secret ", "://", "sk-", "AKIA", "/+"]
)
def test_redaction_takes_linear_time(pattern: str):
    text = pattern * 20_000
    start = time.perf_counter()
    redact(text)
    assert time.perf_counter() - start < 2
