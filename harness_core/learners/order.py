"""Families and old logs of the development tasks, and the samplers that one model gets of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness_core.errors import ParameterError
from harness_core.features.batch import DecisionGroup, Flags, Floats, TransitionArrays
from harness_core.learners.config import TrainConfig
from harness_core.learners.data import GroupPool, TrainingData
from harness_core.learners.sampling import Sampler, Samplers, TaskFacts, entering_shares
from harness_core.trajectories.vocabulary import GroupKind

Strings = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOrder:
    """What a sampler must know of tasks and transitions."""

    facts: dict[str, TaskFacts]
    transition_task: Strings  # [N]
    is_old: Flags  # [N]
    old_sources: tuple[str, ...]
    old_share: float

    def put_on(self, data: TrainingData, tasks: frozenset[str]) -> TrainingData:
        """The data of some tasks with their samplers, for which nothing else is looked at."""
        known = {task: self.facts[task] for task in sorted(tasks)}
        enters = entering_shares(known)
        start = data.transitions.start
        return replace(
            data,
            samplers=Samplers(
                transitions=Sampler.of(
                    _entering(self.transition_task[start], enters),
                    self.is_old[start],
                    old_share=self.old_share,
                ),
                attempts=self._of_groups(data.attempts, enters),
                steps=self._of_groups(data.steps, enters),
            ),
        )

    def _of_groups(self, pool: GroupPool | None, enters: dict[str, float]) -> Sampler | None:
        if pool is None:
            return None
        is_old = np.isin(pool.source, self.old_sources)
        return Sampler.of(_entering(pool.task_id, enters), is_old, old_share=self.old_share)


def sampling_order(
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    config: TrainConfig,
    sources: Strings | None,
) -> SamplingOrder | None:
    """None where everything is drawn alike.

    Where nobody says which source a transition comes from, it is old if all groups of its task are.

    Raises:
        ParameterError: a source that is called old is not there.
    """
    if config.curriculum is None and config.replay is None:
        return None
    old = () if config.replay is None else config.replay.old_sources
    return SamplingOrder(
        facts=facts_of(groups),
        transition_task=arrays.task_id,
        is_old=_is_old(old, groups, arrays, sources),
        old_sources=old,
        old_share=0.0 if config.replay is None else config.replay.old_share,
    )


def _is_old(
    old: Sequence[str],
    groups: Sequence[DecisionGroup],
    arrays: TransitionArrays,
    sources: Strings | None,
) -> Flags:
    if not old:
        return np.zeros(len(arrays.task_id), dtype=np.bool_)
    there = sorted({group.source for group in groups})
    missing = sorted(set(old) - set(there))
    if missing:
        raise ParameterError(
            f"train.replay.old_sources: {', '.join(missing)} not found; the development tasks have "
            f"{', '.join(there)}"
        )
    if sources is not None:
        return np.isin(sources, old)
    new_tasks = {group.task_id for group in groups if group.source not in old}
    return ~np.isin(arrays.task_id, sorted(new_tasks))


def facts_of(groups: Sequence[DecisionGroup]) -> dict[str, TaskFacts]:
    """Family of every task, and the mean success of its attempts."""
    success: dict[str, list[Floats]] = {}
    family: dict[str, str] = {}
    for group in groups:
        family.setdefault(group.task_id, group.family)
        labels = success.setdefault(group.task_id, [])
        if group.kind is GroupKind.ATTEMPT:
            labels.append(group.success[~np.isnan(group.success)])
    return {task: TaskFacts(family[task], _mean(success[task])) for task in family}


def _mean(labels: Sequence[Floats]) -> float:
    known = np.concatenate([np.zeros(0, dtype=np.float32), *labels])
    return float(known.mean()) if len(known) else float("nan")


def _entering(tasks: Strings, enters: dict[str, float]) -> Floats:
    # A task without a decision group belongs to no family that is known: it comes last.
    return np.array([enters.get(str(task), 1.0) for task in tasks], dtype=np.float32)
