"""What a replay changes, as a table for people."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table


def as_table(result: Mapping[str, Any]) -> Table:
    """One line a figure, before and after."""
    table = Table(box=box.MARKDOWN)
    for name in ("", "before", "after"):
        table.add_column(name, justify="left" if not name else "right")
    n = result["n_replayed"]
    table.add_row("decisions", str(result["n_decisions"]), str(n))
    table.add_row("picks changed", "", f"{result['n_picks_changed']} of {n}")
    for words, key in (("stood aside", "abstained"), ("filtered", "candidates_filtered")):
        table.add_row(words, *(str(result[key][side]) for side in ("before", "after")))
    expected, risk = result["expected_success"], result["risk"]
    table.add_row(
        f"expected success of what is answered (both known: {expected['n_known']})",
        *(_share(expected[side]) for side in ("before", "after")),
    )
    table.add_row(
        f"mean risk of accepted picks (of {risk['n_before']}, of {risk['n_after']})",
        *(_share(risk[side]) for side in ("before", "after")),
    )
    tokens = result["completion_tokens"]
    table.add_row(
        "completion tokens (estimated)", *(_number(tokens[side]) for side in ("before", "after"))
    )
    reported = result["reported_success"]
    table.add_row(
        f"reported success ({reported['n_reported']}, same answer {reported['n_same_answer']})",
        _share(reported["rate"]),
        _share(reported["rate_same_answer"]),
    )
    return table


def notes(result: Mapping[str, Any]) -> list[str]:
    """What else has to be said, a sentence each."""
    said = [] if result["promise"] is None else [result["promise"]]
    if said and result["n_programs_not_run"]:
        said.append(
            f"Programs were not run in {result['n_programs_not_run']} decisions, and the model was "
            "calibrated on programs that were: nothing is promised there."
        )
    risk, max_risk = result["risk"]["after"], result["settings"]["max_risk"]
    if said and risk is not None and risk > max_risk:
        said.append(
            f"The model itself expects {100 * risk:.0f} % of the accepted picks to fail: these "
            "decisions are not like those of calibration, and the promise does not carry over."
        )
    said += [f"Not decided: {n}, {reason}." for reason, n in result["skipped"].items()]
    unlike = result["n_other_scores"]
    if unlike:
        said.append(
            f"The same model now gives other scores in {unlike} decisions: programs were run then "
            "and not now, or now and not then (`harness proxy --run-programs`)."
        )
    damaged = result["damaged_lines"]
    if damaged:
        said.append(f"Lines that cannot be read: {result['n_damaged_lines']}, as {damaged[0]}.")
    return said


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f}"
