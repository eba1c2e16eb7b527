"""The section of `docs/results.md` on interventions: tables by log from `harness bench actions`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from benchmarks.results_words import (
    Figures,
    as_interval,
    as_points,
    as_share,
    markdown_table,
    spaced,
)

_BUDGET: Final = "budget_"


def actions_section(figures: Figures) -> list[str]:
    """Accept or retry, stop or continue, prune, and policies, by log."""
    lines = [
        (
            "`@` says how many attempts or steps that took on average; differences are in points of"
            " success. Thresholds that judge a fold are set on the others."
        ),
        "",
    ]
    for name, log in figures["logs"].items():
        lines += [
            f"### {name}: {log['n_runs']} runs at {log['n_tasks']} tasks",
            "",
            f"AUC of −steps {as_share(log['auc_of_minus_steps'], 2)}"
            + (
                ": how attempts ended gives the outcome away, read with care."
                if log.get("inflated")
                else "."
            ),
            "",
        ]
        for part, table in _PARTS.items():
            found = log.get(part)
            if found:
                lines += [*table(found), ""]
    return lines[:-1]


def _accept_or_retry(found: Figures) -> list[str]:
    if "not_measured" in found:
        return _not_measured("accept or retry", found)
    budgets = [name for name in found if name.startswith(_BUDGET)]
    rules = list(found[budgets[0]]) if budgets else []
    rows = [
        [spaced(rule), *(_at(found[budget].get(rule), "attempts") for budget in budgets)]
        for rule in rules
    ]
    fixed = found["fixed_k"]
    largest = list(fixed)[-1]
    single = [
        ["one attempt", _estimate(found["random_single"]), "1", ""],
        [f"all {largest} attempts", _estimate(fixed[largest]), largest, ""],
        *(
            [
                name,
                _estimate(found[key]["success"]),
                _mean(found[key]["attempts"], 2),
                _difference(found[key]["minus_fixed_k"]),
            ]
            for key, name in (
                ("visible_passes_stop", "stops at the first visible pass"),
                ("within_tolerance", "controller, at most half a point lost elsewhere"),
                ("oracle_stop", "oracle stop"),
            )
            if key in found
        ),
    ]
    heads = [f"about {budget.removeprefix(_BUDGET)} attempts" for budget in budgets]
    title = f"**Accept or retry** ({found['n_tasks']} tasks, up to {found['n_attempts']} attempts)"
    return [
        title,
        "",
        *markdown_table(["", "success", "attempts", f"against all {largest}"], single),
        "",
        *markdown_table(["success @ attempts", *heads], rows),
    ]


def _stop_or_continue(found: Figures) -> list[str]:
    if "not_measured" in found:
        return _not_measured("stop or continue", found)
    rows = [
        [
            spaced(name),
            _estimate(rule["success"]),
            _mean(rule["steps"], 2),
            _difference(rule["minus_logged_stop"]),
        ]
        for name, rule in found["rules"].items()
    ]
    inflated = "; the log's own stop knew the outcome" if found.get("inflated") else ""
    return [
        (
            f"**Stop or continue** ({found['n_runs']} runs of more than one step, "
            f"{found['n_tasks']} tasks; labels: {found['label']}{inflated})"
        ),
        "",
        *markdown_table(["", "success", "steps", "against the log's stop"], rows),
    ]


def _prune(found: Figures) -> list[str]:
    rows: list[list[str]] = []
    for step, row in found.items():
        if "not_measured" in row:
            rows.append([step, row["not_measured"], "", "", "", ""])
            continue
        auc = row["within_task_auc"]
        rows += [
            [
                step,
                f"{row['k']} ({row['n_tasks']})",
                spaced(name),
                as_share(auc.get(name)),
                _estimate(kept["success"]),
                _difference(kept["minus_agent_prior"]),
            ]
            for name, kept in row["kept"].items()
        ]
    head = ["after step", "K (tasks)", "kept by", "AUC within tasks", "success", "against prior"]
    return ["**Prune** running attempts to one of K", "", *markdown_table(head, rows)]


def _policies(found: Figures) -> list[str]:
    if "not_measured" in found:
        return _not_measured("policies", found)
    rows = [
        [
            spaced(name),
            _estimate(policy["agreement"]),
            _own_runs(policy["runs_it_would_have_made"]),
            _points_within(policy["runs_it_would_have_made"]["within_task_difference"]),
            _off_policy(policy.get("off_policy", {})),
        ]
        for name, policy in found["policies"].items()
    ]
    head = [
        *("", "agreement with the log", "its runs: success (n), others"),
        *("difference within tasks", "off-policy success"),
    ]
    return ["**Policies** of interventions", "", *markdown_table(head, rows)]


_PARTS: Final = {
    "accept_or_retry": _accept_or_retry,
    "stop_or_continue": _stop_or_continue,
    "prune": _prune,
    "policies": _policies,
}


def _not_measured(part: str, found: Figures) -> list[str]:
    return [f"**{part.capitalize()}**: {found['not_measured']}."]


def _at(rule: Figures | None, unit: str) -> str:
    if rule is None:
        return ""
    return f"{_mean(rule['success'])} @ {_mean(rule[unit], 2)}"


def _mean(found: Any, digits: int = 3) -> str:
    return as_share(found["mean"] if isinstance(found, Mapping) else found, digits)


def _estimate(found: Figures) -> str:
    if not isinstance(found, Mapping):
        return as_share(found)
    return f"{_mean(found)} {as_interval([found['low'], found['high']], 3)}".strip()


def _difference(found: Figures | None) -> str:
    if found is None or found.get("value") is None:
        return ""
    return f"{as_points(found['value'])} {as_interval([found['low'], found['high']], 1, scale=100)}"


def _points_within(found: Any) -> str:
    return _difference(found) if isinstance(found, Mapping) else ""


def _own_runs(found: Figures) -> str:
    return (
        f"{as_share(found['success'])} ({found['n_runs']}), {as_share(found['success_of_others'])}"
    )


def _off_policy(found: Figures) -> str:
    if not found:
        return ""
    if "not_estimated" in found:
        return str(found["not_estimated"])
    ends: Iterable[float] = (found["low"], found["high"])
    return f"{as_share(found['success'])} {as_interval(list(ends), 3)}"
