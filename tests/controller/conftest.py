import pytest

from harness_core.features.pipeline import FeaturePipeline
from tests.features.world import make_config, make_world


@pytest.fixture(scope="session")
def pipeline() -> FeaturePipeline:
    return FeaturePipeline.fit(make_world().tables(), make_config())
