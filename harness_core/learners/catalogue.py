"""The learners by the name that `params.yaml` gives them."""

from collections.abc import Mapping
from typing import Final

from harness_core.learners.bc import BehaviourCloning
from harness_core.learners.iql import Iql
from harness_core.learners.learner import Learner
from harness_core.learners.mc import MonteCarlo

LEARNERS: Final[Mapping[str, Learner]] = {
    "iql": Iql(),
    "mc": MonteCarlo(),
    "bc": BehaviourCloning(),
}
