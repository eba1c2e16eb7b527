"""A program of its own, so that another user can run it: what holds of the sandbox here, as JSON.

Called with the limits as JSON. The forks are bounded: at most 40 children that sleep for a second.
"""

import json
import os
import subprocess
import sys

from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.box import Box
from harness_core.sandbox.bubblewrap import boxed
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.process_guard import guard
from harness_core.sandbox.protocol import ProgramJob

FORKS = """
import os, sys, time
sys.path.insert(0, "/box")
from harness_core.sandbox.inside.jail import Limits, apply_limits
assert apply_limits(Limits(5, 1 << 30, 1 << 20, 64, {n_processes}))
n_children = 0
for _ in range(40):
    try:
        child = os.fork()
    except OSError:
        break
    if not child:
        time.sleep(1)
        os._exit(0)
    n_children += 1
print(n_children)
"""


def survey(config: SandboxConfig) -> dict[str, object]:
    with Box(config) as box:
        process_limit = box.process_limit
    with open_sandbox(config) as sandbox:
        program = "import os\ndef f(x): return x + 1\ndef g(): return os.fork()"
        (run,) = sandbox.run_programs([ProgramJob(program, ("f(1)", "os.getuid()", "g()"))])
        layers = sandbox.layers
    return {
        "user": os.getuid(),
        "layers": layers,
        "process_limit": process_limit,
        "answers": [result.value for result in run.calls],
        "details": [result.detail for result in run.calls],
        "n_forks": n_forks_without_the_ban(config),
    }


def n_forks_without_the_ban(config: SandboxConfig) -> int:
    """How many children a process of a box gets if the jail does not forbid them."""
    command = (*boxed(config).command[:-1], FORKS.format(n_processes=config.n_processes))
    group = guard(config.n_processes) if os.geteuid() == 0 else None
    try:
        done = subprocess.run(
            command if group is None else group.around(command),
            env={},
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )
    finally:
        if group is not None:
            group.remove()
    return int(done.stdout)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(survey(SandboxConfig.model_validate_json(sys.argv[1]))))
