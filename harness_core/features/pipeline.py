"""From interim tables to feature tables: fitted once on development tasks, then only applied.

The pipeline is stored beside the model, so that a champion sees new logs, and a request at run
time, exactly as it saw its training data. Everything goes through `transform_contents`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from harness_core.errors import ParameterError
from harness_core.features.batch import Floats
from harness_core.features.config import FeatureConfig
from harness_core.features.contents import TrajectoryContent
from harness_core.features.encoder import TextEncoder, TransformersEncoder, open_encoder
from harness_core.features.execution import (
    EXECUTION,
    ExecutionSignals,
    ProgramKey,
    ProgramRunner,
    run_all,
)
from harness_core.features.frame import (
    KINDS,
    NO_ROW,
    TEXT_COLUMNS,
    Frame,
    build_frame,
    programs_of,
    tail_of,
)
from harness_core.features.interim import InterimTables
from harness_core.features.prior import ALL_DEVELOPMENT, AgentPriors, fit_priors, rate_of
from harness_core.features.projection import Standardiser
from harness_core.features.storage import (
    StoredPipeline,
    fingerprint_of,
    read_stored,
    schema_of,
    text_width,
    write_stored,
)
from harness_core.features.table import FeatureSchema
from harness_core.features.texts import Encoders, choose, fit_projections, project
from harness_core.features.tuning import EncoderTuner, Tuning, text_groups
from harness_core.features.vectors import FeatureArrays, FeatureTables, tables_of


class FeaturePipeline:
    """Fitted projections, scales and priors, and the encoders that they belong to."""

    def __init__(
        self,
        stored: StoredPipeline,
        encoders: Encoders,
        *,
        figures: Mapping[str, Any] | None = None,
    ) -> None:
        self._stored = stored
        self._encoders = encoders
        self._figures = figures or {}

    @property
    def config(self) -> FeatureConfig:
        """The parameters that it was fitted with."""
        return self._stored.config

    @property
    def schema(self) -> FeatureSchema:
        """Names of all columns, and the fingerprint of the whole."""
        return self._stored.schema

    @classmethod
    def fit(
        cls,
        tables: InterimTables,
        config: FeatureConfig,
        *,
        runner: ProgramRunner | None = None,
        cache: Path | None = None,
        encoder: TextEncoder | None = None,
        tuner: EncoderTuner | None = None,
    ) -> Self:
        """Fit on the development tasks of the tables.

        `runner` runs programs (without one their signals are unknown), `cache` is the folder of the
        embedding cache, `encoder` replaces the configured encoder, `tuner` fits the encoder where
        the configuration wants that.
        """
        contents = list(tables.contents())
        frame = build_frame(contents, _execute(contents, runner, config))
        encoders = Encoders(config.encoder, cache=cache, configured=encoder)
        return cls._fit(frame, tables, config, encoders, tuner)

    @classmethod
    def fit_transform(
        cls,
        tables: InterimTables,
        config: FeatureConfig,
        *,
        runner: ProgramRunner | None = None,
        cache: Path | None = None,
        encoder: TextEncoder | None = None,
        tuner: EncoderTuner | None = None,
    ) -> tuple[Self, FeatureTables]:
        """`fit`, then `transform` of the same tables, with one pass over them."""
        contents = list(tables.contents())
        frame = build_frame(contents, _execute(contents, runner, config))
        encoders = Encoders(config.encoder, cache=cache, configured=encoder)
        pipeline = cls._fit(frame, tables, config, encoders, tuner)
        return pipeline, pipeline._tables(pipeline._vectors(frame, tables.folds()))

    def transform(
        self, tables: InterimTables, *, runner: ProgramRunner | None = None
    ) -> FeatureTables:
        """The feature tables of interim tables."""
        contents = list(tables.contents())
        return self._tables(self.transform_contents(contents, tables.folds(), runner=runner))

    def transform_contents(
        self,
        contents: Sequence[TrajectoryContent],
        folds: Mapping[str, int],
        *,
        runner: ProgramRunner | None = None,
    ) -> FeatureArrays:
        """The vectors of trajectories; a task without a fold uses the all-development prior."""
        config = self._stored.config
        signals = _execute(contents, runner, config)
        return self._vectors(build_frame(contents, signals), folds)

    def task_vectors(self, texts: Sequence[str]) -> Floats:
        """Task texts as the encoder sees them, before any projection, [N, W]; zero for no text."""
        encoder = self._encoders.of(self._stored.choices["task"])
        tails = [tail_of("task", text) for text in texts]
        vectors = encoder.encode(tails)
        vectors[[not tail for tail in tails]] = 0.0
        return vectors

    def save(self, folder: Path) -> None:
        """Write to a folder: one JSON document and one safetensors file."""
        write_stored(folder, self._stored)

    @classmethod
    def load(
        cls, folder: Path, *, cache: Path | None = None, encoder: TextEncoder | None = None
    ) -> Self:
        """Read what `save` wrote and check that the encoders are still the same.

        Raises:
            ModelError: there is no usable pipeline in the folder.
            FingerprintMismatch: an encoder at hand differs from the one it was fitted with.
            FeatureSchemaMismatch: this version of the code makes other columns.
        """
        stored = read_stored(folder)
        encoders = Encoders(
            stored.config.encoder, cache=cache, configured=encoder, tuned=stored.tuned
        )
        stored.check(encoders)
        return cls(stored, encoders)

    @classmethod
    def _fit(
        cls,
        frame: Frame,
        tables: InterimTables,
        config: FeatureConfig,
        encoders: Encoders,
        tuner: EncoderTuner | None,
    ) -> Self:
        is_development = _development(frame, tables.folds())
        choices = choose({column: len(frame.texts[column]) for column in TEXT_COLUMNS}, config)
        tuned = _tune(frame, tables, choices, config, tuner)
        if tuned is not None:
            encoders = encoders.with_tuned(tuned.weights)
        projections = fit_projections(
            _texts_of(frame, is_development),
            choices,
            encoders,
            n_dimensions=config.n_text_dimensions,
        )
        of_action = np.array([is_development[row.trajectory] for row in frame.actions], dtype=bool)
        of_state = np.array([is_development[row.trajectory] for row in frame.states], dtype=bool)
        summary = Standardiser.fit(frame.summary[of_action])
        numeric = Standardiser.fit(frame.numeric[of_state])
        priors = fit_priors(tables.candidates, strength=config.prior_strength)
        schema = schema_of(
            projections,
            summary,
            numeric,
            fingerprints={c: encoders.of(choices[c]).fingerprint for c in TEXT_COLUMNS},
            encoder_tasks=() if tuned is None else tuned.tasks,
        )
        stored = StoredPipeline(
            config=config,
            choices=choices,
            projections=projections,
            summary=summary,
            numeric=numeric,
            priors=priors,
            schema=schema,
            tuned=None if tuned is None else tuned.weights,
        )
        figures = {} if tuned is None else {"finetune": tuned.figures}
        return cls(fingerprint_of(stored), encoders, figures=figures)

    def _vectors(self, frame: Frame, folds: Mapping[str, int]) -> FeatureArrays:
        prior = _priors(frame, folds, self._stored.priors)
        blocks = {
            column: project(
                list(frame.texts[column]),
                self._encoders.of(self._stored.choices[column]),
                self._stored.projections[column],
            )
            for column in TEXT_COLUMNS
        }
        action = self._action_vectors(frame, blocks)
        last = np.array([row.last_action for row in frame.states], dtype=np.int64)
        # One row of zeros more, which the index `NO_ROW` (−1) then points to.
        padded = np.concatenate([action, np.zeros((1, action.shape[1]), dtype=np.float32)])
        trajectory = np.array([row.trajectory for row in frame.states], dtype=np.int64)
        state = np.concatenate(
            [
                blocks["task"][[row.task_text for row in frame.states]],
                padded[last],
                blocks["observation"][[row.observation_text for row in frame.states]],
                self._stored.numeric.apply(frame.numeric),
                prior[trajectory][:, None],
            ],
            axis=1,
        )
        return FeatureArrays(frame=frame, state=state, action=action, agent_prior=prior)

    def _action_vectors(self, frame: Frame, blocks: Mapping[str, Floats]) -> Floats:
        n = len(frame.actions)
        kind = np.zeros((n, len(KINDS)), dtype=np.float32)
        kind[np.arange(n), [row.kind for row in frame.actions]] = 1.0
        text = np.zeros((n, text_width(self._stored.projections)), dtype=np.float32)
        for column in ("action", "program"):
            rows = [index for index, row in enumerate(frame.actions) if row.column == column]
            block = blocks[column][[frame.actions[index].text for index in rows]]
            text[rows, : block.shape[1]] = block
        columns = [row.execution.columns for row in frame.actions]
        execution = np.array(columns, dtype=np.float32).reshape(n, len(EXECUTION))
        summary = self._stored.summary.apply(frame.summary)
        return np.concatenate([kind, text, summary, execution], axis=1)

    def _tables(self, arrays: FeatureArrays) -> FeatureTables:
        return tables_of(
            arrays,
            figures={
                "n_encoded": self._encoders.n_misses,
                "encoders": dict(self._stored.choices),
                "widths": {
                    "state": len(self.schema.state),
                    "action": len(self.schema.action),
                    "set_relative": len(self.schema.set_relative),
                },
                "fingerprint": self.schema.fingerprint,
                **self._figures,
            },
        )


def _tune(
    frame: Frame,
    tables: InterimTables,
    choices: Mapping[str, str],
    config: FeatureConfig,
    tuner: EncoderTuner | None,
) -> Tuning | None:
    if config.encoder.finetune is None:
        return None
    if tuner is None:
        raise ParameterError(
            "features.encoder.finetune: this caller cannot fine-tune; use `harness features`"
        )
    groups = text_groups(frame, tables.candidates, choices, config)
    encoder = open_encoder(config.encoder)
    assert isinstance(encoder, TransformersEncoder)  # a hashed one is refused above
    return tuner(encoder, groups, config.encoder.finetune)


def _execute(
    contents: Sequence[TrajectoryContent], runner: ProgramRunner | None, config: FeatureConfig
) -> dict[ProgramKey, ExecutionSignals]:
    if runner is None:
        return {}
    return run_all(
        programs_of(contents),
        runner,
        max_inputs=config.max_inputs,
        max_made=config.max_made_inputs,
    )


def _development(frame: Frame, folds: Mapping[str, int]) -> list[bool]:
    """Which trajectories belong to development tasks."""
    return [folds.get(task_id, ALL_DEVELOPMENT) != ALL_DEVELOPMENT for task_id in frame.task_ids]


def _texts_of(frame: Frame, is_development: list[bool]) -> dict[str, list[str]]:
    """Distinct texts of development tasks, by column."""
    used: dict[str, set[int]] = {column: set() for column in TEXT_COLUMNS}
    for action in frame.actions:
        if is_development[action.trajectory]:
            used[action.column].add(action.text)
    for state in frame.states:
        if is_development[state.trajectory]:
            used["task"].add(state.task_text)
            used["observation"].add(state.observation_text)
    numbered = {column: list(frame.texts[column]) for column in TEXT_COLUMNS}
    return {
        column: [numbered[column][index] for index in sorted(used[column] - {NO_ROW})]
        for column in TEXT_COLUMNS
    }


def _priors(frame: Frame, folds: Mapping[str, int], priors: AgentPriors) -> Floats:
    """Out-of-fold success rate of the agent of each trajectory."""
    lookups = {fold: priors.lookup(fold) for fold in {*folds.values(), ALL_DEVELOPMENT}}
    rates = [
        rate_of(agent, lookups[folds.get(task_id, ALL_DEVELOPMENT)])
        for agent, task_id in zip(frame.agents, frame.task_ids, strict=True)
    ]
    return np.array(rates, dtype=np.float32)
