import pytest

from harness_core.features.config import FeatureConfig
from tests.features.world import InProcessRunner, World, make_config, make_world


@pytest.fixture(scope="session")
def world() -> World:
    return make_world()


@pytest.fixture
def runner() -> InProcessRunner:
    return InProcessRunner()


@pytest.fixture(scope="session")
def config() -> FeatureConfig:
    return make_config()
