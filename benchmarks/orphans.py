"""Workers that end when whoever started them is gone, killed ones included."""

import os
import threading
import time
from typing import Final

_EVERY_S: Final = 0.5


def end_with(parent: int) -> None:
    """From now on this process looks whether `parent` is its parent still, and ends if not."""
    threading.Thread(target=_watch, args=(parent,), name="orphans", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY_S)
    # Nobody is left who could be told; an exception would end this thread alone.
    os._exit(1)
