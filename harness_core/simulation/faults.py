"""Answers that are no solution at all: cut off, not Python, or up to something dangerous.

The dangerous calls are of real kinds but would do no harm if they ran: they name nothing that
exists. The sandbox denies them anyway.
"""

import random
from typing import Final

from harness_core.simulation.source_edits import Edit, Source

_DANGERS: Final[tuple[tuple[str, str], ...]] = (
    ("import os", 'os.system("echo solved")'),
    ("import os", 'os.popen("echo solved")'),
    ("import subprocess", 'subprocess.run("echo solved", shell=True)'),
    ("import subprocess", 'subprocess.Popen(["echo", "solved"])'),
    ("import shutil", 'shutil.rmtree("no-such-folder-of-this-task", ignore_errors=True)'),
    ("import os", 'os.remove("no-such-file-of-this-task")'),
    ("import socket", 'socket.create_connection(("127.0.0.1", 9), timeout=0.1)'),
    ("", "eval(input())"),
    ("", "exec(input())"),
    ("", '__import__("os").system("echo solved")'),
)


def cut_off(program: str, *, rng: random.Random) -> str:
    """The beginning of a program, as when the answer ran out of tokens."""
    share = rng.uniform(0.45, 0.9)
    return program[: max(1, int(len(program.rstrip()) * share))]


def break_syntax(program: str, *, rng: random.Random) -> str:
    """A program with one error that makes it unreadable."""
    head, _, rest = program.partition("def ")
    broken = (
        f"Here is the solution:\n\n{program}",
        f"```python\n{program}```\n",
        f"{head}def {rest.replace(':' + chr(10), chr(10), 1)}",
        f"{head}def {rest.replace('(', '((', 1)}",
        f"{program.rstrip()})\n",
        f"{head}define {rest}",
    )
    return rng.choice(broken)


def add_danger(program: str, *, rng: random.Random) -> str:
    """A program that also calls something dangerous, openly or with its failure hidden."""
    source = Source(program)
    module, call = rng.choice(_DANGERS)
    function = source.functions()[0]
    first = function.body[0]
    start, indent = source.span(first).start, " " * first.col_offset
    if rng.choice((True, False)):
        added = f"{call}\n{indent}"
    else:
        lines = ("try:", f"    {call}", "except Exception:", "    pass", "")
        added = f"\n{indent}".join(lines)
    edits = [Edit(start, start, added)]
    if module:
        edits.append(Edit(0, 0, f"{module}\n"))
    return source.edited(edits)
