"""A fitted pipeline on disk: a JSON document and its arrays as safetensors, no pickle.

The weights that fine-tuning changed, if any, are a safetensors file beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import orjson
import safetensors.numpy
from pydantic import ValidationError
from safetensors import SafetensorError

from harness_core.errors import FeatureSchemaMismatch, FingerprintMismatch, ModelError
from harness_core.features.config import FeatureConfig
from harness_core.features.execution import EXECUTION
from harness_core.features.frame import KINDS, TEXT_COLUMNS
from harness_core.features.history import NUMERIC
from harness_core.features.prior import AgentPriors
from harness_core.features.projection import Projection, Standardiser
from harness_core.features.set_relative import SET_RELATIVE
from harness_core.features.summary import SUMMARY
from harness_core.features.table import FeatureSchema
from harness_core.features.texts import Choice, Encoders
from harness_core.features.tuned_weights import TunedWeights
from harness_core.records import Record
from harness_core.tables import combine_digests, publish_bytes

DOCUMENT: Final = "pipeline.json"
ARRAYS: Final = "pipeline.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipeline:
    """Everything that a fitted pipeline consists of."""

    config: FeatureConfig
    choices: dict[str, Choice]
    projections: dict[str, Projection]
    summary: Standardiser
    numeric: Standardiser
    priors: AgentPriors
    schema: FeatureSchema
    tuned: TunedWeights | None = None
    """What fine-tuning changed in the configured encoder."""

    def check(self, encoders: Encoders) -> None:
        """Refuse encoders or code that would make other features than those fitted on."""
        for column in TEXT_COLUMNS:
            expected = self.schema.encoders[column]
            found = encoders.of(self.choices[column]).fingerprint
            if found != expected:
                raise FingerprintMismatch(
                    expected=f"{expected} (column {column})", found=f"{found} (column {column})"
                )
        if self.schema.set_relative != SET_RELATIVE:
            raise FeatureSchemaMismatch(expected=self.schema.set_relative, found=SET_RELATIVE)


class _Document(Record):
    format: Literal[1]
    config: FeatureConfig
    choices: dict[str, Choice]
    priors: AgentPriors
    columns: FeatureSchema
    tuned_sha256: str | None = None
    """Digest of the fine-tuned weights; null for an encoder as it was published."""


def schema_of(
    projections: Mapping[str, Projection],
    summary: Standardiser,
    numeric: Standardiser,
    *,
    fingerprints: dict[str, str],
    encoder_tasks: tuple[str, ...] = (),
) -> FeatureSchema:
    """Names of all columns; the fingerprint is filled in last."""
    action = (
        *(f"kind.{kind}" for kind in KINDS),
        *(f"text.{index}" for index in range(text_width(projections))),
        *(f"summary.{SUMMARY[index]}" for index in summary.kept),
        *(f"execution.{name}" for name in EXECUTION),
    )
    state = (
        *(f"task.{index}" for index in range(projections["task"].width)),
        *(f"last_action.{name}" for name in action),
        *(f"observation.{index}" for index in range(projections["observation"].width)),
        *(f"numeric.{NUMERIC[index]}" for index in numeric.kept),
        "agent_prior",
    )
    return FeatureSchema(
        state=state,
        action=action,
        set_relative=SET_RELATIVE,
        encoders=fingerprints,
        encoder_tasks=encoder_tasks,
        fingerprint="",
    )


def text_width(projections: Mapping[str, Projection]) -> int:
    """Width of the block that holds the text of an action or the text of a program."""
    return max(projections["action"].width, projections["program"].width)


def fingerprint_of(stored: StoredPipeline) -> StoredPipeline:
    """The pipeline with the fingerprint of all its parts in its schema."""
    blank = replace(stored, schema=stored.schema.model_copy(update={"fingerprint": ""}))
    content = _document(blank) + safetensors.numpy.save(_arrays(blank))
    digest = combine_digests([("pipeline", content.hex())])
    return replace(stored, schema=stored.schema.model_copy(update={"fingerprint": digest}))


def write_stored(folder: Path, stored: StoredPipeline) -> None:
    """Write all files; the document comes last and makes the folder valid."""
    if stored.tuned is not None:
        stored.tuned.save(folder)
    publish_bytes(folder / ARRAYS, safetensors.numpy.save(_arrays(stored)))
    publish_bytes(folder / DOCUMENT, _document(stored))


def read_stored(folder: Path) -> StoredPipeline:
    """Read what `write_stored` wrote.

    Raises:
        ModelError: a file is missing or damaged.
        FeatureSchemaMismatch: a column is unknown to this version of the code.
        FingerprintMismatch: the weights of the encoder are not those that it was stored with.
    """
    try:
        document = _Document.model_validate_json((folder / DOCUMENT).read_bytes())
        arrays = safetensors.numpy.load((folder / ARRAYS).read_bytes())
        stored = StoredPipeline(
            config=document.config,
            choices=document.choices,
            projections={
                column: Projection(
                    mean=arrays[f"{column}.mean"], components=arrays[f"{column}.components"]
                )
                for column in TEXT_COLUMNS
            },
            summary=_standardiser(arrays, "summary", document.columns.action, SUMMARY),
            numeric=_standardiser(arrays, "numeric", document.columns.state, NUMERIC),
            priors=document.priors,
            schema=document.columns,
            tuned=None
            if document.tuned_sha256 is None
            else TunedWeights.load(folder, sha256=document.tuned_sha256),
        )
    except (OSError, ValidationError, SafetensorError, KeyError) as error:
        raise ModelError(f"{folder}: no usable feature pipeline: {error}") from error
    _check_fixed_columns(stored.schema)
    return stored


def _document(stored: StoredPipeline) -> bytes:
    document = _Document(
        format=1,
        config=stored.config,
        choices=stored.choices,
        priors=stored.priors,
        columns=stored.schema,
        tuned_sha256=None if stored.tuned is None else stored.tuned.sha256,
    )
    tree = document.model_dump(mode="json")
    options = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(tree, option=options | orjson.OPT_APPEND_NEWLINE)


def _arrays(stored: StoredPipeline) -> dict[str, np.ndarray]:
    arrays = {
        f"{column}.{name}": array
        for column, projection in stored.projections.items()
        for name, array in (("mean", projection.mean), ("components", projection.components))
    }
    for block, scale in (("summary", stored.summary), ("numeric", stored.numeric)):
        arrays[f"{block}.mean"] = scale.mean
        arrays[f"{block}.std"] = scale.std
    return {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}


def _standardiser(
    arrays: Mapping[str, np.ndarray],
    block: str,
    columns: tuple[str, ...],
    known: tuple[str, ...],
) -> Standardiser:
    """The stored scales, tied to columns by name: their places may differ in another version."""
    prefix = f"{block}."
    names = [name.removeprefix(prefix) for name in columns if name.startswith(prefix)]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise FeatureSchemaMismatch(expected=unknown, found="no such columns in this version")
    return Standardiser(
        kept=np.array([known.index(name) for name in names], dtype=np.int64),
        mean=arrays[f"{block}.mean"],
        std=arrays[f"{block}.std"],
    )


def _check_fixed_columns(schema: FeatureSchema) -> None:
    for prefix, expected in (("kind", tuple(KINDS)), ("execution", EXECUTION)):
        names = tuple(
            name.removeprefix(f"{prefix}.")
            for name in schema.action
            if name.startswith(f"{prefix}.")
        )
        if names != tuple(map(str, expected)):
            raise FeatureSchemaMismatch(expected=names, found=expected)
