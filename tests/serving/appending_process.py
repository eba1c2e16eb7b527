"""Appends until it is killed and says which entries were acknowledged.

python -m tests.serving.appending_process FOLDER ROUND MAX_SEGMENT_BYTES
"""

import itertools
import os
import sys
import threading
from pathlib import Path

from harness_core.serving.decision_log import DecisionLog
from tests.serving.logged import decision


def main() -> None:
    folder, number, max_bytes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    log = DecisionLog(folder, fsync_window_s=0.01, max_segment_bytes=max_bytes)

    def append(thread: int) -> None:
        for count in itertools.count():
            name = f"{number}-{thread}-{count}"
            # Long enough that a line is no single page.
            log.append(decision(name, candidates=({"text": "x" * (count * 397 % 9000)},)))
            os.write(1, f"{name}\n".encode())

    for thread in range(2):
        threading.Thread(target=append, args=(thread,), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
