"""What glibc keeps of memory that was freed."""

import platform
import subprocess
import sys

import pytest

_FREE_ALL_BUT_THE_LAST = """
import os, threading
from pathlib import Path
from harness_core.serving.heap import give_back, use_one_heap

def used():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

use_one_heap()
held = []
def fill():
    held.extend(bytes(10_000) for _ in range(10_000))
thread = threading.Thread(target=fill)
thread.start()
thread.join()
full = used()
del held[:-1]
kept = used()
give_back()
print(full - kept < 20e6, kept - used() > 80e6)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_what_was_freed_below_something_that_is_kept_goes_back_to_the_system_when_asked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FREE_ALL_BUT_THE_LAST], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "True"]
