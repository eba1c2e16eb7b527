"""The library of guidance templates, `guidance.yaml`: texts, and the states in which each is legal.

The file is written by hand, like `policy.yaml`; training pins it in the model. What a template is
worth stands nowhere in it: that is learnt from logs.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import orjson
import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from harness_core.errors import ParameterError
from harness_core.records import Record
from harness_core.trajectories.guidance import Tried, is_repeat
from harness_core.trajectories.yaml_lines import doubled_key, line_of


class Situation(StrEnum):
    """What an agent finds itself in; several may hold at once."""

    FIRST_ATTEMPT = "first_attempt"
    """Nothing has been done yet."""
    LATER = "later"
    """Something has been done."""
    AFTER_FAILED_CHECKS = "after_failed_checks"
    """What came back last says that checks failed."""
    AFTER_ERROR = "after_error"
    """What came back last is an error: the program could not be read, the call was refused."""
    AFTER_REPEAT = "after_repeat"
    """The last action had been taken before."""


def situations_of(tried: Sequence[Tried]) -> frozenset[Situation]:
    """The situations that hold after some steps, as the agent itself could tell."""
    if not tried:
        return frozenset({Situation.FIRST_ATTEMPT})
    last = tried[-1]
    holds = {
        Situation.LATER: True,
        Situation.AFTER_FAILED_CHECKS: _says_failed(last.result),
        Situation.AFTER_ERROR: bool(last.is_error) or _ERROR.search(last.result) is not None,
        Situation.AFTER_REPEAT: is_repeat(tried),
    }
    return frozenset(situation for situation, does in holds.items() if does)


_COUNTS: Final = re.compile(r"(\d+) ?(?:/|of) ?(\d+)[\w ]* passed")
_FAILED: Final = re.compile(r"\b(?:failed|assertionerror)\b", re.IGNORECASE)
_ERROR: Final = re.compile(r"\b(?!assertion)\w*(?:error|exception)\b|\btraceback\b", re.IGNORECASE)


def _says_failed(result: str) -> bool:
    counts = _COUNTS.search(result)
    if counts is not None:
        return int(counts[1]) < int(counts[2])
    return _FAILED.search(result) is not None


def _as_tuple(value: Any) -> Any:
    # Strict validation takes a tuple where JSON, once it went through here, would be a list.
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


class GuidanceTemplate(Record):
    """One text, and when it may be given."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    when: Annotated[tuple[Situation, ...], BeforeValidator(_as_tuple)] = ()
    """Legal where one of these holds; without any, always."""
    text: str = Field(min_length=1, max_length=2000)
    """What is put before the agent's prompt."""

    def fits(self, situations: frozenset[Situation]) -> bool:
        """Whether it may be given where these situations hold."""
        return not self.when or not situations.isdisjoint(self.when)


class GuidanceLibrary(Record):
    """All templates, in the order of the file."""

    version: Literal[1]
    templates: tuple[GuidanceTemplate, ...]

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        ids = [template.id for template in self.templates]
        doubled = next((name for name in ids if ids.count(name) > 1), None)
        if doubled is not None:
            raise ValueError(f"templates: the id {doubled!r} is taken; give every one its own")
        return self

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all templates."""
        return tuple(template.id for template in self.templates)

    def text_of(self, template_id: str) -> str:
        """The text of a template of this library."""
        return next(item.text for item in self.templates if item.id == template_id)

    def legal(self, situations: frozenset[Situation]) -> tuple[GuidanceTemplate, ...]:
        """The templates that may be given where these situations hold."""
        return tuple(template for template in self.templates if template.fits(situations))


NO_TEMPLATES: Final = GuidanceLibrary(version=1, templates=())
"""The library where none is given."""


def load_library(path: Path) -> GuidanceLibrary:
    """Read a library file.

    Raises:
        ParameterError: the file is missing or not YAML, or a template is not as it must be; names
            the line, the key and what would do.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ParameterError(
            f"{path} does not exist; copy the one that ships with harness, or write `version: 1`,"
            " `templates: []`"
        ) from error
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not UTF-8 text: {error}") from error
    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
        if (found := doubled_key(document)) is not None:
            raise ParameterError(f"{path}: line {found.line}: the key '{found.key}' stands twice")
        # Strict validation of JSON still takes lists for tuples and words for enums.
        return GuidanceLibrary.model_validate_json(orjson.dumps(yaml.safe_load(text)))
    except yaml.YAMLError as error:
        raise ParameterError(f"{path} is not YAML: {error}") from error
    except orjson.JSONEncodeError as error:
        raise ParameterError(f"{path}: keys must be texts: {error}") from error
    except ValidationError as error:
        explained = "; ".join(_explain(item, document) for item in error.errors())
        raise ParameterError(f"{path}: {explained}") from error


def _explain(item: Mapping[str, Any], document: yaml.Node | None) -> str:
    location: Sequence[int | str] = item["loc"]
    where = ".".join(str(part) for part in location)
    problem = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        model = GuidanceTemplate if location[0] == "templates" else GuidanceLibrary
        problem = f"unknown; there are {', '.join(model.model_fields)}"
    elif item["type"] != "value_error":
        problem = f"{problem} (found {item['input']!r})"
    line = line_of(location, document)
    return f"line {line}: {where}{': ' if where else ''}{problem}"
