"""A model that is not used any more, beside the one that took its place."""

import gc
import weakref

from harness_core.features.cache import CachedEncoder
from harness_core.features.hashed import HashedEncoder
from harness_core.features.pipeline import FeaturePipeline
from tests.controller.scripted import GOOD, LONG, STATE, ScriptedCritic, controller
from tests.features.world import make_config, make_world


def test_a_controller_that_is_let_go_of_takes_its_critic_and_its_encoders_along_at_once():
    # A server opens one model after the other. The collector of cycles looks at what is old only
    # when a quarter as much has come anew, which takes many models: nothing may wait for it.
    encoder = CachedEncoder(HashedEncoder())
    pipeline = FeaturePipeline.fit(make_world().tables(), make_config(), encoder=encoder)
    critic = ScriptedCritic(slope=1.0)
    built = controller(pipeline, critic)
    built.select(STATE, [GOOD, LONG])
    gone = [weakref.ref(one) for one in (encoder, pipeline, critic, built)]
    gc.disable()
    try:
        del encoder, pipeline, critic, built
        assert [one() for one in gone] == [None] * 4
    finally:
        gc.enable()
