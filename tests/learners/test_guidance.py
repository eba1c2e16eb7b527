"""Gains of guidance learnt from draws whose worth is known."""

import numpy as np
import pytest

from harness_core.features.guided import GuidedSteps
from harness_core.learners.guidance import MIN_STEPS, fit_gains

NAMES = ("task.0", "task.1", "numeric.a", "last_action.text.0", "agent_prior")
N_TASKS = 60


def draw(
    *, n_per_task: int = 10, scale: float = 1.0, seed: int = 0, template: str | None = None
) -> GuidedSteps:
    """Template `turns` helps where task.0 > 0 and harms elsewhere; `harms` always harms."""
    rng = np.random.default_rng(seed)
    state, drawn, success, tasks = [], [], [], []
    for task in range(N_TASKS):
        context = rng.normal(size=len(NAMES))
        hardness = 0.2 * rng.uniform(-1, 1)
        for _ in range(n_per_task):
            name = template or rng.choice(["", "", "turns", "harms"])
            gain = {"": 0.0, "turns": 0.3 * np.sign(context[0]), "harms": -0.3}[name]
            rate = np.clip(0.5 + hardness + scale * gain, 0, 1)
            state.append(context)
            drawn.append(name)
            success.append(rng.binomial(4, rate) / 4)
            tasks.append(f"task/{task}")
    n = len(tasks)
    return GuidedSteps(
        state=np.array(state, dtype=np.float32),
        is_first=np.ones(n, dtype=np.bool_),
        template=np.array(drawn),
        propensity=np.where(np.array(drawn) == "", 0.5, 0.25).astype(np.float32),
        success=np.array(success, dtype=np.float32),
        fold=np.zeros(n, dtype=np.int64),
        split=np.full(n, "train"),
        task_id=np.array(tasks),
    )


def context(value: float) -> np.ndarray:
    return np.array([value, 0.0, 0.0, 0.0], dtype=np.float32)


def test_a_gain_depends_on_the_state_and_its_interval_holds_the_truth() -> None:
    fitted = fit_gains(draw(), NAMES, seed=0)
    assert fitted is not None
    model = fitted.model
    assert model.templates == ("harms", "turns")
    assert model.columns == ("task.0", "task.1", "numeric.a", "agent_prior")
    good, bad = model.gains(context(1.0)), model.gains(context(-1.0))
    assert good.value[1] > 0.1
    assert bad.value[1] < 0
    assert good.sureness[1] > 0.95
    assert bad.sureness[1] < 0.05
    assert good.low[1] < good.value[1] < good.high[1]
    assert good.value[0] < 0
    assert bad.value[0] < 0
    assert fitted.worth == pytest.approx(0.15, abs=0.08)


def test_draws_that_gain_nothing_are_seldom_believed() -> None:
    states = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    sure = []
    for seed in range(4):
        fitted = fit_gains(draw(scale=0.0, seed=seed), NAMES, seed=0)
        assert fitted is not None
        assert abs(fitted.worth) < 0.05
        gains = [fitted.model.gains(state) for state in states]
        sure += [bool(((item.sureness >= 0.9) & (item.value > 0)).any()) for item in gains]
    assert np.mean(sure) < 0.3


def test_equal_data_give_equal_models() -> None:
    one, other = (fit_gains(draw(), NAMES, seed=0) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.model.resampled.tobytes() == other.model.resampled.tobytes()
    assert one.worth == other.worth


def test_a_task_that_is_hard_anyway_does_not_count_against_a_template() -> None:
    """Guidance that was given on hard tasks only, where it helped, is seen to help."""
    steps = draw(template="")
    rng = np.random.default_rng(3)
    is_hard = np.array([int(name.rpartition("/")[2]) < N_TASKS // 2 for name in steps.task_id])
    is_guided = is_hard & (rng.random(len(steps)) < 0.5)
    rate = np.where(is_hard, 0.2, 0.8) + np.where(is_guided, 0.3, 0.0)
    success = (rng.binomial(4, rate) / 4).astype(np.float32)
    given = GuidedSteps(
        **{
            **{name: getattr(steps, name) for name in GuidedSteps.__slots__},
            "template": np.where(is_guided, "helps", ""),
            "propensity": np.full(len(steps), 0.5, dtype=np.float32),
            "success": success,
        }
    )
    assert success[is_guided].mean() < success[~is_guided].mean()
    fitted = fit_gains(given, NAMES, seed=0)
    assert fitted is not None
    # Pulled to 0, but on the right side of it.
    assert 0.05 < fitted.model.gains(context(0.0)).value[0] < 0.3


def test_a_template_that_was_hardly_drawn_is_never_given() -> None:
    steps = draw()
    rare = np.flatnonzero(steps.template == "turns")[: MIN_STEPS - 1]
    rest = np.flatnonzero(steps.template != "turns")
    fitted = fit_gains(steps.take(np.sort(np.concatenate([rare, rest]))), NAMES, seed=0)
    assert fitted is None or fitted.model.templates == ("harms",)


def test_nothing_is_learnt_where_nothing_can_be_compared() -> None:
    steps = draw()
    assert fit_gains(steps.take(steps.template == ""), NAMES, seed=0) is None
    assert fit_gains(steps.take(steps.template != ""), NAMES, seed=0) is None
    assert fit_gains(steps.take(steps.template == "nobody"), NAMES, seed=0) is None


def test_a_template_that_always_harms_is_seen_to_harm() -> None:
    fitted = fit_gains(draw().take(draw().template != "turns"), NAMES, seed=0)
    assert fitted is not None
    for value in (-1.0, 1.0):
        gains = fitted.model.gains(context(value))
        assert gains.value[0] < -0.1
        assert gains.sureness[0] < 0.05
