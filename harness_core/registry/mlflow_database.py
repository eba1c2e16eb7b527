"""MLflow's database and the client to it, without the noise.

A client with an explicit address is used throughout: MLflow's global tracking address and active
run belong to the user.
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from harness_core.registry.mlflow_quietly import (
    MlflowClient,
    MlflowException,
    SqlAlchemyStore,
    store_schema,
)
from harness_core.registry.store import MlflowStore

ALREADY_EXISTS: Final = "RESOURCE_ALREADY_EXISTS"

_PROGRESS_BAR: Final = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"


def upgrade_database(path: Path, *, artifacts: Path) -> None:
    """Create the tables of a new database file, or bring those of an old one up to date."""
    address = f"sqlite:///{path}"
    with quiet():
        if path.exists():
            engine = store_schema.create_sqlalchemy_engine(address)
            store_schema._upgrade_db(engine)
            engine.dispose()
        # This also makes the default experiment, which two processes would fight over later.
        SqlAlchemyStore(address, artifacts.as_uri()).engine.dispose()
        SqlAlchemyStore._engine_map.pop(address)


def open_client(store: MlflowStore) -> Any:
    """A client that talks to this store whatever the environment says."""
    return MlflowClient(tracking_uri=store.tracking_uri, registry_uri=store.tracking_uri)


def experiment_id(client: Any, store: MlflowStore, name: str) -> str:
    """Id of an experiment, which is made if it is not there."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name, artifact_location=store.artifacts.as_uri()))
    except MlflowException as error:
        if error.error_code != ALREADY_EXISTS:
            raise
        # Another process was faster.
        return str(client.get_experiment_by_name(name).experiment_id)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep MLflow's notes, progress bars and deprecations off the terminal."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    shows_progress = os.environ.get(_PROGRESS_BAR)
    os.environ[_PROGRESS_BAR] = "false"
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            # MLflow compares column names in a way that pandas 3 has deprecated.
            warnings.filterwarnings("ignore", message="Operation with range is deprecated")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if shows_progress is None:
            del os.environ[_PROGRESS_BAR]
        else:
            os.environ[_PROGRESS_BAR] = shows_progress
