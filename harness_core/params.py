"""`params.yaml` as one typed tree: what is run. Where things are is in `settings`."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast, get_args

import orjson
import yaml
from pydantic import ValidationError

from harness_core.controller.config import ControllerConfig
from harness_core.errors import ParameterError
from harness_core.evaluation.config import CalibrationConfig, EvaluationConfig, GateConfig
from harness_core.features.config import FeatureConfig
from harness_core.importers.config import IngestConfig
from harness_core.learners.config import TrainConfig
from harness_core.learners.distil_config import DistilConfig
from harness_core.records import Section
from harness_core.registry.config import RegistryConfig
from harness_core.rewards.config import RewardConfig
from harness_core.sandbox.config import SandboxConfig
from harness_core.simulation.config import SampleConfig
from harness_core.transitions.config import TransitionConfig
from harness_core.validation.config import ValidationConfig


class Params(Section):
    """The whole of `params.yaml`, one section a stage."""

    sample: SampleConfig
    ingest: IngestConfig
    validation: ValidationConfig
    sandbox: SandboxConfig
    rewards: RewardConfig
    transitions: TransitionConfig
    features: FeatureConfig
    train: TrainConfig
    distil: DistilConfig
    evaluation: EvaluationConfig
    calibration: CalibrationConfig
    gate: GateConfig
    registry: RegistryConfig
    controller: ControllerConfig


def load_params(path: Path, overrides: Iterable[str] = ()) -> Params:
    """Read `params.yaml` and apply overrides of the form `section.key=value` (YAML values).

    Raises:
        ParameterError: the file is missing or not YAML, a key is unknown, doubled, missing or out
            of bounds; the message names the key and, for an unknown one, its nearest neighbour.
    """
    tree = _parse(path)
    for override in overrides:
        _apply(tree, override)
    # Strict validation of JSON still takes lists for tuples, which strict Python would not.
    try:
        return Params.model_validate_json(orjson.dumps(tree))
    except ValidationError as error:
        raise ParameterError(f"{path}: {'; '.join(_explain(error))}") from error


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key written twice."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  # PyYAML's signature
    ) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ParameterError(f"line {line}: the key '{key}' stands twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _parse(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)  # noqa: S506  # a SafeLoader
    except FileNotFoundError as error:
        raise ParameterError(f"{path} does not exist") from error
    except yaml.YAMLError as error:
        raise ParameterError(f"{path} is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ParameterError(f"{path}: expected sections, found {type(tree).__name__}")
    return tree


def _apply(tree: dict[str, Any], override: str) -> None:
    name, separator, text = override.partition("=")
    if not separator:
        raise ParameterError(f"--set {override}: expected section.key=value")
    *parents, leaf = name.split(".")
    node: Any = tree
    for part in (*parents, leaf):
        if not isinstance(node, dict) or part not in node:
            keys = list(node) if isinstance(node, dict) else []
            raise ParameterError(f"--set {name}: unknown{_hint(part, keys)}")
        parent, node = node, node[part]
    cast("dict[str, Any]", parent)[leaf] = yaml.safe_load(text)


def _explain(error: ValidationError) -> Iterable[str]:
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            yield f"{name}: unknown{_hint(str(item['loc'][-1]), _fields_at(item['loc'][:-1]))}"
        else:
            yield f"{name}: {item['msg']} (found {item['input']!r})"


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: Any = Params
    for part in location:
        if isinstance(part, str):  # else the place in a list, whose items are the model
            annotation = model.model_fields[part].annotation
            model = next(iter(get_args(annotation)), annotation)
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    return list(fields)


def _hint(key: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(key, list(known), n=1)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""
