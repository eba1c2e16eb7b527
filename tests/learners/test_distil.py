"""Soft targets: who scores which task for whom, how they are mixed, and that they are learnt."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness_core.errors import NoDataError
from harness_core.features.batch import Flags
from harness_core.learners.checkpoint import Critic
from harness_core.learners.config import TrainConfig
from harness_core.learners.crossfit import Pools, fit_without, make_pools
from harness_core.learners.distil import Calibration, SoftTargets, Teachers, fit_teachers
from harness_core.learners.networks import CriticNetwork, NetworkSpec

FOLDS = (0, 1, 2)
AS_IT_IS = dict.fromkeys((None, *FOLDS), Calibration(slope=1.0, intercept=0.0))


@pytest.fixture
def pools(world, spec, config, set_relative) -> Pools:
    return make_pools(world.groups, world.arrays, spec, config, set_relative)


def constant(spec: NetworkSpec, value: float) -> Critic:
    """A teacher that says the same of everything."""
    network = CriticNetwork(spec)
    with torch.no_grad():
        network.terminal_mlp.biases[-1].fill_(value)
        network.q_mlp.biases[-1].fill_(value)
    return Critic(network)


def said_by(unseen: frozenset[int]) -> float:
    return float(sum(2.0**fold for fold in unseen)) / 8


def teachers(spec: NetworkSpec) -> Teachers:
    """One for each fold and pair of folds, known by its words."""
    sets = {frozenset({a, b}) for a in FOLDS for b in FOLDS}
    return {unseen: constant(spec, said_by(unseen)) for unseen in sets}


def ended(world: SimpleNamespace) -> Flags:
    return np.ones(len(world.arrays.discount), dtype=np.bool_)


def unlabelled(pools: Pools) -> Pools:
    """The same attempts, but nobody knows how they ended."""
    assert pools.attempts is not None
    unknown = torch.zeros_like(pools.attempts.known)
    wrong = 1.0 - pools.attempts.label
    return replace(pools, attempts=replace(pools.attempts, known=unknown, label=wrong))


@pytest.mark.parametrize("without", [None, *FOLDS])
def test_a_task_is_scored_by_a_teacher_that_saw_neither_it_nor_what_the_student_is_judged_on(
    world, spec, pools, without
):
    targets = SoftTargets(
        pools=pools, teachers=teachers(spec), calibration=AS_IT_IS, weight=1.0, ended=ended(world)
    )
    soft = targets(unlabelled(pools), without)
    assert soft.attempts is not None
    for task, (fold, _) in pools.fold_and_split.items():
        if fold == without:
            continue
        expected = said_by(frozenset({fold} if without is None else {fold, without}))
        rows = soft.attempts.restrict(soft.attempts.task_id == task).rows()
        logit = torch.logit(soft.attempts.label[torch.from_numpy(rows)])
        assert logit.numpy() == pytest.approx(expected, abs=1e-4)
        learnt = pools.transition_task == task
        mask = pools.transitions.mask[learnt]
        q = soft.transitions.returns[learnt][mask].numpy()
        assert q == pytest.approx(expected, abs=1e-5)


def test_the_outcomes_of_the_fold_left_out_reach_no_target_of_its_student(world, spec, pools):
    flipped = [
        replace(group, success=1.0 - group.success) if group.fold == 1 else group
        for group in world.groups
    ]
    config = SimpleNamespace(
        group_sizes=(2, 4), seed=0, batch_size=32, curriculum=None, replay=None
    )
    other = make_pools(flipped, world.arrays, spec, config, lambda s: s.n_chars[:, None] * 0)  # type: ignore[arg-type]
    same = make_pools(world.groups, world.arrays, spec, config, lambda s: s.n_chars[:, None] * 0)  # type: ignore[arg-type]
    soft = [
        SoftTargets(
            pools=item,
            teachers=teachers(spec),
            calibration=AS_IT_IS,
            weight=0.5,
            ended=ended(world),
        )(item, 1)
        for item in (same, other)
    ]
    outside = same.tasks(lambda fold, _: fold != 1)
    one, two = (item.data(outside).attempts for item in soft)
    assert one is not None
    assert two is not None
    rows = torch.from_numpy(one.rows())
    assert torch.equal(one.label[rows], two.label[rows])


def test_a_label_is_the_calibrated_probability(world, spec, pools):
    halved = dict.fromkeys((None, *FOLDS), Calibration(slope=0.5, intercept=1.0))
    targets = SoftTargets(
        pools=pools,
        teachers=dict.fromkeys(teachers(spec), constant(spec, 3.0)),
        calibration=halved,
        weight=1.0,
        ended=ended(world),
    )
    soft = targets(unlabelled(pools), None).attempts
    assert soft is not None
    assert soft.known.all()
    logit = torch.logit(soft.label[torch.from_numpy(soft.rows())])
    assert logit.numpy() == pytest.approx(2.5, abs=1e-4)


def test_without_the_teacher_nothing_changes(world, spec, pools):
    targets = SoftTargets(
        pools=pools, teachers=teachers(spec), calibration=AS_IT_IS, weight=0.0, ended=ended(world)
    )
    soft = targets(pools, None)
    assert soft.attempts is not None
    assert pools.attempts is not None
    assert torch.equal(soft.attempts.label, pools.attempts.label)
    assert torch.equal(soft.transitions.rewards, pools.transitions.rewards)
    assert torch.equal(soft.transitions.discount, pools.transitions.discount)


def test_an_outcome_that_is_known_stays_and_a_return_is_the_weighted_mean(world, spec, pools):
    weight = 0.25
    targets = SoftTargets(
        pools=pools,
        teachers=teachers(spec),
        calibration=AS_IT_IS,
        weight=weight,
        ended=ended(world),
    )
    soft = targets(pools, None)
    assert soft.attempts is not None
    assert pools.attempts is not None
    assert torch.equal(soft.attempts.label, pools.attempts.label)
    returns, mask = pools.transitions.returns, pools.transitions.mask
    for task, (fold, _) in pools.fold_and_split.items():
        chosen = torch.from_numpy(pools.transition_task == task)[:, None] & mask
        expected = weight * said_by(frozenset({fold})) + (1 - weight) * returns[chosen]
        torch.testing.assert_close(soft.transitions.returns[chosen], expected)


def test_the_return_of_a_run_that_was_cut_off_is_what_the_teacher_says(world, spec, pools):
    none = np.zeros(len(world.arrays.discount), dtype=np.bool_)
    cut = SoftTargets(
        pools=pools, teachers=teachers(spec), calibration=AS_IT_IS, weight=0.25, ended=none
    )
    whole = SoftTargets(
        pools=pools, teachers=teachers(spec), calibration=AS_IT_IS, weight=1.0, ended=ended(world)
    )
    torch.testing.assert_close(
        cut(pools, None).transitions.returns, whole(pools, None).transitions.returns
    )


def test_a_student_follows_its_teacher_where_nobody_knows_the_outcome(
    world, spec, config: TrainConfig, set_relative
):
    pools = unlabelled(make_pools(world.groups, world.arrays, spec, config, set_relative))
    knows = CriticNetwork(spec)
    with torch.no_grad():
        # The second number of a state says how good an attempt is; the teacher says that number.
        first, last = knows.terminal_mlp.weights
        first.zero_()
        last.zero_()
        first[:, 1, 0], first[:, 1, 1] = 1.0, -1.0
        last[:, 0, 0], last[:, 1, 0] = 2.0, -2.0
    all_knowing = dict.fromkeys(teachers(spec), Critic(knows))
    targets = SoftTargets(
        pools=pools, teachers=all_knowing, calibration=AS_IT_IS, weight=1.0, ended=ended(world)
    )
    student = fit_without(targets(pools, 0), {0}, spec, config).network
    unseen = [group for group in world.groups if group.fold == 0 and group.after[:, 0].all()]
    for group in unseen:
        relative = torch.from_numpy(set_relative(group.signals))
        logits = student.terminal(torch.from_numpy(group.after), relative).mean(dim=0)
        order = np.corrcoef(logits.detach().numpy(), group.after[:, 1])[0, 1]
        assert order > 0.8


def test_two_folds_leave_no_teacher_that_saw_neither(world, spec, config, set_relative):
    two = [replace(group, fold=min(group.fold, 1)) for group in world.groups]
    pools = make_pools(two, world.arrays, spec, config, set_relative)
    with pytest.raises(NoDataError, match="at least 3"):
        fit_teachers(pools, {0: constant(spec, 0.0), 1: constant(spec, 0.0)}, spec, config)


def test_there_is_a_teacher_for_every_pair_of_folds(world, spec, config, set_relative):
    short = config.model_copy(update={"max_updates": 2, "check_every": 1})
    pools = make_pools(world.groups, world.arrays, spec, short, set_relative)
    made = fit_teachers(pools, {fold: constant(spec, 0.0) for fold in FOLDS}, spec, short)
    assert set(made) == set(teachers(spec))
