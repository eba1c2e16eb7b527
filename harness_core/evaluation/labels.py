"""What selectors and figures are called in front of people."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SELECTORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "selected": "Controller",
        "oracle": "Oracle (best possible)",
        "random": "Random",
        "first": "First attempt",
        "taken": "What the agent took",
        "shortest": "Shortest",
        "longest": "Longest",
        "fewest_steps": "Fewest steps",
        "majority": "Majority of behaviour",
        "visible_checks": "Visible checks",
        "generated_checks": "Generated checks",
        "codet": "CodeT",
        "agreement": "Output agreement",
        "agent_prior": "Agent prior",
        "prior_plus_agreement": "Prior + agreement",
        "boosted_trees": "Boosted trees",
    }
)


def selector_label(name: str) -> str:
    """The name of a selector for people."""
    return SELECTORS.get(name, name)


def is_known(value: float | None) -> bool:
    """False for null, NaN and infinities: nothing that can be shown as a number."""
    return value is not None and math.isfinite(value)


def percent(value: float | None, digits: int = 0) -> str:
    """A share for people."""
    return "unknown" if value is None or not is_known(value) else f"{100 * value:.{digits}f} %"


def percent_interval(low: float | None, high: float | None) -> str:
    """An interval of shares, in percent."""
    if low is None or high is None or not (is_known(low) and is_known(high)):
        return ""
    return f"[{_zero(100 * low, 0)}, {_zero(100 * high, 0)}]"


def points(value: float | None, low: float | None, high: float | None) -> str:
    """A difference of shares in percentage points, with its interval."""
    if value is None or not is_known(value):
        return "unknown"
    shown = f"{_signed(100 * value)} points"
    if low is None or high is None or not (is_known(low) and is_known(high)):
        return f"{shown} (no interval)"
    return f"{shown} [{_signed(100 * low)}, {_signed(100 * high)}]"


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def _zero(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
