"""Interventions of whole logs, as the feature stage writes them."""

import numpy as np
import pyarrow as pa
import pytest

from harness_core.features.batch import TransitionArrays
from harness_core.features.contents import (
    ActionContent,
    AgentKey,
    StepContent,
    TaskContent,
    TrajectoryContent,
)
from harness_core.features.interventions import (
    INTERVENTION_TABLE,
    intervention_rows,
    read_interventions,
    with_interventions,
)
from harness_core.tables import write_table
from harness_core.trajectories.vocabulary import ActionKind, Language
from tests.features.world import make_world

KINDS = list(ActionKind)


def _run(name: str, *actions: ActionContent, source: str = "s", **task) -> TrajectoryContent:
    return TrajectoryContent(
        trajectory_id=name,
        task=TaskContent(task_id="t", source=source, description="", **task),
        agent=AgentKey(source, "agent", "model"),
        steps=tuple(StepContent(actions=(action,)) for action in actions),
    )


def _call(tool: str) -> ActionContent:
    return ActionContent(kind=ActionKind.TOOL_CALL, text=tool, arguments=f'{{"name": "{tool}"}}')


SAY = ActionContent(kind=ActionKind.MESSAGE, text="Done.")


def test_a_run_of_n_steps_has_a_row_for_each_of_its_states_and_ends_in_a_submit() -> None:
    contents = list(make_world().tables().contents())
    rows = intervention_rows(contents)
    assert len(rows) == sum(len(content.steps) + 1 for content in contents)
    last = [
        row
        for row, following in zip(rows, [*rows[1:], None], strict=True)
        if following is None or following["step_index"] == 0
    ]
    assert {row["intervention"] for row in last} <= {"submit", None}
    for row in rows:
        assert row["intervention"] is None or row["intervention"] in row["legal"]


def test_a_tool_that_any_run_of_a_source_called_can_be_called_from_the_first_step_on() -> None:
    one, other = _run("a", _call("search_flights")), _run("b", SAY)
    elsewhere = _run("c", SAY, source="elsewhere")
    rows = {
        row["trajectory_id"]: row for row in reversed(intervention_rows([one, other, elsewhere]))
    }
    assert "retrieve" in rows["b"]["legal"]
    assert "retrieve" not in rows["c"]["legal"]


def test_nothing_is_learnt_from_handing_in_what_there_is_not() -> None:
    only_looked = _run("a", _call("search_flights"), language=Language.TOOLS)
    assert [row["intervention"] for row in intervention_rows([only_looked])] == ["retrieve", None]


def _arrays(n: int) -> TransitionArrays:
    nothing = np.zeros((n, 1), dtype=np.float32)
    return TransitionArrays(
        trajectory=np.zeros(n, dtype=np.int64),
        step_index=np.arange(n),
        state=nothing,
        action=nothing,
        next_state=nothing,
        rewards=nothing,
        discount=nothing[:, 0],
        fold=np.zeros(n, dtype=np.int64),
        split=np.full(n, "train"),
        task_id=np.full(n, "t"),
    )


def test_transitions_get_the_interventions_of_their_states(tmp_path) -> None:
    rows = intervention_rows([_run("a", _call("search_flights"), SAY)])
    write_table(tmp_path / "interventions.parquet", rows, INTERVENTION_TABLE)
    table = read_interventions(tmp_path)
    assert isinstance(table, pa.Table)
    arrays = with_interventions(_arrays(3), [("a", 0), ("a", 1), ("a", 2)], table)
    words = [KINDS[index] for index in arrays.intervention]
    assert words == [ActionKind.RETRIEVE, ActionKind.DRAFT, ActionKind.SUBMIT]
    assert arrays.legal[np.arange(3), arrays.intervention].all()
    assert arrays.legal.sum(axis=1) == pytest.approx([2, 3, 4])


def test_a_folder_of_an_earlier_version_knows_no_interventions(tmp_path) -> None:
    assert read_interventions(tmp_path) is None
    arrays = _arrays(2)
    assert arrays.intervention.tolist() == [-1, -1]
    assert not arrays.legal.any()
