"""MLflow as run tracker: runs, child runs, parameters, metrics, data sets and files."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from harness_core.registry.mlflow_database import experiment_id, open_client, quiet
from harness_core.registry.mlflow_quietly import (
    Dataset,
    DatasetInput,
    InputTag,
    Metric,
    Param,
    RunTag,
)
from harness_core.registry.runs import DatasetUse
from harness_core.registry.store import MlflowStore
from harness_core.registry.versions import RUN_KEY

_BATCH: Final = 100
_MAX_DATASET_DIGEST: Final = 36
_MAX_TAG: Final = 8000


class MlflowTracker:
    """Implements `RunTracker` in one experiment."""

    def __init__(self, store: MlflowStore, *, experiment: str) -> None:
        self._client = open_client(store)
        self._experiment_id = experiment_id(self._client, store, experiment)

    def find(self, run_key: str) -> str | None:
        """See `RunTracker.find`."""
        found = self._search(f"tags.{RUN_KEY} = '{run_key}' and status = 'FINISHED'")
        return found[0] if found else None

    def close_dead(self) -> int:
        """See `RunTracker.close_dead`."""
        dead = self._search(f"tags.{RUN_KEY} != '' and status = 'RUNNING'")
        for run_id in dead:
            self._client.set_terminated(run_id, status="KILLED")
        return len(dead)

    def start(self, name: str, *, tags: Mapping[str, str], parent: str = "") -> str:
        """See `RunTracker.start`."""
        parents = {"mlflow.parentRunId": parent} if parent else {}
        run = self._client.create_run(
            self._experiment_id, run_name=name, tags={**_cut_tags(tags), **parents}
        )
        return str(run.info.run_id)

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        datasets: Sequence[DatasetUse] = (),
    ) -> None:
        """See `RunTracker.log`."""
        now = int(time.time() * 1000)
        for part in _batches([Param(key, value) for key, value in (params or {}).items()]):
            self._client.log_batch(run_id, params=part)
        numbers = [Metric(key, value, now, 0) for key, value in (metrics or {}).items()]
        for part in _batches(numbers):
            self._client.log_batch(run_id, metrics=part)
        if datasets:
            self._client.log_inputs(run_id, datasets=[_dataset_input(item) for item in datasets])

    def attach(self, run_id: str, path: Path, *, folder: str = "") -> None:
        """See `RunTracker.attach`."""
        with quiet():
            if path.is_dir():
                self._client.log_artifacts(run_id, str(path), folder or None)
            else:
                self._client.log_artifact(run_id, str(path), folder or None)

    def finish(self, run_id: str) -> None:
        """See `RunTracker.finish`."""
        self._client.set_terminated(run_id)

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """See `RunTracker.tag`."""
        self._client.log_batch(run_id, tags=[RunTag(*item) for item in _cut_tags(tags).items()])

    def _search(self, query: str) -> list[str]:
        runs = self._client.search_runs(
            [self._experiment_id], filter_string=query, order_by=["attributes.start_time DESC"]
        )
        return [str(run.info.run_id) for run in runs]


def _dataset_input(use: DatasetUse) -> Any:
    dataset = Dataset(
        name=use.name,
        digest=use.digest[:_MAX_DATASET_DIGEST],
        source_type="local",
        source=orjson.dumps({"uri": use.path}).decode(),
        profile=None if use.n_rows is None else orjson.dumps({"num_rows": use.n_rows}).decode(),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", use.purpose)])


def _batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]


def _cut_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:_MAX_TAG] for name, value in tags.items()}
