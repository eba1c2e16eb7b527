"""Small critics for the sweep of weights, trained as the real ones are, only shorter."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness_core.evaluation.config import PRESENT, WeightSetting
from harness_core.evaluation.crossfit import CrossFit
from harness_core.evaluation.metrics import Doubles
from harness_core.evaluation.out_of_fold import OutOfFold, network_spec
from harness_core.features.set_relative import set_relative
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import fit_folds
from harness_core.params import Params
from harness_core.rewards.config import RewardConfig
from harness_core.stages.calibrate_tables import SmallPart, earned, rewards_under
from harness_core.stages.dag import Workspace

_LOG: Final = logging.getLogger("harness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Critics that learnt from one scheme, and what the attempts were paid under it."""

    name: str
    rewards: RewardConfig
    judged: CrossFit
    earned: Mapping[str, Doubles]


def train_settings(part: SmallPart, params: Params, workspace: Workspace) -> list[Trained]:
    """One training a setting, the present one first."""
    present = WeightSetting(name=PRESENT, gate_process=params.rewards.gate_process, weights={})
    settings = (present, *params.calibration.settings)
    paid = {
        gate: rewards_under(
            part, params.rewards.model_copy(update={"gate_process": gate}), params, workspace
        )
        for gate in sorted({setting.gate_process for setting in settings})
    }
    train = _short(params.train, share=params.calibration.update_share)
    trained = []
    for number, setting in enumerate(settings, start=1):
        _LOG.info("calibrate: %s (%d of %d)", setting.name, number, len(settings))
        weights = params.rewards.weights.model_copy(update=dict(setting.weights))
        components = paid[setting.gate_process]
        folds = fit_folds(
            part.groups,
            replace(part.arrays, rewards=components),
            network_spec(part.groups, train, weights.model_dump()),
            train,
            set_relative=set_relative,
        )
        trained.append(
            Trained(
                name=setting.name,
                rewards=params.rewards.model_copy(
                    update={"weights": weights, "gate_process": setting.gate_process}
                ),
                judged=OutOfFold(part.groups, folds, train).judged(),
                earned=earned(part, components, weights.model_dump()),
            )
        )
    return trained


def _short(train: TrainConfig, *, share: float) -> TrainConfig:
    n_updates = max(1, round(train.max_updates * share))
    return train.model_copy(
        update={"max_updates": n_updates, "check_every": min(train.check_every, n_updates)}
    )
