"""Hostile candidates without end, each a little different, so that none is graded only once.

`f(x)` must return x + 1; every candidate is wrong. Quick ones end at once by themselves or are
refused at once. Slow ones run into a limit. Box-killers leave so much behind that the box is ended.
"""

import itertools
from collections.abc import Iterator
from typing import Final

CHECKS: Final = ("assert f(1) == 2", "assert f(20) == 21")
MARK: Final = "harness-escape"
"""Begins the name of whatever a candidate tries to leave outside of its scratch folder."""

QUICK: Final[dict[str, str]] = {
    "equal to everything": """
class Yes:
    number = NUMBER
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def f(x): return Yes()
""",
    "a lying int": """
class Int(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x): return Int(NUMBER)
""",
    "a hard exit": "import os\ndef f(x): os._exit(NUMBER % 256)",
    "an exit while loading": "import sys\nsys.exit(NUMBER % 3)",
    "a signal to itself": """
import os, signal
def f(x):
    for name in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP):
        try: os.kill(os.getpid(), name)
        except OSError: pass
    return NUMBER + 30
""",
    "a crash": "import ctypes\ndef f(x): ctypes.string_at(NUMBER % 4096)",
    "forks": """
import os
def f(x):
    n = 0
    for _ in range(NUMBER % 7 + 1):
        try:
            if os.fork() == 0: os._exit(0)
        except OSError: n += 1
    return -n
""",
    "threads": """
import threading
def f(x):
    for _ in range(NUMBER % 5 + 1):
        try: threading.Thread(target=print).start()
        except RuntimeError: pass
    return None
""",
    "another program": """
import os, subprocess
def f(x):
    try: return subprocess.run(["/bin/sh", "-c", "touch /tmp/MARK-NUMBER"]).returncode - 7
    except OSError: return -NUMBER - 1
""",
    "file litter": """
def f(x):
    for number in range(NUMBER % 60 + 1):
        with open(f"litter-{number}", "w") as file: file.write("x" * (NUMBER % 4096))
    return None
""",
    "files elsewhere": """
import os
def f(x):
    done = []
    for folder in ("/tmp", "/dev/shm", "/var/tmp", "/root", "/home", "/", "/etc", "/usr/lib",
                   os.path.dirname(os.__file__), "/box", "/proc", "/sys", ".."):
        try:
            with open(os.path.join(folder, "MARK-NUMBER"), "w") as file: file.write("x")
            done.append(folder)
        except OSError: pass
    return done
""",
    "big output": """
import os, sys
def f(x):
    print("1 passed" * (NUMBER % 20_000))
    sys.stderr.write("OK" * 10_000)
    for fd in (1, 2):
        try: os.write(fd, b"passed" * 10_000)
        except OSError: pass
""",
    "a deep structure": """
def f(x):
    a = NUMBER
    for _ in range(NUMBER % 3000 + 100): a = [a]
    return a
""",
    "a wide structure": "def f(x): return ['NUMBER' * 60] * (5_000 + NUMBER)",
    "a structure inside itself": "def f(x):\n    a = {NUMBER: []}\n    a[NUMBER] = a\n    return a",
    "a memory hog": "def f(x): return len(bytearray((1 << 30) + NUMBER))",
    "a giant number": "def f(x): return 1 << (NUMBER % 1000 + 10**7)",
    "a socket": """
import socket
def f(x):
    made = []
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 16, 17):
        try: made.append(socket.socket(family, socket.SOCK_STREAM))
        except OSError: pass
    return [NUMBER, len(made)]
""",
    "a forged answer": """
import os, struct
def f(x):
    os.write(4, struct.pack("!IBI", 1, ord("V"), NUMBER) + b"2")
    return 30 + NUMBER
""",
    "bytes that are no frame": "import os\nos.write(4, b'\\xff' * (NUMBER % 99 + 1))\nf = None",
    "every descriptor": """
import os
def f(x):
    opened = []
    try:
        while True: opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError: return [NUMBER, len(opened) < 4096]
""",
    "closed descriptors": """
import os
def f(x):
    os.closerange(0, NUMBER % 9)
    return -NUMBER
""",
    "links": """
import os
def f(x):
    for make in (os.symlink, os.link):
        try: make("/etc/passwd", f"link-NUMBER")
        except OSError: pass
    return os.listdir(".") or NUMBER + 40
""",
    "no folder": "import os\ndef f(x):\n    os.rmdir(os.getcwd())\n    return -NUMBER",
    "other builtins": """
import builtins, math, sys
for name in ("abs", "all", "any", "eval", "compile", "isinstance", "sorted", "type"):
    setattr(builtins, name, lambda *a, **k: 2)
sys.modules.clear()
def f(x): return -NUMBER
""",
    "a tracer": """
import sys
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: None)
def f(x): return str(NUMBER)
""",
    "a timer": """
import signal
signal.signal(signal.SIGALRM, lambda *a: None)
def f(x):
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    return -NUMBER
""",
    "raw system calls": """
import ctypes
libc = ctypes.CDLL(None)
def f(x):
    return [libc.syscall(number, 0, 0, 0, 0, 0) + NUMBER
            for number in (56, 57, 58, 59, 41, 101, 165, 272, 308, 319, 321, 425, 437, 0x40000029)]
""",
    "limits": """
import resource
def f(x):
    for name in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
        try: resource.setrlimit(name, (-1, -1))
        except (OSError, ValueError): pass
    return NUMBER % 2 == 5
""",
    "endless recursion": "def f(x): return f(x + NUMBER)",
    "a syntax error": "def f(x): return (NUMBER",
    "no data": "def f(x): return (item for item in range(NUMBER))",
    "an exception that fights": """
class Bad(BaseException):
    def __str__(self): raise Bad
    __repr__ = __str__
def f(x): raise Bad(NUMBER)
""",
    "a finaliser": """
import os, struct
class Last:
    def __del__(self): os.write(4, struct.pack("!IBI", 1, ord("V"), 0) + b"2")
last = Last()
def f(x): return NUMBER * 0
""",
}

SLOW: Final[dict[str, str]] = {
    "a loop": "def f(x):\n    n = NUMBER\n    while True: n += 1",
    "sleep": "import time\ndef f(x): time.sleep(60 + NUMBER)",
    "a loop that swallows everything": """
import signal
for name in (signal.SIGXCPU, signal.SIGALRM, signal.SIGTERM): signal.signal(name, signal.SIG_IGN)
def f(x):
    while NUMBER + 1:
        try:
            while True: pass
        except BaseException: pass
""",
    "endless output": "def f(x):\n    while True: print('passed NUMBER' * 1000)",
    "memory that is touched": "def f(x): return sum(b'x' * (400 << 20)) + NUMBER",
    "a slow pattern": """
import re
def f(x): return re.match("(a+)+$", "a" * (40 + NUMBER % 9) + "b")
""",
    "silence": "import os\nos.close(4)\ndef f(x):\n    while NUMBER + 1: pass",
}

BOX_KILLERS: Final[dict[str, str]] = {
    "nested folders": "import os\nos.makedirs('a/b/NUMBER')\nopen('a/b/file', 'w')\nf = len",
    "very many files": "for number in range(1100): open(f'NUMBER-{number}', 'w')\nf = len",
    "a full scratch folder": """
def f(x):
    number = 0
    while True:
        with open(f"NUMBER-{number}", "wb") as file: file.write(bytes(1 << 20))
        number += 1
""",
}


def hostile(*, n: int, slow_every: int = 0, killer_every: int = 0) -> Iterator[str]:
    """So many candidates; with every so manieth a slow one or a box-killer."""
    quick, slow, killers = (itertools.cycle(kind.values()) for kind in (QUICK, SLOW, BOX_KILLERS))
    for number in range(n):
        if slow_every and number % slow_every == slow_every - 1:
            source = next(slow)
        elif killer_every and number % killer_every == killer_every - 1:
            source = next(killers)
        else:
            source = next(quick)
        # The first line makes every program another one, whatever it does with the number.
        yield f"# {number}\n{source.replace('NUMBER', str(number)).replace('MARK', MARK)}"
