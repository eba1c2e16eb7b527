"""A decision log decided once more: by another model, threshold, or with fewer candidates.

Nothing is asked of any agent: the candidates are those of the log. Exploration is switched off, and
what had been drawn at random is compared by the best score of then, so that the same model with the
same settings changes nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_core.controller.config import ControllerConfig
from harness_core.controller.controller import Controller
from harness_core.controller.decision import Decision
from harness_core.errors import HarnessError, ModelError, NoDataError, ParameterError
from harness_core.params import Params
from harness_core.serving.decision_log import LogTally, read_log
from harness_core.serving.outcomes import DecisionStory, stories
from harness_core.stages.dag import Workspace
from harness_core.stages.replay_figures import Answer, Replayed, figures
from harness_core.stages.serving_model import quiet_features, serving_controller


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """What is done differently; None leaves it as the model has it."""

    min_success_probability: float | None = None
    max_risk: float | None = None
    """As the parameter of the controller, under `abstention: risk` unless the model says
    `expected_risk`."""
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
    has_programs = any(map(_may_run, logged))
    with (
        serving_controller(model, params, workspace, has_programs=has_programs) as controller,
        quiet_features(),
    ):
        result = replay(logged, controller, settings)
    return {
        "model": model,
        **result,
        "n_damaged_lines": tally.n_damaged,
        "damaged_lines": tally.damaged,
    }


def _may_run(story: DecisionStory) -> bool:
    """Whether programs of a decision are run: not where the log says that they were not."""
    ran = (story.decision.decision or {}).get("ran_programs")
    return ran is not False and story.decision.state.get("language") == "python"


def replay(
    logged: Iterable[DecisionStory], controller: Controller, settings: ReplaySettings
) -> dict[str, Any]:
    """Ask a controller again under the settings; it is left as it is itself.

    Raises:
        ModelError: a risk was asked for that the model was not calibrated for.
    """
    if settings.max_risk is not None and controller.manifest.abstention is None:
        raise ModelError("--max-risk: the model knows no risk curve; train it again")
    controller = controller.with_config(_config(controller.config, settings))
    pairs: list[Replayed] = []
    n_unlike = n_not_run = 0
    skipped: Counter[str] = Counter()
    for story in logged:
        decision = story.decision
        candidates = decision.candidates[: settings.k]
        try:
            again = controller.select(decision.state, candidates, decision.goal)
        except HarnessError as error:
            skipped[str(error).partition("\n")[0]] += 1
            continue
        n_unlike += settings.k is None and _is_unlike(decision.decision or {}, again)
        is_program = decision.state.get("language") == "python"
        n_not_run += is_program and again.ran_programs is False
        after = _answer(again.model_dump(mode="json"), story, n_candidates=len(candidates))
        pairs.append((story, _before(story), after))
    return {
        "model_digest": controller.manifest.digest,
        "settings": {**controller.config.model_dump(mode="json"), "k": settings.k},
        "promise": _promise(controller),
        "n_decisions": len(pairs) + skipped.total(),
        "n_replayed": len(pairs),
        "n_other_scores": n_unlike,
        "n_programs_not_run": n_not_run,
        "skipped": dict(skipped),
        **figures(pairs),
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
        success=_success(answer, pick),
        abstained=pick is None or answer.get("fallback") is not None,
        n_filtered=len(answer.get("filtered") or ()),
        completion_tokens=_tokens(story, n_candidates),
    )


def _best(scores: Sequence[float | None]) -> int | None:
    known = [(score, -index) for index, score in enumerate(scores) if score is not None]
    return -max(known)[1] if known else None


def _is_unlike(before: Mapping[str, Any], again: Decision) -> bool:
    """Whether the very same model scores the same candidates differently."""
    if before.get("model_digest") != again.model_digest:
        return False
    pairs = zip(before.get("scores") or (), again.scores, strict=False)
    return any(
        one is None or other is None or not math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-3)
        for one, other in pairs
        if one is not other
    )


def _success(answer: Mapping[str, Any], pick: int | None) -> float | None:
    if pick is None:
        return None
    known: Sequence[float | None] = answer.get("success_probabilities") or ()
    if pick < len(known):
        return known[pick]
    # Older logs tell that of the best candidate only.
    best: float | None = answer.get("success_probability")
    return None if answer.get("fallback") is not None else best


def _promise(controller: Controller) -> str | None:
    """What the model's risk curve says of the risk that is asked for."""
    config, curve = controller.config, controller.manifest.abstention
    if config.abstention != "risk" or curve is None:
        return None
    return curve.reading(config.max_risk, confidence=config.confidence)


def _tokens(story: DecisionStory, n_candidates: int) -> float | None:
    """Completion tokens that so many of the candidates cost, as if all were equally long."""
    spent, k = story.decision.usage.completion_tokens, len(story.decision.candidates)
    return None if spent is None or not k else spent * n_candidates / k
