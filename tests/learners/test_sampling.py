from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from harness_core.errors import ParameterError
from harness_core.learners.config import CurriculumConfig, CurriculumStage, ReplayConfig
from harness_core.learners.crossfit import Pools, fit_folds, make_pools
from harness_core.learners.sampling import Sampler, TaskFacts, entering_shares, reach_at
from harness_core.learners.stream import BatchStream

NAN = float("nan")


def facts(**families) -> dict[str, TaskFacts]:
    """family=(tasks, success) as facts of tasks."""
    return {
        f"{family}/{number}": TaskFacts(family, success)
        for family, (n, success) in families.items()
        for number in range(n)
    }


def schedule(*stages) -> CurriculumConfig:
    return CurriculumConfig(
        stages=tuple(CurriculumStage(until=until, task_share=share) for until, share in stages)
    )


class TestOrderOfFamilies:
    def test_common_ones_come_before_rare_ones(self):
        enters = entering_shares(facts(rare=(2, 0.5), common=(8, 0.5)))
        assert enters["common/0"] == 0.0
        assert enters["rare/0"] == pytest.approx(0.8)

    def test_simple_ones_come_before_hard_ones(self):
        enters = entering_shares(facts(hard=(5, 0.1), simple=(5, 0.9)))
        assert enters["simple/0"] == 0.0
        assert enters["hard/0"] == pytest.approx(0.5)

    def test_a_family_of_which_nothing_is_known_is_hard(self):
        enters = entering_shares(facts(unknown=(5, NAN), known=(5, 0.1)))
        assert enters["known/0"] < enters["unknown/0"]

    def test_names_break_ties(self):
        enters = entering_shares(facts(b=(5, 0.5), a=(5, 0.5)))
        assert enters["a/0"] < enters["b/0"]


class TestSchedule:
    def test_stages_end_at_their_share_of_updates(self):
        curriculum = schedule((0.2, 0.3), (0.5, 0.6))
        reached = [reach_at(curriculum, update, 100) for update in (0, 19, 20, 49, 50, 99)]
        assert reached == [0.3, 0.3, 0.6, 0.6, 1.0, 1.0]

    def test_without_one_everything_is_in_at_once(self):
        assert reach_at(None, 0, 100) == 1.0

    @pytest.mark.parametrize("stages", [((0.5, 0.5), (0.2, 0.7)), ((0.2, 0.7), (0.5, 0.5))])
    def test_it_goes_forward(self, stages):
        with pytest.raises(ValidationError, match="later"):
            schedule(*stages)


class TestSampler:
    ENTERS = np.array([0.0, 0.4, 0.0, 0.8], dtype=np.float32)
    OLD = np.array([True, False, False, False])

    def drawn(self, reach, *, old_share=0.0, is_old=OLD, n=4000):
        sampler = Sampler.of(self.ENTERS, np.asarray(is_old), old_share=old_share)
        return replace(sampler, reach=reach)(n, np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("reach", "allowed"), [(0.3, {0, 2}), (0.4, {0, 2}), (0.5, {0, 1, 2}), (1.0, {0, 1, 2, 3})]
    )
    def test_only_families_that_are_in_are_drawn(self, reach, allowed):
        assert set(self.drawn(reach, old_share=0.5)) == allowed

    def test_the_share_of_old_items_is_kept_whatever_their_number(self):
        assert (self.drawn(1.0, old_share=0.75) == 0).mean() == pytest.approx(0.75, abs=1e-3)

    def test_a_share_of_a_small_batch_is_right_on_average(self):
        counts = []
        for seed in range(2000):
            sampler = Sampler.of(self.ENTERS, self.OLD, old_share=0.3)
            counts.append((sampler(2, np.random.default_rng(seed)) == 0).sum())
        assert np.mean(counts) == pytest.approx(0.6, abs=0.05)

    @pytest.mark.parametrize("is_old", [[True] * 4, [False] * 4])
    def test_where_all_are_of_one_age_all_are_drawn_alike(self, is_old):
        share = np.bincount(self.drawn(1.0, old_share=0.9, is_old=is_old), minlength=4) / 4000
        np.testing.assert_allclose(share, 0.25, atol=0.03)

    def test_a_pool_without_a_family_that_is_in_is_drawn_from_all_the_same(self):
        late = Sampler.of(np.full(2, 0.9, np.float32), np.zeros(2, bool), old_share=0.0)
        assert set(replace(late, reach=0.1)(50, np.random.default_rng(0))) == {0, 1}


def pools(world, spec, config, set_relative, sources=None) -> Pools:
    return make_pools(world.groups, world.arrays, spec, config, set_relative, sources=sources)


def tasks_of(data, pool_tasks, batch) -> set[str]:
    """Tasks whose states are in a batch of transitions."""
    rows = {row.tobytes() for row in np.asarray(batch.transitions.state)}
    return {
        task
        for task, state in zip(pool_tasks, np.asarray(data.transitions.state), strict=True)
        if state.tobytes() in rows
    }


@pytest.fixture
def curriculum_config(config):
    return config.model_copy(update={"curriculum": schedule((0.5, 0.4))})


def test_early_updates_hold_the_first_family_alone(world, spec, curriculum_config, set_relative):
    # The two families of the world hold half of the tasks each.
    built = pools(world, spec, curriculum_config, set_relative)
    chosen = built.tasks(lambda fold, _: fold != 0)
    data = built.data(chosen)
    rng = np.random.default_rng(0)
    early = data.at(0, curriculum_config).draw(curriculum_config, rng)
    late = data.at(59, curriculum_config).draw(curriculum_config, rng)
    families = [
        {int(task.partition("/")[2]) % 2 for task in tasks_of(data, world.arrays.task_id, batch)}
        for batch in (early, late)
    ]
    assert len(families[0]) == 1
    assert families[1] == {0, 1}


def test_the_order_is_measured_on_the_tasks_that_are_learnt_from(
    world, spec, curriculum_config, set_relative
):
    # Outcomes of tasks outside must not decide what is learnt first.
    flipped = replace_outcomes(world, fold=0)
    built, other = (pools(item, spec, curriculum_config, set_relative) for item in (world, flipped))
    outside = built.tasks(lambda fold, _: fold != 0)
    first, second = (item.data(outside).samplers.attempts for item in (built, other))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.new.enters, second.new.enters)


def replace_outcomes(world, *, fold):
    groups = [
        replace(group, success=np.ones_like(group.success)) if group.fold == fold else group
        for group in world.groups
    ]
    return type(world)(groups=groups, arrays=world.arrays)


def test_a_resumed_stream_draws_what_an_uninterrupted_one_would_have(
    world, spec, curriculum_config, set_relative
):
    built = pools(world, spec, curriculum_config, set_relative)
    data = built.data(built.tasks(lambda fold, _: fold != 0))

    def stream(first):
        batches = BatchStream(data, curriculum_config, seed=1, first=lambda: first, n_updates=60)
        return [batch.transitions.state for run in batches for batch in run]

    for one, two in zip(stream(20)[10:], stream(30), strict=False):
        assert np.array_equal(one, two)


def sources_of(world) -> np.ndarray:
    return np.where(world.arrays.trajectory % 2 == 0, "old", "toy")


@pytest.fixture
def replay_config(config):
    replay = ReplayConfig(old_share=0.75, old_sources=("old",))
    return config.model_copy(update={"replay": replay})


def with_old_source(world):
    groups = [
        replace(group, source="old") if int(group.task_id.partition("/")[2]) % 4 == 0 else group
        for group in world.groups
    ]
    return type(world)(groups=groups, arrays=world.arrays)


def test_groups_of_old_sources_have_their_share_of_a_batch(
    world, spec, replay_config, set_relative
):
    mixed = with_old_source(world)
    built = pools(mixed, spec, replay_config, set_relative, sources=sources_of(world))
    data = built.data(built.tasks(lambda _, __: True))
    assert data.attempts is not None
    assert data.samplers.attempts is not None
    assert data.samplers.transitions is not None
    drawn = data.samplers.attempts(400, np.random.default_rng(0))
    assert (data.attempts.source[drawn] == "old").mean() == pytest.approx(0.75, abs=0.01)
    pieces = data.samplers.transitions(400, np.random.default_rng(0))
    is_old = sources_of(world)[data.transitions.start[pieces]] == "old"
    assert is_old.mean() == pytest.approx(0.75, abs=0.01)


def test_without_sources_of_transitions_their_tasks_say_what_is_old(
    world, spec, replay_config, set_relative
):
    mixed = with_old_source(world)
    built = pools(mixed, spec, replay_config, set_relative)
    assert built.order is not None
    number = np.array([int(task.partition("/")[2]) for task in world.arrays.task_id])
    inside = world.arrays.split != "test"
    np.testing.assert_array_equal(built.order.is_old[inside], number[inside] % 4 == 0)


def test_an_old_source_that_is_not_there_is_named(world, spec, replay_config, set_relative):
    with pytest.raises(ParameterError, match="old not found; the development tasks have toy"):
        pools(world, spec, replay_config, set_relative, sources=sources_of(world))


def test_training_with_both_runs_and_differs(world, spec, replay_config, set_relative):
    config = replay_config.model_copy(
        update={"curriculum": schedule((0.5, 0.4)), "max_updates": 20, "check_every": 10}
    )
    plain = config.model_copy(update={"curriculum": None, "replay": None})
    mixed = with_old_source(world)
    first, second = (
        fit_folds(
            mixed.groups,
            mixed.arrays,
            spec,
            item,
            set_relative=set_relative,
            sources=sources_of(world),
        )[0]
        for item in (config, plain)
    )
    weights = [item.network.terminal_mlp.weights[0] for item in (first, second)]
    assert not np.allclose(*(weight.detach().numpy() for weight in weights))
