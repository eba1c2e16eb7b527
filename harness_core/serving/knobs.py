"""What a client may say of one request: headers `x-harness-*` and the key `harness` of the body."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import Field, ValidationError
from starlette.datastructures import Headers

from harness_core.records import Record
from harness_core.serving.config import K_LIMIT, MODES, ProxyConfig, ProxyMode
from harness_core.serving.refusals import Refusal
from harness_core.trajectories.vocabulary import Language

PREFIX: Final = "x-harness-"
BODY_KEY: Final = "harness"
_MAX_BUDGET_MS: Final = 60_000
_GUARDED: Final = ("filter", "rerank")
"""Modes in which the deny list holds."""


class HarnessFields(Record):
    """What the client knows of the state beyond the messages; never sent to the upstream."""

    task_id: str | None = Field(default=None, min_length=1)
    session_id: str | None = None
    language: Language | None = None
    description: str | None = None
    """The task, where it is not the first message of the user."""
    entry_point: str | None = None
    visible_checks: tuple[str, ...] = ()
    generated_checks: tuple[str, ...] = ()
    agent: dict[str, str] | None = None
    """`name` and `model`."""
    goal: dict[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How one request is to be served."""

    mode: ProxyMode
    k: int
    budget_s: float
    goal: dict[str, float] | None
    price: float | None
    """Of one more candidate; None asks for all K at once."""


def read_knobs(headers: Headers, config: ProxyConfig) -> Knobs:
    """What the headers say, and the configuration where they are silent.

    Raises:
        Refusal: a header is wrong, or asks for less protection than `--mode filter` promises.
    """
    mode = headers.get(f"{PREFIX}mode", config.mode)
    if mode not in MODES:
        raise _wrong("mode", f"expected one of {', '.join(MODES)}")
    if config.mode == "filter" and mode not in _GUARDED:
        raise Refusal(
            403,
            "mode_not_allowed",
            "This proxy filters every answer; x-harness-mode cannot switch that off.",
            param=f"{PREFIX}mode",
        )
    return Knobs(
        mode=mode,
        k=int(_number(headers, "k", config.k, low=1, high=K_LIMIT, whole=True)),
        budget_s=_number(headers, "budget-ms", config.budget_ms, low=1, high=_MAX_BUDGET_MS) / 1000,
        goal=_goal(headers),
        price=_price(headers, config),
    )


def read_fields(body: Mapping[str, Any]) -> HarnessFields:
    """What stands under `harness` in a body.

    Raises:
        Refusal: it has another shape.
    """
    value = body.get(BODY_KEY)
    if value is None:
        return HarnessFields()
    try:
        return HarnessFields.model_validate_json(orjson.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in (BODY_KEY, *first["loc"]))
        raise Refusal(400, "invalid_value", f"{where}: {first['msg']}", param=where) from error


def _number(
    headers: Headers, name: str, default: float, *, low: float, high: float, whole: bool = False
) -> float:
    text = headers.get(f"{PREFIX}{name}")
    if text is None:
        return default
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise _wrong(name, f"expected {kind} from {low} to {high}")
    return value


def _price(headers: Headers, config: ProxyConfig) -> float | None:
    default = config.candidate_price
    found = _number(headers, "candidate-price", -1.0 if default is None else default, low=0, high=1)
    return None if found < 0 else found


def _goal(headers: Headers) -> dict[str, float] | None:
    text = headers.get(f"{PREFIX}goal")
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict) or not all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in value.values()
    ):
        raise _wrong("goal", "expected a JSON object of component: weight")
    return {name: float(one) for name, one in value.items()}


def _wrong(name: str, message: str) -> Refusal:
    header = f"{PREFIX}{name}"
    return Refusal(400, "invalid_value", f"{header}: {message}.", param=header)
