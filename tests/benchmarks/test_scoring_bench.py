"""The benchmark of decisions, with an untrained model on hashed texts."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.requests import LONG_TOKENS, MAX_TOKENS, NewRequests
from benchmarks.results_speed import score_section
from benchmarks.scoring import PARTS, kind_of, kind_of_model, measure_models, token_counter
from harness_core.controller.combination import CRITIC_ALONE
from harness_core.controller.config import ControllerConfig
from harness_core.controller.manifest import (
    ModelManifest,
    file_digests,
    read_manifest,
    write_manifest,
)
from harness_core.errors import ParameterError
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.set_relative import SET_RELATIVE
from harness_core.learners.checkpoint import save_critic
from harness_core.learners.networks import CriticNetwork, NetworkSpec
from harness_core.params import Params
from tests.features.world import make_config, make_world

COMPONENTS = ("all_tests", "outcome")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("model")
    pipeline = FeaturePipeline.fit(make_world().tables(), make_config())
    pipeline.save(folder / "pipeline")
    spec = NetworkSpec(
        n_state=len(pipeline.schema.state),
        n_action=len(pipeline.schema.action),
        n_relative=len(SET_RELATIVE),
        hidden_sizes=(4,),
        n_members=1,
        components=COMPONENTS,
        weights=(1.0, 1.0),
    )
    save_critic(folder, CriticNetwork(spec))
    manifest = ModelManifest(
        learner="iql",
        components=COMPONENTS,
        weights=dict.fromkeys(COMPONENTS, 1.0),
        feature_fingerprint=pipeline.schema.fingerprint,
        encoders=pipeline.schema.encoders,
        combination=CRITIC_ALONE,
        controller=ControllerConfig(min_success_probability=0.0, fallback="first", exploration=0.0),
        k_max=8,
        development_tasks=("a",),
        files=file_digests(folder),
    )
    write_manifest(folder, manifest)
    return folder


def hashed(params: Params) -> Params:
    features = params.features.model_copy(update={"encoder": make_config().encoder})
    return params.model_copy(update={"features": features})


def test_decisions_and_their_parts_have_a_median_and_a_tail(model: Path, params: Params):
    figures = measure_models(
        [model], hashed(params), n_requests=3, n_isolated=2, n_threads=1, k=4, seed=0
    )
    assert json.loads(json.dumps(figures)) == figures
    assert set(figures["ms"]) == {"hashed"}
    measured = figures["ms"]["hashed"]
    assert set(measured["parts"]) == set(PARTS)
    run = measured["new_candidates_run"]
    sorts = ("new_candidates", "all_cached", "new_long_candidates")
    whole = [measured[sort] for sort in sorts]
    for item in (*whole, *([] if isinstance(run, str) else [run])):
        assert 0 < item["p50"] <= item["p95"]
    assert figures["goals"] == {}


def test_a_student_is_timed_beside_its_teacher_in_the_same_run(
    model: Path, params: Params, tmp_path: Path
):
    student = tmp_path / "student"
    shutil.copytree(model, student)
    manifest = read_manifest(model)
    write_manifest(student, manifest.model_copy(update={"teacher": manifest.digest}))
    assert (kind_of_model(model), kind_of_model(student)) == ("hashed", "student")
    figures = measure_models(
        [model, student], hashed(params), n_requests=2, n_isolated=0, n_threads=1, k=2, seed=0
    )
    assert set(figures["ms"]) == {"hashed", "student"}
    found = figures["ms"]["student"]["new_candidates"]["p50"]
    assert figures["goals"] == {"student_ms": {"goal": 10.0, "found": found}}
    assert f"| student_ms | goal 10.000, found {found:.3f} |" in score_section(figures)


def test_long_candidates_are_as_long_as_a_text_is_read(params: Params):
    n_tokens = token_counter(hashed(params).features.encoder)
    requests = NewRequests(k=3, n_tokens=n_tokens, seed=0).draw_long(4)
    texts = [item["text"] for request in requests for item in request.candidates]
    assert len(set(texts)) == 12
    assert min(map(n_tokens, texts)) >= LONG_TOKENS


def test_no_program_is_run_where_none_is_asked_for(model: Path, params: Params):
    figures = measure_models(
        [model], hashed(params), n_requests=2, n_isolated=0, n_threads=1, k=2, seed=0
    )
    assert figures["ms"]["hashed"]["new_candidates_run"] is None


def test_candidates_are_short_and_never_come_twice(params: Params):
    n_tokens = token_counter(hashed(params).features.encoder)
    requests = NewRequests(k=8, n_tokens=n_tokens, seed=0)
    texts = [item["text"] for request in requests.draw(300) for item in [*request.candidates]]
    assert len(set(texts)) == len(texts) == 2400
    assert max(map(n_tokens, texts)) <= MAX_TOKENS


def test_if_every_program_is_too_long_that_is_said():
    with pytest.raises(ParameterError, match="no program of the sample"):
        NewRequests(k=8, n_tokens=lambda _: MAX_TOKENS + 1, seed=0)


def test_a_model_is_named_after_what_its_candidates_go_through(params: Params):
    features = params.features
    assert kind_of(features) == "hashed_programs"
    assert kind_of(features.model_copy(update={"encode_code": True})) == "transformer"
    assert kind_of(make_config()) == "hashed"
