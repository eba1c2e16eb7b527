"""The linter's word on a program, which the program itself cannot change."""

from pathlib import Path

import pytest
from ruff import find_ruff_bin  # type: ignore[import-untyped]  # a wheel around a binary

from harness_core.rewards.style import clean_programs

CLEAN = "def add(one, two):\n    return one + two\n"


@pytest.mark.parametrize(
    "program",
    [
        "x = 1; y = 2\n",
        "if x == None:\n    pass\n",
        "x = (\n",
        "try:\n    f()\nexcept:\n    pass\n",
        "def f(x=[]):\n    return x\n",
        "if x == None:  # noqa\n    pass\n",
        "# ruff: noqa\nif x == None:\n    pass\n",
        "# flake8: noqa\nx = 1; y = 2\n",
    ],
)
def test_a_finding_is_a_finding_whatever_a_comment_says(program: str) -> None:
    assert clean_programs([program, CLEAN]) == {CLEAN}


def test_what_the_prompt_of_a_task_brings_along_is_no_finding() -> None:
    program = "from typing import Any, List\n\n\ndef f(x: List[int]):\n    ''' Note:  \n    '''\n"
    assert clean_programs([program]) == {program}


def test_no_programs_need_no_linter() -> None:
    assert clean_programs([]) == frozenset()


def test_a_program_that_breaks_the_linter_spoils_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    linter = tmp_path / "linter"
    real = find_ruff_bin()
    # Dies on any batch that holds the word; stands in for a parser that runs out of stack.
    linter.write_text(
        "#!/bin/sh\n"
        'for last; do :; done\nlist="${last#@}"\n'
        'while read -r name || [ -n "$name" ]; do grep -q poison "$name" && kill -ABRT $$; done'
        ' < "$list"\n'
        f'exec {real} "$@"\n'
    )
    linter.chmod(0o755)
    monkeypatch.setattr("harness_core.rewards.style.find_ruff_bin", lambda: str(linter))
    programs = [CLEAN, "poison = 1\n", "x = 1\n", "if x == None:\n    pass\n"]
    assert clean_programs(programs) == {CLEAN, "x = 1\n"}
