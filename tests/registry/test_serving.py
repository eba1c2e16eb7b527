"""MLflow's own server answers a real request with a decision."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest

from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.controller import Controller
from harness_core.controller.manifest import ModelManifest, file_digests, write_manifest
from harness_core.features.pipeline import FeaturePipeline
from harness_core.learners.checkpoint import save_critic
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.params import Params
from harness_core.registry.mlflow_database import quiet
from harness_core.registry.mlflow_quietly import MlflowException, pyfunc
from harness_core.registry.mlflow_registry import MlflowRegistry
from harness_core.registry.promotion import promote
from harness_core.registry.store import MlflowStore
from harness_core.rewards.table import COMPONENTS
from tests.features.world import make_config, make_world

MakeModel = Callable[..., Path]

START_S = 240


@contextmanager
def served(store: MlflowStore) -> Iterator[str]:
    """The address of `mlflow models serve` for the champion."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    tools = Path(sys.executable).parent
    command: list[str | Path] = [
        tools / "mlflow",
        "models",
        "serve",
        "-m",
        "models:/controller@champion",
    ]
    options = ["--env-manager", "local", "-h", "127.0.0.1", "-p", str(port)]
    log = store.root / "serve.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, *options],
            env={
                **os.environ,
                "MLFLOW_TRACKING_URI": store.tracking_uri,
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            },
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(server, f"{address}/ping", log)
        yield address
    finally:
        # MLflow starts workers of its own; they are all in the session that was made for it.
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)


def _wait(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    pytest.fail(f"MLflow's server did not come up:\n{log.read_text()}")


def ask(address: str, rows: list[dict[str, Any]]) -> Any:
    """Send rows of `state`, `candidates` and perhaps `goal`; return the answers."""
    content = {
        "dataframe_records": [{k: orjson.dumps(v).decode() for k, v in row.items()} for row in rows]
    }
    request = urllib.request.Request(
        f"{address}/invocations",
        data=orjson.dumps(content),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answers = orjson.loads(response.read())["predictions"]
    return [orjson.loads(answer if isinstance(answer, str) else answer["0"]) for answer in answers]


@pytest.fixture(scope="session")
def controller_folder(tmp_path_factory: pytest.TempPathFactory, params: Params) -> Path:
    """A real model of a few logs: the features are fitted, the networks are as they were born."""
    folder = tmp_path_factory.mktemp("controller")
    pipeline = FeaturePipeline.fit(make_world().tables(), make_config())
    pipeline.save(folder / "pipeline")
    weights = params.rewards.weights.model_dump()
    spec = NetworkSpec(
        n_state=len(pipeline.schema.state),
        n_action=len(pipeline.schema.action),
        n_relative=len(pipeline.schema.set_relative),
        hidden_sizes=(4,),
        n_members=1,
        components=COMPONENTS,
        weights=tuple(weights.values()),
    )
    save_critic(folder, CriticNetwork(spec))
    write_manifest(
        folder,
        ModelManifest(
            learner="iql",
            components=COMPONENTS,
            weights=weights,
            feature_fingerprint=pipeline.schema.fingerprint,
            encoders=pipeline.schema.encoders,
            combination=CRITIC_ALONE,
            controller=params.controller,
            k_max=4,
            development_tasks=(),
            files=file_digests(folder),
        ),
    )
    return folder


@pytest.mark.slow
def test_the_champion_answers_over_http_what_the_library_answers(
    store: MlflowStore, controller_folder: Path
) -> None:
    registry = MlflowRegistry(store, experiment="tests", model_name="controller")
    registry.register(controller_folder, run_key="k", tags={})
    promote(registry, 1)
    state = {"description": "Add two numbers.", "language": "python", "entry_point": "add"}
    candidates = [
        {"text": "import os\nos.system('rm -rf /')\n"},
        {"text": "def add(a, b):\n    return a + b\n"},
        {"text": "def add(a, b):\n    return a - b\n"},
    ]
    with served(store) as address:
        (answer,) = ask(address, [{"state": state, "candidates": candidates}])
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(address, [{"state": state, "candidates": []}])
        reason = refused.value.read().decode()
        refused.value.close()
    expected = Controller.load(controller_folder).select(state, candidates)
    each_time_anew = {"decision_id": "", "timings_s": {}}
    assert {**answer, **each_time_anew} == {**expected.model_dump(mode="json"), **each_time_anew}
    assert [item["index"] for item in answer["filtered"]] == [0]
    assert refused.value.code == 400
    assert "expected at least one" in reason


def test_what_is_served_reads_json_texts_and_refuses_what_is_none(
    store: MlflowStore, make_model: MakeModel
) -> None:
    registry = MlflowRegistry(
        store,
        experiment="tests",
        model_name="controller",
        served_code=Path(__file__).with_name("stub_model.py"),
    )
    registry.register(make_model("the weights"), run_key="k", tags={})
    (package,) = (path.parent for path in store.artifacts.rglob("MLmodel"))
    with quiet():
        model = pyfunc.load_model(str(package))
    rows = [
        {"state": '{"description": "Add."}', "candidates": '[{"text": "a"}, {"text": "abc"}]'},
        {
            "state": '{"description": "Add."}',
            "candidates": '[{"text": "abcd"}, {"text": "b"}]',
            "goal": '{"style": 2.0}',
        },
    ]
    first, second = (orjson.loads(answer) for answer in model.predict(pd.DataFrame(rows)))
    assert first == {
        "chosen_index": 1,
        "weights": "the weights",
        "description": "Add.",
        "goal": None,
    }
    assert (second["chosen_index"], second["goal"]) == (0, {"style": 2.0})
    with pytest.raises(MlflowException, match="unexpected"):
        model.predict(pd.DataFrame([{"state": "{", "candidates": "[]"}]))
    with pytest.raises(MlflowException, match="candidates"):
        model.predict(pd.DataFrame([{"state": "{}"}]))
