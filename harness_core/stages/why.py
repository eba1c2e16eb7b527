"""Why a logged decision is what it is: what was known, what decided, which model, from what data.

Whatever is missing by now (the model, its version, its data) is named, and the rest is told.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness_core.controller.manifest import read_manifest
from harness_core.errors import HarnessError, NoDataError
from harness_core.params import Params
from harness_core.registry.model_origin import model_origin
from harness_core.registry.store import MlflowStore, StoredVersion, initialise_store
from harness_core.serving.decision_log import LogTally
from harness_core.serving.outcomes import DecisionStory, find_decision
from harness_core.stages.dag import CANDIDATE_MODEL, CHAMPION_MODEL, STUDENT_MODEL, Workspace
from harness_core.stages.register import STORE
from harness_core.stages.serving_model import quiet_features
from harness_core.stages.why_neighbours import SPACE, nearest
from harness_core.trajectories.decision_log import LoggedDecision, LoggedRound

_OWN: Final = (CANDIDATE_MODEL, CHAMPION_MODEL, STUDENT_MODEL)
_FETCHED: Final = ".harness/models"


def explain(
    log: Path, decision_id: str, params: Params, workspace: Workspace, *, n_nearest: int
) -> dict[str, Any]:
    """Everything that is known of a decision, as JSON.

    Raises:
        NoDataError: it is not in the log.
    """
    tally = LogTally()
    story = find_decision(log, decision_id, tally=tally)
    if story is None:
        damaged = f" ({tally.n_damaged} lines of it cannot be read)" if tally.n_damaged else ""
        raise NoDataError(f"{log}: no decision {decision_id} in it{damaged}")
    missing: list[str] = []
    answer = story.decision.decision or {}
    digest = answer.get("model_digest")
    folder = None if digest is None else _folder_of(digest, params, workspace, missing)
    explained = _explained_index(answer)
    neighbours: list[dict[str, Any]] = []
    if folder is not None and explained is not None and n_nearest:
        try:
            with quiet_features():
                neighbours = nearest(
                    story.decision, explained, folder, params, workspace, n=n_nearest
                )
        except HarnessError as error:
            missing.append(f"nearest training rows: {error}")
    return {
        "decision": _decision(story),
        "state": story.decision.state,
        "candidates": list(_candidates(story.decision, story.decision.answered_index)),
        "rule": _rule(story.decision),
        "turned_down": [
            {"candidates": list(_candidates(one, None)), "rule": _rule(one)}
            for one in story.decision.turned_down
        ],
        "outcome": story.outcome.model_dump(mode="json") if story.outcome else None,
        "reviews": [review.model_dump(mode="json") for review in story.reviews],
        "model": {
            "digest": digest,
            "version": answer.get("model_version"),
            "feature_fingerprint": answer.get("feature_fingerprint"),
            "folder": None if folder is None else str(folder),
            "registered": None if digest is None else _origin(digest, workspace, missing),
        },
        "nearest": {"space": SPACE, "of_candidate": explained, "rows": neighbours},
        "missing": missing,
    }


def _decision(story: DecisionStory) -> dict[str, Any]:
    logged = story.decision
    said = logged.model_dump(
        mode="json", exclude={"state", "candidates", "decision", "turned_down"}
    )
    answer = logged.decision or {}
    names = ("chosen_index", "reason", "fallback", "success_probability", "risk")
    return {**said, **{name: answer.get(name) for name in (*names, "out_of_distribution")}}


def _candidates(
    tried: LoggedDecision | LoggedRound, answered_index: int | None
) -> Iterator[dict[str, Any]]:
    answer = tried.decision or {}
    rules = {item["index"]: item["rules"] for item in answer.get("filtered") or ()}
    review = {item["index"]: item["rules"] for item in answer.get("needs_review") or ()}
    for index, candidate in enumerate(tried.candidates):
        yield {
            "index": index,
            "text": candidate.get("text"),
            "score": _at(answer.get("scores"), index),
            "success_probability": _at(answer.get("success_probabilities"), index),
            "component_scores": _at(answer.get("component_scores"), index) or {},
            "filtered_by": rules.get(index, []),
            "needs_review_by": review.get(index, []),
            "is_chosen": answer.get("chosen_index") == index,
            "is_answered": answered_index == index,
        }


def _rule(tried: LoggedDecision | LoggedRound) -> dict[str, Any]:
    """What decided, with the numbers that it compared."""
    answer = tried.decision
    if not answer:
        return {"reason": None, "failure": tried.failure, "threshold": None}
    known = sorted(
        (score for score in answer.get("scores") or () if score is not None), reverse=True
    )
    margin = known[0] - known[1] if len(known) > 1 else None
    return {
        "reason": answer.get("reason"),
        "failure": tried.failure,
        "threshold": answer.get("threshold"),
        "fallback": answer.get("fallback"),
        "margin_to_the_next": margin,
        "propensity": answer.get("propensity"),
    }


def _explained_index(answer: Mapping[str, Any]) -> int | None:
    """The candidate whose neighbours are shown: the chosen one if it was scored, else the best."""
    scores = answer.get("scores") or ()
    chosen = answer.get("chosen_index")
    if chosen is not None and _at(scores, chosen) is not None:
        return int(chosen)
    known = [(score, -index) for index, score in enumerate(scores) if score is not None]
    return -max(known)[1] if known else None


def _folder_of(
    digest: str, params: Params, workspace: Workspace, missing: list[str]
) -> Path | None:
    """A folder that holds the model, fetched from the registry if none has it any more."""
    kept = workspace.path(_FETCHED)
    fetched = sorted(kept.iterdir()) if kept.is_dir() else []
    for folder in (*(workspace.path(name) for name in _OWN), *fetched):
        if _digest_of(folder) == digest:
            return folder
    store = MlflowStore(workspace.path(STORE).resolve())
    try:
        versions = store.versions_of(digest) if store.database.exists() else []
        if versions:
            return _fetch(versions[0], params, workspace)
    except HarnessError as error:
        missing.append(f"model: {error}")
        return None
    missing.append(f"model: {digest[:12]} is no longer there")
    return None


def _fetch(found: StoredVersion, params: Params, workspace: Workspace) -> Path:
    from harness_core.registry.mlflow_registry import MlflowRegistry  # noqa: PLC0415  # seconds

    registry = MlflowRegistry(
        initialise_store(workspace.path(STORE)),
        experiment=params.registry.experiment,
        model_name=found.name,
    )
    target = workspace.path(f"{_FETCHED}/{found.name}-{found.version}")
    registry.fetch(found.version, target)
    return target


def _digest_of(folder: Path) -> str | None:
    try:
        return read_manifest(folder).digest
    except HarnessError:
        return None


def _origin(digest: str, workspace: Workspace, missing: list[str]) -> dict[str, Any] | None:
    store = MlflowStore(workspace.path(STORE).resolve())
    if not store.database.exists():
        missing.append("registered version: nothing is registered in this working folder")
        return None
    try:
        origin = model_origin(store, digest)
    except HarnessError as error:
        missing.append(f"registered version: {error}")
        return None
    if origin is None:
        missing.append("registered version: this model was never registered here")
        return None
    if origin.teacher is not None:
        # A student learnt from what its teacher learnt from.
        teacher = model_origin(store, origin.teacher)
        if teacher is None:
            missing.append("data: the teacher of this model is not registered here")
        else:
            learnt = {"git_revision", "dataset_digest", "dvc"}
            origin = origin.model_copy(update=teacher.model_dump(include=learnt))
    if origin.git_revision is None:
        missing.append("revision: the working folder was no git repository when it was registered")
    if not origin.dvc:
        missing.append("data: no digests of DVC were recorded with it")
    return origin.model_dump(mode="json")


def _at(values: Sequence[Any] | None, index: int) -> Any:
    return values[index] if values is not None and index < len(values) else None
