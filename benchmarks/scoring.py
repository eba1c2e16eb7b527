"""How long a decision between K candidates takes in this process, and which part takes how long.

Four kinds of request: new candidates for a state that was seen before, the same request again, new
candidates as long as a text is read, and new candidates that are run in the sandbox. A new text is
one that no cache has seen. Models take turns, request by request, so that what else happens on the
machine hits all of them alike. The parts are timed on requests of their own, with the steps of
`Controller.select` one after the other.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.requests import LONG_TOKENS, MAX_TOKENS, NewRequests, Request
from benchmarks.threads import torch_threads
from harness_core.controller.combination import combine, success_probability
from harness_core.controller.controller import Controller
from harness_core.controller.guard import filter_dangerous, needing_review
from harness_core.controller.manifest import read_manifest
from harness_core.controller.scoring import action_values, attempt_logits
from harness_core.errors import IsolationUnavailable
from harness_core.features.batch import Floats
from harness_core.features.config import EncoderConfig, FeatureConfig
from harness_core.features.contents import ActionContent, TaskContent
from harness_core.features.encoder import TextEncoder, TransformersEncoder, open_encoder
from harness_core.features.pipeline import FeaturePipeline
from harness_core.features.running import run_limits
from harness_core.features.runtime import featurise_request
from harness_core.features.set_relative import set_relative
from harness_core.features.summary import summarise
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

PARTS: Final = ("danger_rules", "summary", "encoding", "other_features", "network", "stage_two")

STUDENT: Final = "student"
TEACHER: Final = "transformer"

Kind = Literal["transformer", "hashed_programs", "hashed", "student"]
"""What the candidates of a Python task go through, and the other texts; a student is hashed too."""

GOALS_MS: Final = {STUDENT: 10.0, TEACHER: 60.0}
"""Median of new candidates of at most `MAX_TOKENS` tokens for a state that was seen."""
GOAL_TIMES: Final = 20.0

_N_WARM_UP: Final = 5
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_HALF, _MOST = 50, 95


class TimedEncoder:
    """An encoder that adds up how long it worked."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self.fingerprint = encoder.fingerprint
        self.width = encoder.width
        self.seconds = 0.0

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text, [N, width], in order."""
        began = time.perf_counter()
        vectors = self._encoder.encode(texts)
        self.seconds += time.perf_counter() - began
        return vectors


def token_counter(config: EncoderConfig) -> Callable[[str], int]:
    """Length of a text as the configured transformer counts; in words where there is none."""
    encoder = open_encoder(config)
    if isinstance(encoder, TransformersEncoder):
        return lambda text: sum(len(chunk) for chunk in encoder.chunks(text))
    return lambda text: len(_WORD.findall(text))


def kind_of(features: FeatureConfig) -> Kind:
    """What a model's candidates go through."""
    if features.encoder.name == "hashed":
        return "hashed"
    return "transformer" if features.encode_code else "hashed_programs"


def kind_of_model(folder: Path) -> Kind:
    """What the candidates of the model in a folder go through."""
    if read_manifest(folder).teacher is not None:
        return "student"
    return kind_of(FeaturePipeline.load(folder / "pipeline").config)


def measure_models(
    folders: Sequence[Path],
    params: Params,
    *,
    n_requests: int,
    n_isolated: int,
    n_threads: int,
    k: int,
    seed: int,
) -> dict[str, Any]:
    """Milliseconds a decision, by what the candidates of each model go through.

    Args:
        folders: model folders, each of another kind.
        params: limits of the programs that are run, and the encoder that counts tokens.
        n_requests: requests of each sort and model.
        n_isolated: requests whose programs are run; 0 leaves them out.
        n_threads: threads of torch.
        k: candidates a request.
        seed: chooses the programs.
    """
    machine = describe_machine()
    requests = NewRequests(k=k, n_tokens=token_counter(params.features.encoder), seed=seed)
    with torch_threads(n_threads):
        models = {kind_of_model(folder): folder for folder in folders}
        figures = measure(models, requests, n_requests=n_requests)
        for kind, folder in models.items():
            run = _isolated(folder, params.sandbox, requests, n=n_isolated)
            figures[kind]["new_candidates_run"] = run
    return {
        "ms": figures,
        "goals": _goals(figures),
        "k": k,
        "max_tokens": MAX_TOKENS,
        "long_tokens": LONG_TOKENS,
        "n_requests": n_requests,
        "n_isolated": n_isolated,
        "n_threads": n_threads,
        "machine": machine,
    }


def measure(
    models: Mapping[Kind, Path], requests: NewRequests, *, n_requests: int
) -> dict[str, Any]:
    """Milliseconds a decision of each model."""
    controllers = {kind: Controller.load(folder) for kind, folder in models.items()}
    for request in requests.draw(n_requests):  # every state is seen, and everything is loaded
        for controller in controllers.values():
            controller.select(request.state, request.candidates)
    fresh = requests.draw(n_requests)
    sorts = {
        "new_candidates": fresh,
        "all_cached": fresh,
        "new_long_candidates": requests.draw_long(n_requests),
    }
    times = {sort: _taking_turns(controllers, asked) for sort, asked in sorts.items()}
    return {
        kind: {
            **{sort: _milliseconds(seconds[kind]) for sort, seconds in times.items()},
            "parts": parts(controller, requests.draw(n_requests)),
        }
        for kind, controller in controllers.items()
    }


def _taking_turns(
    controllers: Mapping[Kind, Controller], requests: Sequence[Request]
) -> dict[Kind, list[float]]:
    """Seconds of every decision by model."""
    seconds: dict[Kind, list[float]] = {kind: [] for kind in controllers}
    for request in requests:
        for kind, controller in controllers.items():
            seconds[kind].append(_decide(controller, request))
    return seconds


def _goals(figures: Mapping[str, Any]) -> dict[str, Any]:
    """What was to be reached, beside what was found; models that are not there are left out."""
    goals: dict[str, Any] = {
        f"{kind}_ms": {"goal": goal, "found": figures[kind]["new_candidates"]["p50"]}
        for kind, goal in GOALS_MS.items()
        if kind in figures
    }
    if STUDENT in figures and TEACHER in figures:
        found = {
            sort: round(figures[TEACHER][sort]["p50"] / figures[STUDENT][sort]["p50"], 1)
            for sort in ("new_candidates", "new_long_candidates")
        }
        goals["times_as_fast"] = {"goal": GOAL_TIMES, **found}
    return goals


def parts(controller: Controller, requests: Sequence[Request]) -> dict[str, dict[str, float]]:
    """Milliseconds of each part of a decision on new candidates."""
    encoders = _timed_encoders(controller._pipeline)
    rows = [_one_by_one(controller, encoders, request) for request in requests]
    return {name: _milliseconds([row[name] for row in rows]) for name in PARTS}


def _one_by_one(
    controller: Controller, encoders: Sequence[TimedEncoder], request: Request
) -> dict[str, float]:
    actions = [Action(kind=ActionKind.CODE, text=item["text"]) for item in request.candidates]
    encoding = sum(encoder.seconds for encoder in encoders)
    times = [time.perf_counter()]
    filter_dangerous(actions, language=Language.PYTHON, policy=controller._policy)
    needing_review(actions, policy=controller._policy)
    times.append(time.perf_counter())
    group = featurise_request(controller._pipeline, request.state, request.candidates, sandbox=None)
    times.append(time.perf_counter())
    relative = set_relative(group.signals)
    logits = attempt_logits(controller._critic, group, relative)
    action_values(controller._critic, group, relative)
    times.append(time.perf_counter())
    combine(controller.manifest.combination, logits, group.signals, relative)
    success_probability(controller.manifest.combination, logits)
    times.append(time.perf_counter())
    danger, features, network, stage_two = np.diff(times)
    encoding = sum(encoder.seconds for encoder in encoders) - encoding
    summary = _summary_seconds(request)
    return {
        "danger_rules": danger,
        "summary": summary,
        "encoding": encoding,
        "other_features": max(features - encoding - summary, 0.0),
        "network": network,
        "stage_two": stage_two,
    }


def _summary_seconds(request: Request) -> float:
    """The summaries once more by themselves; nothing of them is kept anywhere."""
    task = TaskContent(
        task_id=request.state["task_id"],
        source="",
        description=request.state["description"],
        initial_state="",
        language=Language.PYTHON,
        entry_point=request.state["entry_point"],
        visible_checks=request.state["visible_checks"],
        generated_checks=(),
    )
    began = time.perf_counter()
    for item in request.candidates:
        action = ActionContent(kind=ActionKind.CODE, text=item["text"])
        summarise(action, task, seen=task.description)
    return time.perf_counter() - began


def _timed_encoders(pipeline: FeaturePipeline) -> list[TimedEncoder]:
    """Clocks around the encoders that a pipeline has, behind its memory of known texts."""
    timed = []
    for choice in sorted(set(pipeline._stored.choices.values())):
        cached = pipeline._encoders.of(choice)
        clock = TimedEncoder(cached._encoder)
        cached._encoder = clock
        timed.append(clock)
    return timed


def _isolated(
    folder: Path, sandbox: SandboxConfig, requests: NewRequests, *, n: int
) -> dict[str, float] | str | None:
    """Milliseconds of decisions for which the programs are run, or why there are none."""
    if not n:
        return None
    features = FeaturePipeline.load(folder / "pipeline").config
    with ExitStack() as stack:
        try:
            boxes = stack.enter_context(open_sandbox(run_limits(sandbox, features)))
        except IsolationUnavailable as error:
            return f"no isolation on this machine: {error}"
        controller = Controller.load(folder, sandbox=boxes)
        for request in requests.draw(min(n, _N_WARM_UP)):
            controller.select(request.state, request.candidates)
        return _milliseconds([_decide(controller, item) for item in requests.draw(n)])


def _decide(controller: Controller, request: Request) -> float:
    began = time.perf_counter()
    controller.select(request.state, request.candidates)
    return time.perf_counter() - began


def _milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    low, high = 1000 * np.percentile(seconds, (_HALF, _MOST))
    return {"p50": round(float(low), 3), "p95": round(float(high), 3)}
