"""How the rest of the library gets a sandbox, and what of it works on this machine."""

import contextlib

from harness_core.errors import IsolationUnavailable
from harness_core.sandbox.box import Box, BoxError
from harness_core.sandbox.bubblewrap import find_bubblewrap
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
    """Which layers take on this machine, by name; all must, or programs are not run."""
    held: tuple[str, ...] = ()
    boxed = config.model_copy(update={"backend": "bubblewrap"})
    with contextlib.suppress(IsolationUnavailable, BoxError), Box(boxed) as box:
        held = box.layers
    found = {name: name in held for name in ("bubblewrap", *LAYERS)}
    return {"bubblewrap_found": find_bubblewrap() is not None, **found}
