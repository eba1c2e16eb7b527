"""The stage on small tables: what stops it, what it warns of, what it leaves behind."""

import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from harness_core.errors import NoDataError, ValidationFailed
from harness_core.stages import validate
from harness_core.stages.dag import DATA_DOCS, STEPS, TASKS, TRAJECTORIES, Workspace
from harness_core.tables import write_table
from harness_core.trajectories import arrow
from harness_core.validation.config import ValidationConfig

Tables = dict[str, pa.Table]

CONFIG = ValidationConfig(
    min_trajectories=20, min_tasks=10, max_unknown_outcome_rate=0.5, max_error_rate=0.9
)


def workspace_of(tables: Tables, root: Path) -> Workspace:
    workspace = Workspace(root)
    write_table(workspace.path(TRAJECTORIES), tables["trajectories"], arrow.TRAJECTORIES)
    write_table(workspace.path(STEPS), tables["steps"], arrow.STEPS)
    write_table(workspace.path(TASKS), tables["tasks"], arrow.TASKS)
    return workspace


def test_coherent_tables_pass_and_leave_documents_without_any_text_of_the_logs(
    good_tables: Tables, tmp_path: Path
) -> None:
    workspace = workspace_of(good_tables, tmp_path)
    report = validate.run(CONFIG, workspace)
    docs = workspace.path(DATA_DOCS)
    assert report.figures["n_failed"] == 0
    assert report.figures["warnings"] == []
    assert report.figures["n_trajectories"] == 24
    assert (docs / "index.html").exists()
    assert "Passed" in (docs / "summary.html").read_text()
    pages = [path for path in docs.rglob("*") if path.suffix in {".html", ".json"}]
    assert not any("must-not-leak" in path.read_text() for path in pages)
    per_table = orjson.loads((docs / "summary.json").read_bytes())["expectations"]
    counts = {name: sum(item["table"] == name for item in per_table) for name in good_tables}
    assert counts == {"trajectories": 15, "steps": 17, "tasks": 8}
    assert report == validate.run(CONFIG, workspace)


@pytest.mark.parametrize(
    "case",
    [
        ("steps", {"step_index": 9}, "step indices of a trajectory run 0, 1, 2"),
        ("steps", {"chosen_index": 5}, "chosen_index names one of the candidates"),
        ("steps", {"propensity": 1.5}, "a propensity lies in [0, 1]; 1 of 48"),
        ("steps", {"cost_usd": -1.0}, "costs are not negative"),
        ("trajectories", {"truncated": True}, "exactly one of terminated and truncated"),
        ("trajectories", {"score": 1.25}, "a score lies in [0, 1]; 1 of 24 rows"),
        ("trajectories", {"task_id": "task/none"}, "every trajectory has its task"),
        ("tasks", {"language": "latin"}, "the language of a task is known"),
    ],
)
def test_a_broken_row_stops_the_run_and_is_named(
    good_tables: Tables,
    broken: Callable[..., Tables],
    tmp_path: Path,
    case: tuple[str, dict[str, object], str],
) -> None:
    table, cells, words = case
    workspace = workspace_of(broken(good_tables, table, 5, **cells), tmp_path)
    with pytest.raises(ValidationFailed) as caught:
        validate.run(CONFIG, workspace)
    message = str(caught.value)
    assert words in message
    assert f"- {table}: " in message
    assert "for example" in message
    assert "Stopped" in (workspace.path(DATA_DOCS) / "summary.html").read_text()
    assert caught.value.exit_code == 3


def test_a_doubled_trajectory_is_named_by_its_id(good_tables: Tables, tmp_path: Path) -> None:
    table = good_tables["trajectories"]
    doubled = {**good_tables, "trajectories": pa.concat_tables([table[:1], table])}
    first = table["trajectory_id"][0].as_py()
    with pytest.raises(ValidationFailed, match=f"no trajectory stands twice.*{first}"):
        validate.run(CONFIG, workspace_of(doubled, tmp_path))


def test_too_few_trajectories_or_tasks_stop_the_run_with_the_numbers(
    good_tables: Tables, tmp_path: Path
) -> None:
    config = CONFIG.model_copy(update={"min_trajectories": 100, "min_tasks": 50})
    with pytest.raises(ValidationFailed) as caught:
        validate.run(config, workspace_of(good_tables, tmp_path))
    assert "at least 100 trajectories, but found 24" in str(caught.value)
    assert "at least 50 tasks with a trajectory, but found 12" in str(caught.value)


def test_odd_but_usable_logs_pass_with_warnings(good_tables: Tables, tmp_path: Path) -> None:
    rows = [
        {**row, "success": True, "score": 1.0, "n_tests_passed": None, "n_tests_total": None}
        for row in good_tables["trajectories"].to_pylist()
    ]
    steps = [{**row, "is_error": True} for row in good_tables["steps"].to_pylist()]
    tables = {
        **good_tables,
        "trajectories": pa.Table.from_pylist(rows, schema=arrow.TRAJECTORIES),
        "steps": pa.Table.from_pylist(steps, schema=arrow.STEPS),
    }
    warnings = validate.run(CONFIG, workspace_of(tables, tmp_path)).figures["warnings"]
    assert len(warnings) == 2
    assert "the share of steps that failed is 0.9 at most, but found 1" in warnings[0]
    assert "all 24 logged outcomes are 1" in warnings[1]


def test_missing_tables_are_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="run the stage that writes it first"):
        validate.run(CONFIG, Workspace(tmp_path))


def test_sixty_thousand_steps_are_checked_in_seconds(good_tables: Tables, tmp_path: Path) -> None:
    many = {**good_tables}
    for name in ("trajectories", "steps"):
        table = good_tables[name]
        copies = []
        for number in range(1250):
            ids = [f"{number:05}-{item}" for item in table["trajectory_id"].to_pylist()]
            copies.append(table.set_column(0, table.schema.field(0), pa.array(ids)))
        many[name] = pa.concat_tables(copies).combine_chunks()
    started = time.process_time()
    report = validate.run(CONFIG, workspace_of(many, tmp_path))
    assert report.figures["n_steps"] == 60_000
    assert time.process_time() - started < 20
