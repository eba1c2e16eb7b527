"""The database is made once, whoever comes first, and survives a move of its folder."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harness_core.errors import RegistryError
from harness_core.registry.mlflow_registry import MlflowRegistry
from harness_core.registry.mlflow_tracker import MlflowTracker
from harness_core.registry.promotion import promote
from harness_core.registry.store import MlflowStore, initialise_store
from harness_core.registry.versions import CHAMPION
from harness_core.tables import tree_digest

MakeModel = Callable[..., Path]

RACE = """
import os, sys
from pathlib import Path
from harness_core.registry.store import initialise_store
from harness_core.registry.mlflow_tracker import MlflowTracker

def open_and_log(name):
    tracker = MlflowTracker(initialise_store(Path(sys.argv[1])), experiment="race")
    run_id = tracker.start(name, tags={"run_key": name})
    tracker.log(run_id, params={"a": "b"}, metrics={"m": 1.0})
    tracker.finish(run_id)

# MLflow is imported once; the processes then start at the same moment.
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        open_and_log(f"p{number}")
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def test_four_processes_may_open_a_virgin_folder_at_once(
    tmp_path: Path, project_root: Path
) -> None:
    root = tmp_path / "mlruns"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RACE, str(root)],
        cwd=project_root,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    tracker = MlflowTracker(initialise_store(root), experiment="race")
    assert all(tracker.find(f"p{number}") for number in range(4))
    assert not [path for path in root.iterdir() if path.name.startswith(".tmp")]


def test_an_existing_store_is_opened_without_mlflow(
    fresh_store: MlflowStore, project_root: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from harness_core.registry.store import initialise_store; "
        "initialise_store(Path(sys.argv[1])); sys.exit('mlflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(fresh_store.root)], cwd=project_root, check=False
    )
    assert done.returncode == 0


def test_writers_and_readers_do_not_shut_each_other_out(fresh_store: MlflowStore) -> None:
    with closing(sqlite3.connect(fresh_store.database)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_database_whose_migration_broke_off_is_refused(store: MlflowStore) -> None:
    with closing(sqlite3.connect(store.database)) as connection:
        connection.execute("CREATE TABLE _alembic_tmp_runs (id INTEGER)")
    with pytest.raises(RegistryError, match="a migration broke off"):
        initialise_store(store.root)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"not a database" * 100)
    with pytest.raises(RegistryError, match="cannot be read"):
        initialise_store(tmp_path)


def test_an_old_schema_is_migrated_and_keeps_its_runs(store: MlflowStore) -> None:
    tracker = MlflowTracker(store, experiment="tests")
    run_id = tracker.start("a", tags={"run_key": "k"})
    tracker.finish(run_id)
    (store.root / "store.json").unlink()
    again = initialise_store(store.root)
    assert MlflowTracker(again, experiment="tests").find("k") == run_id


def test_a_moved_folder_still_finds_its_models(
    store: MlflowStore, make_model: MakeModel, tmp_path: Path
) -> None:
    folder = make_model("a")
    registry = MlflowRegistry(store, experiment="tests", model_name="controller")
    tracker = MlflowTracker(store, experiment="tests")
    run_id = tracker.start("a", tags={"run_key": "k"})
    tracker.finish(run_id)
    registry.register(folder, run_key="k", run_id=run_id, tags={})
    promote(registry, 1)
    moved_to = tmp_path / "else where"  # a space, which addresses write as %20
    shutil.move(store.root, moved_to)
    moved = initialise_store(moved_to)
    MlflowRegistry(moved, experiment="tests", model_name="controller").fetch(1, tmp_path / "got")
    assert tree_digest(tmp_path / "got") == tree_digest(folder)
    tracker = MlflowTracker(moved, experiment="tests")
    tracker.attach(run_id, folder / "weights.safetensors")
    assert (moved_to / "artifacts" / run_id / "artifacts" / "weights.safetensors").exists()
    with closing(sqlite3.connect(moved.database)) as connection:
        dump = "\n".join(connection.iterdump())
    assert str(store.root) not in dump


def test_an_alias_is_read_without_mlflow(store: MlflowStore, make_model: MakeModel) -> None:
    assert store.alias("controller", CHAMPION) is None
    registry = MlflowRegistry(store, experiment="tests", model_name="controller")
    registry.register(make_model("a"), run_key="k", tags={"verdict": "promote"})
    promote(registry, 1)
    found = store.alias("controller", CHAMPION)
    assert found is not None
    assert found.version == 1
    assert found.tags == registry.describe(1).tags
