"""What all tests share: the project folder, its parameters, and the real logs where they exist."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from harness_core.params import Params, load_params

_ROOT = Path(__file__).resolve().parents[1]

# A slow machine is no counterexample, and CI should fail for the change it looks at only.
settings.register_profile(
    "harness",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("harness")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest folder first, so that two processes (`-n 2`) end together."""
    items.sort(key=lambda item: "flows" not in item.path.parts)


class _ByFixture(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Sends a file to one process, and all of `flows`, whose tests share one whole flywheel."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "tests/flows" if path.startswith("tests/flows/") else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _ByFixture(config, log)


@pytest.fixture(scope="session")
def project_root() -> Path:
    return _ROOT


@pytest.fixture(scope="session")
def params() -> Params:
    return load_params(_ROOT / "params.yaml")


@pytest.fixture(scope="session")
def data_packs() -> Path:
    folder = Path(os.environ.get("HARNESS_DATA_PACKS", _ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real logs at {folder}; set HARNESS_DATA_PACKS to their folder")
    return folder
