"""What an encoder may learn from: texts of attempts beside their outcomes, of tasks set aside.

An encoder that saw the outcome of a task writes it into the text vectors of that task, where every
critic would find it. So it learns from the training tasks of some folds only, and nothing is ever
judged on those. Folds hold whole clusters of near-duplicates, so no twin of such a task is judged
either. The frozen test slice and the validation tasks are never among them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from harness_core.errors import NoDataError, ParameterError
from harness_core.features.batch import DecisionGroup, Floats
from harness_core.features.config import FeatureConfig, FinetuneConfig
from harness_core.features.encoder import TransformersEncoder
from harness_core.features.frame import NO_ROW, Frame
from harness_core.features.table import FeatureSchema
from harness_core.features.tuned_weights import TunedWeights
from harness_core.trajectories.vocabulary import GroupKind, Split

STATE_TEXTS: Final = ("task", "action", "observation")
"""The texts of a state: of the task, of the action taken last, of what was seen last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGroup:
    """The attempts at one task as the encoder sees them."""

    task_id: str
    texts: tuple[tuple[str, ...], ...]
    """[K][texts of a state] after each attempt; empty where there is none or it is hashed."""
    success: Floats  # [K] in [0, 1], all known


class Tuning(NamedTuple):
    """What fine-tuning changed, and figures for the stage report."""

    weights: TunedWeights
    tasks: tuple[str, ...]
    """Tasks whose outcomes were seen, sorted."""
    figures: dict[str, Any]


class EncoderTuner(Protocol):
    """Fits an encoder to outcomes; `learners.encoder_tuning` has one."""

    def __call__(
        self, encoder: TransformersEncoder, groups: Sequence[TextGroup], config: FinetuneConfig
    ) -> Tuning:
        """The weights that learning changed; the encoder itself stays as it is."""
        ...


def text_groups(
    frame: Frame, candidates: pa.Table, choices: Mapping[str, str], config: FeatureConfig
) -> list[TextGroup]:
    """The attempts that the encoder learns from, in an order that depends on their ids alone.

    Raises:
        ParameterError: no text of a state goes through the configured encoder.
        NoDataError: no training task of the chosen folds has attempts of different outcome.
    """
    finetune = config.encoder.finetune
    assert finetune is not None
    encoded = {column for column, choice in choices.items() if choice == "configured"}
    if not encoded - {"task"}:
        raise ParameterError(
            "features.encoder.finetune: neither actions nor observations go through the encoder; "
            "raise features.encoder.max_texts or set features.encode_code"
        )
    texts_of = _StateTexts(frame, encoded)
    groups: list[TextGroup] = []
    distinct: set[str] = set()
    for rows in _attempts(candidates, finetune):
        texts = tuple(texts_of(row) for row in rows)
        distinct.update(text for item in texts for text in item)
        if groups and len(distinct) > finetune.max_texts:
            break
        success = np.array([row["success"] for row in rows], dtype=np.float32)
        groups.append(TextGroup(task_id=rows[0]["task_id"], texts=texts, success=success))
    if not any(np.ptp(group.success) > 0 for group in groups):
        raise NoDataError(
            f"features.encoder.finetune: none of {len(groups)} training tasks in the first "
            f"{finetune.n_folds} fold(s) has both good and bad attempts"
        )
    return groups


def judgeable(groups: Sequence[DecisionGroup], schema: FeatureSchema) -> list[DecisionGroup]:
    """The groups of tasks whose outcomes the encoder has not seen: all that may be judged.

    Raises:
        NoDataError: the encoder has seen them all.
    """
    seen = set(schema.encoder_tasks)
    kept = [group for group in groups if group.task_id not in seen]
    if groups and not kept:
        raise NoDataError(
            f"the encoder was fine-tuned on all {len(seen)} tasks, so none is left to be judged; "
            "lower features.encoder.finetune.n_folds"
        )
    return kept


def _attempts(candidates: pa.Table, config: FinetuneConfig) -> list[list[dict[str, Any]]]:
    """Candidates with known outcome of each group of attempts at a task that is set aside."""
    rows = [
        row
        for row in candidates.to_pylist()
        if row["kind"] == GroupKind.ATTEMPT
        and row["split"] == Split.TRAIN
        and 0 <= row["fold"] < config.n_folds
        and row["success"] is not None
    ]
    groups = [list(group) for _, group in groupby(rows, key=itemgetter("group_id"))]
    return sorted(groups, key=lambda group: _lot(group[0]["group_id"], config.seed))


def _lot(group_id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{group_id}".encode()).digest()


class _StateTexts:
    """The texts of the state that an attempt ended in."""

    def __init__(self, frame: Frame, encoded: set[str]) -> None:
        self._frame = frame
        self._encoded = encoded
        self._texts = {column: list(texts) for column, texts in frame.texts.items()}
        number = {trajectory: index for index, trajectory in enumerate(frame.trajectory_ids)}
        self._number = number
        self._state = {(row.trajectory, row.step_index): row for row in frame.states}

    def __call__(self, candidate: Mapping[str, Any]) -> tuple[str, ...]:
        at = (self._number[candidate["trajectory_id"]], candidate["step_index"] + 1)
        state = self._state[at]
        last = self._frame.actions[state.last_action]
        return (
            self._text("task", state.task_text),
            self._text(last.column, last.text),
            self._text("observation", state.observation_text),
        )

    def _text(self, column: str, number: int) -> str:
        if number == NO_ROW or column not in self._encoded:
            return ""
        return self._texts[column][number]
