"""What is left of a benchmark that was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARENT = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from benchmarks.orphans import end_with

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, get_context("spawn"), partial(end_with, os.getpid()))
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 60)
    time.sleep(60)
"""


def test_a_worker_whose_parent_was_killed_ends(tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
        text=True,
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(worker)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # nobody may be there to ask how it ended
