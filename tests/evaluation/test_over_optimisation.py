"""Where belief and outcome part, on critics whose errors are known in closed form."""

from math import comb

import numpy as np
import pytest

from harness_core.controller.combination import Combination
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.crossfit import CrossFit, Model
from harness_core.evaluation.evaluate import evaluate_groups
from harness_core.evaluation.over_optimisation import grid, over_optimisation
from harness_core.evaluation.plots import draw_over_optimisation, render
from harness_core.trajectories.vocabulary import GroupKind

BOOTSTRAP = Bootstrap(n_resamples=500, confidence=0.95, seed=0)
N_SUBSETS = 300  # more than there are of ten, so that every subset is taken and nothing is drawn
K, TRAPS = 10, 1


def chart(critic, groups, *, n_subsets=N_SUBSETS, **options):
    judged = CrossFit(final=Model(critic=critic, **options))
    return over_optimisation(judged, groups, n_subsets=n_subsets, bootstrap=BOOTSTRAP)


def trapped(group, n_tasks, *, n_good):
    """Groups of K attempts: a trap that scores highest and fails, some that succeed, the rest."""
    label = np.array([0.0] * TRAPS + [1.0] * n_good + [0.0] * (K - TRAPS - n_good))
    hint = np.array([9.0] * TRAPS + [3.0] * n_good + [-3.0] * (K - TRAPS - n_good))
    return [group(label, hint=hint, task_id=f"t{n}") for n in range(n_tasks)]


@pytest.fixture(autouse=True)
def every_subset(monkeypatch):
    monkeypatch.setattr("harness_core.evaluation.over_optimisation._COVER", 10_000)


def test_success_of_a_critic_with_a_trap_is_the_hypergeometric_law(group, critic):
    """A pick succeeds when no trap is among the K and at least one good attempt is."""
    n_good = 3
    found = chart(critic(), trapped(group, 6, n_good=n_good))
    honest, bad = K - TRAPS, K - TRAPS - n_good
    for size in (1, 2, 4, 8, 10):
        expected = (comb(honest, size) - comb(bad, size)) / comb(K, size)
        assert found.k[str(size)].success == pytest.approx(expected)


def test_belief_rises_to_the_trap_while_the_outcome_falls_and_k_max_stands_between(group, critic):
    """With three good of ten, success is 0.30, 0.47, 0.53, 0.20, 0.00 at K = 1, 2, 4, 8, 10."""
    found = chart(critic(), trapped(group, 6, n_good=3))
    belief = [row.belief for row in found.k.values()]
    assert belief == sorted(belief)
    assert found.k_max == 4
    assert found.k["4"].success == max(row.success for row in found.k.values())
    assert found.k["10"].belief == pytest.approx(1.0, abs=1e-3)
    assert found.k["10"].success == 0.0
    assert found.k["10"].gap == pytest.approx(found.k["10"].belief)
    assert found.reading.startswith("Beyond K = 4 choosing among more candidates loses success")


def test_a_perfect_critic_never_parts_from_the_outcome(group, critic):
    groups = [group([0, 1] * 5, task_id=f"t{n}") for n in range(8)]
    sure = Combination(weights={"critic": 1.0}, slope=60.0, intercept=-30.0)
    found = chart(critic(), groups, combination=sure)
    assert list(found.k) == ["1", "2", "4", "8", "10"]
    assert found.k_max == 10
    assert found.parts_at is None
    for row in found.k.values():
        assert row.gap == pytest.approx(0.0, abs=1e-6)


def test_a_critic_that_knows_nothing_loses_nothing_but_promises_too_much(group, critic):
    """The winner's curse alone: the largest of K noises is believed in, and worth the mean."""
    rng = np.random.default_rng(0)
    groups = [
        group(rng.permutation([0] * 6 + [1] * 2), hint=rng.normal(size=8), task_id=f"t{n}")
        for n in range(60)
    ]
    found = chart(critic(), groups, n_subsets=10)
    assert found.k_max == 8
    assert found.parts_at == 1  # σ of noise around 0 is ½ in the mean, and a quarter succeeds
    assert found.k["8"].gap > found.k["1"].gap + 0.2


def test_belief_that_keeps_its_promise_until_it_picks_noise_parts_there(group, critic):
    """Good attempts are believed in as they deserve; only a trap is promised too much."""
    groups = trapped(group, 12, n_good=4)
    fair = Combination(weights={"critic": 1.0}, slope=0.15, intercept=-0.6)
    found = chart(critic(), groups, combination=fair)
    assert found.k["2"].gap_low <= 0
    assert found.parts_at == 8


def test_dangerous_candidates_are_neither_believed_in_nor_picked(group, critic):
    dangerous = np.array([True] + [False] * 9)
    groups = [
        group([0] + [1] * 9, hint=[9] + [1] * 9, dangerous=dangerous, task_id=f"t{n}")
        for n in range(6)
    ]
    found = chart(critic(), groups)
    assert found.k["10"].success == 1.0
    assert found.k["1"].success == pytest.approx(0.9)
    assert found.k_max == 10


def test_the_grid_ends_at_the_largest_k_that_five_tasks_offer(group):
    groups = [group([0] * 6, task_id=f"t{n}") for n in range(5)] + [group([0] * 30, task_id="one")]
    assert grid(groups) == (1, 2, 4, 6)
    assert grid(groups[:4]) == (1, 2, 4, 6)
    assert grid([]) == ()


def test_tasks_with_fewer_attempts_are_compared_among_themselves(group, critic):
    """All small tasks are easy and all large ones hard: that is no loss by choosing."""
    easy = [group([1, 1], task_id=f"easy{n}") for n in range(10)]
    hard = [group([0] * 7 + [1], hint=[0] * 8, task_id=f"hard{n}") for n in range(10)]
    found = chart(critic(), [*easy, *hard])
    assert found.k["8"].success < found.k["2"].success
    assert found.k_max == 8
    assert found.k["8"].n_tasks == 10


def test_without_a_choice_nothing_is_known_of_larger_k(group, critic):
    found = chart(critic(), [group([1.0], task_id=f"t{n}") for n in range(9)])
    assert (found.k_max, list(found.k)) == (1, ["1"])
    assert "no task with attempts to choose between" in found.reading
    steps = [group([1.0, 0.0], kind=GroupKind.STEP)]
    assert (chart(critic(), steps).k_max, chart(critic(), steps).k) == (1, {})


def test_the_evaluation_shows_the_chart_and_warns(group, critic, evaluation):
    groups = trapped(group, 20, n_good=3)
    judged = CrossFit(final=Model(critic=critic()), k_max=10)
    result = evaluate_groups(judged, groups, evaluation, with_trees=False)
    section = result["over_optimisation"]
    assert set(section["k"]["4"]) >= {"belief", "success", "low", "high"}
    assert (section["k_max"], section["k_max_of_model"]) == (4, 10)
    assert any(text.startswith("Over-optimised: Beyond K = 4") for text in result["warnings"])
    assert render(draw_over_optimisation, result, form="png").startswith(b"\x89PNG")
