"""How the rest of the library gets a sandbox, and what of it works on this machine."""

import contextlib

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.box import Box, BoxError
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.inside.jail import LAYERS
from harness_core.sandbox.pool import BoxPool
from harness_core.sandbox.protocol import Sandbox


def open_sandbox(config: SandboxConfig) -> Sandbox:
    """Start the boxes; use the result as a context manager.

    Raises:
        IsolationUnavailable: a layer of the isolation does not take; the message says which one
            and what to install or to enable.
    """
    return BoxPool(config)


def probe(config: SandboxConfig) -> dict[str, bool]:
    """Which layers take on this machine, by name, the backend's first; all must, or nothing runs.

    With the backend `unsafe_local` it says what bubblewrap could do instead.
    """
    backend = "bubblewrap" if config.backend == "unsafe_local" else config.backend
    held: tuple[str, ...] = ()
    isolated = config.model_copy(update={"backend": backend})
    with contextlib.suppress(IsolationUnavailable, BoxError), Box(isolated) as box:
        held = box.layers
    return {name: name in held for name in (backend, *LAYERS)}


def describe(config: SandboxConfig) -> str:
    """The backend, the layers that hold, and what bounds the number of processes, in words.

    Raises:
        IsolationUnavailable: see `open_sandbox`.
    """
    with Box(config) as box:
        layers = ", ".join(box.layers) or "none"
        return (
            f"backend {config.backend}; layers that hold: {layers}; "
            f"processes are bounded by: {box.process_limit}"
        )
