"""Control of reasoning: which template, if any, to put before the agent's prompt in a state.

A template is given where a gain is expected and reliable: where at least `SURE` of the models
learnt from resampled tasks agree that it is one. Otherwise the agent is left alone.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import orjson
import safetensors.numpy
from pydantic import Field, ValidationError
from safetensors import SafetensorError

from harness_core.errors import FeatureSchemaMismatch, ModelError
from harness_core.features.batch import Floats
from harness_core.learners.guidance import GainModel
from harness_core.records import Record
from harness_core.tables import publish_bytes
from harness_core.trajectories.guidance import Tried, without_guidance
from harness_core.trajectories.guidance_library import (
    GuidanceLibrary,
    GuidanceTemplate,
    load_library,
    situations_of,
)

LIBRARY_FILE: Final = "guidance.yaml"
DOCUMENT: Final = "guidance.json"
ARRAYS: Final = "guidance.safetensors"
"""The three files of a model folder; one that learnt nothing of guidance has none of them."""
SURE: Final = 0.9

_ARRAYS: Final = ("centre", "scale", "weights", "resampled")
_NOT_GIVEN: Final = -1


class GuidanceReason(StrEnum):
    """Why the choice is what it is."""

    BEST_GAIN = "best_gain"
    NO_RELIABLE_GAIN = "no_reliable_gain"
    NONE_LEGAL = "none_legal"
    """No template that the model knows may be given in this state."""
    NOT_LEARNT = "not_learnt"
    """The model learnt nothing of guidance."""
    EXPLORATION = "exploration"


class ExpectedGain(Record):
    """What a template is expected to gain in a state, in points of success (0.1 is ten points)."""

    template_id: str
    value: float
    low: float
    high: float
    """Ends of its interval (80 %)."""
    sureness: float = Field(ge=0, le=1)
    """Share of the models learnt from resampled tasks that see a gain."""


class GuidanceChoice(Record):
    """One choice, with everything needed to explain, log and replay it."""

    decision_id: str
    template_id: str | None
    """None where no template is given."""
    text: str
    """What to put before the prompt; empty for none."""
    expected_gain: float
    """In points of success over no guidance; 0 for none."""
    considered: tuple[ExpectedGain, ...]
    """All templates that might have been given, the best first."""
    reason: GuidanceReason
    propensity: float = Field(gt=0, le=1)
    """Probability with which this choice was made."""
    model_digest: str
    feature_fingerprint: str


class _Document(Record):
    format_version: Literal[1] = 1
    templates: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceChooser:
    """A library and what its templates were found to gain."""

    library: GuidanceLibrary
    model: GainModel
    places: tuple[int, ...]
    """Places of the model's columns in a state vector."""

    @classmethod
    def of(cls, library: GuidanceLibrary, model: GainModel, names: Sequence[str]) -> Self:
        """A chooser for state vectors with these column names.

        Raises:
            FeatureSchemaMismatch: a column of the model is not there.
        """
        missing = sorted(set(model.columns) - set(names))
        if missing:
            raise FeatureSchemaMismatch(expected=missing, found="no such columns in this pipeline")
        place = {name: number for number, name in enumerate(names)}
        return cls(
            library=library, model=model, places=tuple(place[name] for name in model.columns)
        )

    def legal(self, history: Sequence[Mapping[str, Any]]) -> tuple[GuidanceTemplate, ...]:
        """The templates that may be given after these steps and that were learnt about."""
        legal = self.library.legal(situations_of([_tried(step) for step in history]))
        return tuple(template for template in legal if template.id in self.model.templates)

    def gains(
        self, state: Floats, templates: Sequence[GuidanceTemplate]
    ) -> tuple[ExpectedGain, ...]:
        """What templates gain in a state [Ds], the best first."""
        gains = self.model.gains(state[list(self.places)])
        found = [
            ExpectedGain(
                template_id=template.id,
                value=float(gains.value[place]),
                low=float(gains.low[place]),
                high=float(gains.high[place]),
                sureness=float(gains.sureness[place]),
            )
            for template in templates
            for place in [self.model.templates.index(template.id)]
        ]
        return tuple(sorted(found, key=lambda gain: -gain.value))


def choose_guidance(
    chooser: GuidanceChooser | None,
    state: Floats | None,
    history: Sequence[Mapping[str, Any]],
    *,
    exploration: float,
    rng: np.random.Generator | None,
    model_digest: str,
    feature_fingerprint: str,
) -> GuidanceChoice:
    """Choose a template for a state [Ds], or none.

    Args:
        chooser: None where nothing was learnt.
        state: features of the state; may be None where there is no chooser.
        history: the steps so far.
        exploration: probability of an even draw among the legal templates and none.
        rng: source of exploration.
        model_digest: identity of the model.
        feature_fingerprint: of its pipeline.
    """
    legal = () if chooser is None else chooser.legal(history)
    considered: tuple[ExpectedGain, ...] = ()
    if chooser is not None and legal:
        assert state is not None  # only a chooser makes templates legal
        considered = chooser.gains(state, legal)
    best = next(
        (
            place
            for place, gain in enumerate(considered)
            if gain.value > 0 and gain.sureness >= SURE
        ),
        _NOT_GIVEN,
    )
    chosen, propensity = best, 1.0
    if considered and exploration > 0:
        chosen, propensity = _explore(
            best, len(considered), exploration, rng or np.random.default_rng()
        )
    given = None if chosen == _NOT_GIVEN else considered[chosen]
    return GuidanceChoice(
        decision_id=uuid.uuid4().hex,
        template_id=None if given is None else given.template_id,
        text="" if chooser is None or given is None else chooser.library.text_of(given.template_id),
        expected_gain=0.0 if given is None else given.value,
        considered=considered,
        reason=_reason(chooser, considered, chosen, best),
        propensity=propensity,
        model_digest=model_digest,
        feature_fingerprint=feature_fingerprint,
    )


def _reason(
    chooser: GuidanceChooser | None, considered: Sequence[ExpectedGain], chosen: int, best: int
) -> GuidanceReason:
    if chooser is None:
        return GuidanceReason.NOT_LEARNT
    if not considered:
        return GuidanceReason.NONE_LEGAL
    if chosen != best:
        return GuidanceReason.EXPLORATION
    no_gain = best == _NOT_GIVEN
    return GuidanceReason.NO_RELIABLE_GAIN if no_gain else GuidanceReason.BEST_GAIN


def _explore(
    best: int, n_templates: int, exploration: float, rng: np.random.Generator
) -> tuple[int, float]:
    """An ε-greedy choice among the templates and none, and its probability."""
    options = [*range(n_templates), _NOT_GIVEN]
    probability: npt.NDArray[np.float64] = np.full(len(options), exploration / len(options))
    probability[options.index(best)] += 1 - exploration
    place = int(rng.choice(len(options), p=probability))
    return options[place], float(probability[place])


def _tried(step: Mapping[str, Any]) -> Tried:
    own = without_guidance(step.get("arguments") or {})
    key = (step.get("kind"), str(step.get("text") or "").strip(), own)
    return Tried(
        key=orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode(),
        result=str(step.get("result") or ""),
        is_error=step.get("is_error"),
    )


def save_guidance(folder: Path, library: Path, model: GainModel) -> None:
    """Write what a chooser needs into a model folder, the library as it stands among it."""
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in _ARRAYS}
    document = _Document(templates=model.templates, columns=model.columns)
    publish_bytes(folder / LIBRARY_FILE, library.read_bytes())
    publish_bytes(folder / ARRAYS, safetensors.numpy.save(arrays))
    publish_bytes(folder / DOCUMENT, document.model_dump_json(indent=2).encode() + b"\n")


def load_guidance(folder: Path, names: Sequence[str]) -> GuidanceChooser | None:
    """Read what `save_guidance` wrote; None where the model learnt nothing of guidance.

    Args:
        folder: of the model.
        names: of the columns of its states.

    Raises:
        ModelError: a file is missing or damaged, or it is for another pipeline.
    """
    if not (folder / DOCUMENT).exists():
        return None
    try:
        document = _Document.model_validate_json((folder / DOCUMENT).read_bytes())
        arrays = safetensors.numpy.load((folder / ARRAYS).read_bytes())
        model = GainModel(
            templates=document.templates,
            columns=document.columns,
            **{name: arrays[name] for name in _ARRAYS},
        )
    except (OSError, ValidationError, SafetensorError, KeyError) as error:
        raise ModelError(f"{folder}: no usable guidance: {error}") from error
    return GuidanceChooser.of(load_library(folder / LIBRARY_FILE), model, names)


assert {"templates", "columns", *_ARRAYS} == {item.name for item in fields(GainModel)}
