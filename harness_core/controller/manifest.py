"""What a model folder says about itself; read and verified before any weight is loaded."""

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from harness_core.controller.abstention import Abstention
from harness_core.controller.combination import Combination
from harness_core.controller.config import REQUIRED, ControllerConfig
from harness_core.controller.stopping import Steering
from harness_core.errors import ModelError
from harness_core.records import Record
from harness_core.tables import combine_digests, file_digest, publish_bytes

FILE_NAME: Final = "manifest.json"
POLICY_FILE: Final = "policy.yaml"
"""The tool policy that the model was trained under; models made before there was one lack it."""


class ModelManifest(Record):
    """Everything that a decision depends on, pinned."""

    format_version: Literal[1] = 1
    learner: str
    components: tuple[str, ...]
    """Names of the C reward components, in the order of the heads."""
    weights: dict[str, float]
    """Weight of each component in training; a goal given with a request is relative to it."""
    feature_fingerprint: str
    """Fingerprint of the feature pipeline: encoders, projections, priors, column names."""
    encoders: dict[str, str]
    """Text column → encoder fingerprint."""
    combination: Combination
    """Stage two: how the score is combined with what the group says."""
    controller: ControllerConfig
    k_max: int = Field(ge=1)
    """Candidates up to which choosing by the score loses no success, measured out of fold on
    development tasks (`evaluation.over_optimisation`). Beyond it a decision says so."""
    development_tasks: tuple[str, ...]
    """Tasks that the model may have learnt from, sorted; all others are held out for it."""
    teacher: str | None = None
    """Digest of the model that this one was distilled from; None for one that learnt from logs."""
    steering: Steering | None = None
    """What was learnt about interventions; models made before there were any lack it."""
    abstention: Abstention | None = None
    """What picks were worth on tasks that their models never saw, for thresholds of the risk;
    models made before there was one lack it."""
    ran_programs: bool | None = None
    """Whether programs were run for what it learnt from; where they are not run for a decision, its
    probabilities do not hold. None in models from before this was noted."""
    files: dict[str, str]
    """Relative path → sha256 of every other file of the folder."""

    @property
    def digest(self) -> str:
        """Identity of the model: equal contents, equal digest."""
        # A model that was registered before there was a field keeps its digest.
        late = ("teacher", "steering", "abstention", "ran_programs")
        controller = ControllerConfig.model_fields
        exclude: dict[str, Any] = {name: True for name in late if getattr(self, name) is None}
        exclude["controller"] = {
            name
            for name in controller.keys() - REQUIRED
            if getattr(self.controller, name) == controller[name].default
        }
        content = self.model_dump_json(exclude=exclude)
        return combine_digests([("manifest", content)])


def write_manifest(folder: Path, manifest: ModelManifest) -> None:
    """Write the manifest last: its presence says that the folder is complete."""
    publish_bytes(folder / FILE_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def file_digests(folder: Path) -> dict[str, str]:
    """Digest of every file of a model folder except the manifest, by relative path."""
    return {
        str(path.relative_to(folder)): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / FILE_NAME and not path.name.startswith(".")
    }


def read_manifest(folder: Path) -> ModelManifest:
    """Read a manifest and verify every file that it names.

    Raises:
        ModelError: no manifest, an unknown format, or a file that is missing, added or changed.
    """
    path = folder / FILE_NAME
    try:
        manifest = ModelManifest.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{folder} is no complete model folder: {FILE_NAME} is missing") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelError(f"{path}: {where}: {first['msg']}") from error
    found = file_digests(folder)
    for name in sorted(manifest.files.keys() | found.keys()):
        if manifest.files.get(name) != found.get(name):
            raise ModelError(f"{folder}: {name} is missing, added or changed since training")
    return manifest
