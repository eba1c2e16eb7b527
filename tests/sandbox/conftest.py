"""One pool of real boxes a backend for all tests of the sandbox, with short limits."""

from collections.abc import Iterator

import pytest

from harness_core.errors import IsolationUnavailable
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.grader import Grader
from harness_core.sandbox.pool import BoxPool
from harness_core.sandbox.protocol import Sandbox


@pytest.fixture(scope="session")
def config(params: Params) -> SandboxConfig:
    return params.sandbox.model_copy(update={"cpu_s": 1, "wall_s": 1.5, "n_workers": 2})


@pytest.fixture(scope="session")
def boxed(config: SandboxConfig) -> Iterator[Sandbox]:
    try:
        sandbox = open_sandbox(config)
    except IsolationUnavailable as error:
        pytest.skip(f"no isolation on this machine: {error}")
    with sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def docked(config: SandboxConfig) -> Iterator[Sandbox]:
    in_containers = config.model_copy(update={"backend": "docker", "n_workers": 1})
    try:
        sandbox = open_sandbox(in_containers)
    except IsolationUnavailable as error:
        pytest.skip(f"no container engine with the image: {error}")
    with sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def unboxed(config: SandboxConfig) -> Iterator[Sandbox]:
    local = config.model_copy(update={"backend": "unsafe_local", "n_workers": 1})
    with open_sandbox(local) as sandbox:
        yield sandbox


@pytest.fixture(params=["boxed", "docked", "unboxed"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Every backend in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, BoxPool)
    return found


@pytest.fixture
def grader(boxed: Sandbox) -> Grader:
    return Grader(boxed)
