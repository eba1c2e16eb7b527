import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.contents import AgentKey
from harness_core.features.prior import ALL_DEVELOPMENT, AgentPriors, fit_priors, rate_of

GOOD = AgentKey("s", "good", "m")


def candidates(*rows: tuple[str, str, int, float | None], kind: str = "attempt") -> pa.Table:
    """Rows of agent, task, fold (−1 is the frozen slice) and label."""
    return pa.Table.from_pylist(
        [
            {
                "kind": kind,
                "task_id": task,
                "source": "s",
                "split": "test" if fold == -1 else "train",
                "fold": fold,
                "agent_name": agent,
                "model": "m",
                "success": success,
            }
            for agent, task, fold, success in rows
        ]
    )


def rate(priors: AgentPriors, agent: AgentKey, fold: int) -> float:
    return rate_of(agent, priors.lookup(fold))


def test_a_fold_does_not_see_its_own_labels():
    priors = fit_priors(candidates(("good", "t1", 0, 1.0), ("good", "t2", 1, 0.0)), strength=1e-9)
    assert rate(priors, GOOD, 0) == pytest.approx(0.0, abs=1e-6)
    assert rate(priors, GOOD, 1) == pytest.approx(1.0, abs=1e-6)
    assert rate(priors, GOOD, ALL_DEVELOPMENT) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_flipping_the_labels_of_a_fold_leaves_its_rates_alone(labels):
    def table(flip: int) -> pa.Table:
        return candidates(
            *(("good", f"t{fold}", fold, float(ok is not (fold == flip))) for fold, ok in labels)
        )

    for fold in range(4):
        before, after = (fit_priors(table(flip), strength=2.0) for flip in (-9, fold))
        assert rate(before, GOOD, fold) == rate(after, GOOD, fold) or fold not in before.tables


def test_the_frozen_slice_teaches_nothing():
    rows = (("good", "t1", 0, 1.0), ("good", "t2", 1, 1.0))
    seen = fit_priors(candidates(*rows, ("good", "t3", -1, 0.0)), strength=1.0)
    assert seen == fit_priors(candidates(*rows), strength=1.0)


def test_few_attempts_are_pulled_to_the_mean_of_all_agents():
    rows = [("good", f"t{n}", 0, 0.0) for n in range(10)] + [("new", "t0", 0, 1.0)]
    priors = fit_priors(candidates(*rows), strength=5.0)
    assert 0.1 < rate(priors, AgentKey("s", "new", "m"), ALL_DEVELOPMENT) < 0.5


def test_an_unknown_agent_gets_the_mean_of_its_source():
    priors = fit_priors(candidates(("good", "t1", 0, 1.0), ("bad", "t1", 0, 0.0)), strength=1.0)
    assert rate(priors, AgentKey("s", "nobody", ""), ALL_DEVELOPMENT) == pytest.approx(0.5)
    assert rate(priors, AgentKey("elsewhere", "nobody", ""), ALL_DEVELOPMENT) == 0.5


def test_an_agent_is_known_in_another_source():
    rows = [("good", f"t{n}", 0, 1.0) for n in range(9)] + [("bad", "t1", 0, 0.0)] * 9
    priors = fit_priors(candidates(*rows), strength=1.0)
    assert rate(priors, AgentKey("elsewhere", "good", "m"), ALL_DEVELOPMENT) > 0.9


def test_without_labels_nobody_is_better():
    priors = fit_priors(candidates(("good", "t1", 0, None)), strength=1.0)
    assert rate(priors, GOOD, 0) == 0.5


def test_priors_survive_storage():
    priors = fit_priors(candidates(("good", "t1", 0, 1.0), ("x", "t2", 1, 0.0)), strength=2.0)
    assert AgentPriors.model_validate_json(priors.model_dump_json()) == priors
