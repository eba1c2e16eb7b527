"""A decision log decided once more: by another model, threshold, or with fewer candidates.

Nothing is asked of any agent: the candidates are those of the log. Exploration is switched off, and
what had been drawn at random is compared by the best score of then, so that the same model with the
same settings changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.errors import HarnessError, NoDataError, ParameterError
from harness_core.params import Params
from harness_core.serving.decision_log import LogTally, read_log
from harness_core.serving.outcomes import DecisionStory, stories
from harness_core.stages.dag import Workspace
from harness_core.stages.serving_model import quiet_features, serving_controller

_N_LISTED: Final = 100
"""Decisions that change which are written out; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """What is done differently; None leaves it as the model has it."""

    min_success_probability: float | None = None
    max_risk: float | None = None
    """As the parameter of the controller, under `abstention: risk` unless the model says how."""
    k: int | None = None
    """Only the first candidates are looked at, as if no more had been asked for."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        if self.min_success_probability is not None and not 0 <= self.min_success_probability <= 1:
            raise ParameterError("--min-success-probability: expected 0 to 1")
        if self.max_risk is not None and not 0 < self.max_risk < 1:
            raise ParameterError("--max-risk: expected a number between 0 and 1")
        if self.k is not None and self.k < 1:
            raise ParameterError(f"--k {self.k}: expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one side says to one request."""

    pick: int | None
    success: float | None
    risk: float | None
    abstained: bool
    n_filtered: int
    completion_tokens: float | None

    def shown(self) -> dict[str, Any]:
        """For people and programs."""
        return {
            "pick": self.pick,
            "success_probability": self.success,
            "risk": self.risk,
            "abstained": self.abstained,
            "n_filtered": self.n_filtered,
            "completion_tokens": self.completion_tokens,
        }


def replay_folder(
    log: Path, params: Params, workspace: Workspace, *, model: str, settings: ReplaySettings
) -> dict[str, Any]:
    """Decide a log once more and return what changes.

    Raises:
        NoDataError: there is no decision in the log.
        ParameterError: there is no such model.
        ModelError: the model cannot be used.
    """
    tally = LogTally()
    logged = stories(read_log(log, tally=tally))
    if not logged:
        raise NoDataError(f"{log}: no decision in it")
    has_programs = any(item.decision.state.get("language") == "python" for item in logged)
    with (
        serving_controller(model, params, workspace, has_programs=has_programs) as controller,
        quiet_features(),
    ):
        result = replay(logged, controller, settings)
    return {"model": model, **result, "n_damaged_lines": tally.n_damaged}


def replay(
    logged: Iterable[DecisionStory], controller: Controller, settings: ReplaySettings
) -> dict[str, Any]:
    """Ask a controller again under the settings; it is left as it is itself.

    Raises:
        ModelError: a risk was asked for that the model was not calibrated for.
    """
    controller = controller.with_config(_config(controller.config, settings))
    pairs: list[tuple[DecisionStory, Answer, Answer]] = []
    skipped: Counter[str] = Counter()
    for story in logged:
        decision = story.decision
        candidates = decision.candidates[: settings.k]
        try:
            again = controller.select(decision.state, candidates, decision.goal)
        except HarnessError as error:
            skipped[str(error).partition("\n")[0]] += 1
            continue
        after = _answer(again.model_dump(mode="json"), story, n_candidates=len(candidates))
        pairs.append((story, _before(story), after))
    return {
        "model_digest": controller.manifest.digest,
        "settings": {**controller.config.model_dump(mode="json"), "k": settings.k},
        "n_decisions": len(pairs) + skipped.total(),
        "n_replayed": len(pairs),
        "skipped": dict(skipped),
        **_figures(pairs),
    }


def _config(config: ControllerConfig, settings: ReplaySettings) -> ControllerConfig:
    changes: dict[str, Any] = {"exploration": 0.0}
    if settings.min_success_probability is not None:
        changes["min_success_probability"] = settings.min_success_probability
    if settings.max_risk is not None:
        kinds = ("risk", "expected_risk")
        changes["abstention"] = config.abstention if config.abstention in kinds else "risk"
        changes["max_risk"] = settings.max_risk
    return config.model_copy(update=changes)


def _before(story: DecisionStory) -> Answer:
    answer = story.decision.decision
    if answer is None:
        return Answer(
            pick=story.decision.answered_index,
            success=None,
            risk=None,
            abstained=True,
            n_filtered=0,
            completion_tokens=_tokens(story, len(story.decision.candidates)),
        )
    return _answer(answer, story, n_candidates=len(story.decision.candidates))


def _answer(answer: Mapping[str, Any], story: DecisionStory, *, n_candidates: int) -> Answer:
    pick = answer.get("chosen_index")
    if answer.get("reason") == "exploration":
        pick = _best(answer.get("scores") or ())
    return Answer(
        pick=pick,
        success=answer.get("success_probability"),
        risk=answer.get("risk"),
        abstained=pick is None or answer.get("fallback") is not None,
        n_filtered=len(answer.get("filtered") or ()),
        completion_tokens=_tokens(story, n_candidates),
    )


def _best(scores: Sequence[float | None]) -> int | None:
    known = [(score, -index) for index, score in enumerate(scores) if score is not None]
    return -max(known)[1] if known else None


def _tokens(story: DecisionStory, n_candidates: int) -> float | None:
    """Completion tokens that so many of the candidates cost, as if all were equally long."""
    spent, k = story.decision.usage.completion_tokens, len(story.decision.candidates)
    return None if spent is None or not k else spent * n_candidates / k


def _figures(pairs: Sequence[tuple[DecisionStory, Answer, Answer]]) -> dict[str, Any]:
    changed = [pair for pair in pairs if pair[1].pick != pair[2].pick]
    return {
        "n_picks_changed": len(changed),
        "abstained": _sums(pairs, lambda answer: answer.abstained),
        "candidates_filtered": _sums(pairs, lambda answer: answer.n_filtered),
        "expected_success": _means(pairs, "success"),
        "risk": _means(pairs, "risk"),
        "completion_tokens": _means(pairs, "completion_tokens", total=True),
        "reported_success": _reported(pairs),
        "changed": [
            {
                "decision_id": story.decision.decision_id,
                "before": before.shown(),
                "after": after.shown(),
            }
            for story, before, after in changed[:_N_LISTED]
        ],
    }


def _sums(pairs: Sequence[tuple[DecisionStory, Answer, Answer]], count: Any) -> dict[str, int]:
    return {
        "before": sum(int(count(before)) for _, before, _ in pairs),
        "after": sum(int(count(after)) for _, _, after in pairs),
    }


def _means(
    pairs: Sequence[tuple[DecisionStory, Answer, Answer]], name: str, *, total: bool = False
) -> dict[str, Any]:
    """Over the decisions where both sides know it."""
    known = [
        (getattr(before, name), getattr(after, name))
        for _, before, after in pairs
        if getattr(before, name) is not None and getattr(after, name) is not None
    ]
    if not known:
        return {"before": None, "after": None, "n_known": 0}
    fold = sum if total else fmean
    return {
        "before": float(fold(first for first, _ in known)),
        "after": float(fold(second for _, second in known)),
        "n_known": len(known),
    }


def _reported(pairs: Sequence[tuple[DecisionStory, Answer, Answer]]) -> dict[str, Any]:
    """What was reported of decisions, and of those whose answer would have been the same.

    Of the others nobody knows how they would have gone.
    """
    known = [
        (bool(story.outcome.success), story.decision.answered_index == after.pick)
        for story, _, after in pairs
        if story.outcome is not None and story.outcome.success is not None
    ]
    kept = [success for success, is_same in known if is_same]
    return {
        "n_reported": len(known),
        "n_same_answer": len(kept),
        "rate": fmean(success for success, _ in known) if known else None,
        "rate_same_answer": fmean(kept) if kept else None,
    }
