"""Sections of `docs/results.md`, each from the JSON of one command."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Figures = Mapping[str, Any]

_HEADLINES: Final = (8, 4, 2)
"""K of the table over all packs: the first that a pack offers."""
_BESIDE: Final = (
    *("agent_prior", "prior_plus_agreement", "codet", "logistic", "trees_set_rank", "iql_value"),
)
"""Methods of the table over all packs; the tables by pack have all."""
_GOALS: Final = (
    ("codet", 8, 0.58),
    ("codet", 16, 0.50),
    ("codet", 50, 0.42),
    ("sql", 4, 0.70),
    ("sql", 8, 0.78),
)
_CANDIDATES: Final = {"complete": "complete attempts", "first_answer": "first answers"}
_RUNNING_GOALS: Final = (("1", 0.83), ("2", 0.86))


def selection_section(figures: Figures) -> list[str]:
    """Tables over packs, by pack, of ablations and of mixing."""
    packs = figures["packs"]
    lines = [
        f"Data: {', '.join(f'{name} {digest}' for name, digest in figures['data'].items())}.",
        "",
        (
            "Success of the pick among K random candidates, every task weighing the same; in"
            " brackets the gap closed between random and oracle. `steps` is the AUC of −steps:"
            " above 0.6 how attempts ended gives the outcome away."
        ),
        "",
        *_overview(packs),
        "",
        "### Goals",
        "",
        *_goals(packs),
    ]
    for name, pack in packs.items():
        lines += ["", f"### {name}", "", *_pack(pack)]
    if figures["ablations"]:
        lines += ["", "### What each part is worth", "", *_ablations(figures["ablations"])]
    if figures["mixing"]:
        lines += ["", "### Learning from several packs together", "", *_mixing(figures["mixing"])]
    return lines


def _overview(packs: Figures) -> list[str]:
    header = ["pack", "tasks", "K", "random", *map(_word, _BESIDE), "controller", "oracle"]
    header += ["gap closed", "over prior", "best", "steps"]
    return _table(header, [_overview_row(name, pack) for name, pack in packs.items()])


def _overview_row(name: str, pack: Figures) -> list[str]:
    size = next((str(k) for k in _HEADLINES if str(k) in pack["k"]), None)
    table = pack["all"] if size is None else pack["k"][size]
    methods = table["methods"]
    ours = methods.get("controller", {})
    best = max(methods, key=lambda method: methods[method]["success"])
    return [
        f"{name}{' ¹' if pack['caveat'] else ''}",
        str(table["n_tasks"]),
        size or "all",
        _share(table["random"]),
        *(_share(methods.get(method, {}).get("success")) for method in _BESIDE),
        f"**{_share(ours.get('success'))}**",
        _share(table["oracle"]),
        f"{_share(ours.get('gap_closed'), 2)} {_interval(ours.get('gap_interval'), 2)}",
        _gain(methods.get("agent_prior", {})),
        best if best == "controller" else f"{_word(best)} {_share(methods[best]['success'])}",
        _share(pack["diagnosis"]["steps_auc"]["mean"], 2),
    ]


def _goals(packs: Figures) -> list[str]:
    rows = []
    for name, size, goal in _GOALS:
        table = packs.get(name, {}).get("k", {}).get(str(size))
        if table is not None:
            found = table["methods"]["controller"]
            rows.append(
                [
                    f"{name}, gap closed at K = {size}",
                    f"≥ {goal}",
                    f"{_share(found['gap_closed'], 2)} {_interval(found['gap_interval'], 2)}",
                    _reached(found["gap_closed"] >= goal),
                ]
            )
    if "codet" in packs:
        rows += [_never_below_codet(packs["codet"]["k"])]
    if "ldb" in packs:
        rows += [
            [
                f"ldb over the agent prior at K = {size}",
                "interval above 0",
                _gain(table["methods"]["agent_prior"]),
                _reached(table["methods"]["agent_prior"]["gain_interval"][0] > 0),
            ]
            for size, table in packs["ldb"]["k"].items()
        ]
    running = packs.get("mint_alfworld", {}).get("running") or {}
    rows += [
        [
            f"alfworld, AUC of running attempts after step {step}",
            f"≥ {goal}",
            _share(running[step]["auc"], 3),
            _reached(running[step]["auc"] >= goal),
        ]
        for step, goal in _RUNNING_GOALS
        if step in running
    ]
    return _table(["what", "goal", "found", ""], rows)


def _never_below_codet(by_size: Figures) -> list[str]:
    gains = {size: table["methods"]["codet"] for size, table in by_size.items()}
    found = ", ".join(f"K = {size}: {_gain(gain)}" for size, gain in gains.items())
    is_reached = all(gain["controller_gains"] >= 0 for gain in gains.values())
    return ["codet, gain over CodeT at every K", "never below 0", found, _reached(is_reached)]


def _pack(pack: Figures) -> list[str]:
    sizes = list(pack["k"])
    tables = {**{f"K = {size}": pack["k"][size] for size in sizes}, "all": pack["all"]}
    methods = {name: None for table in tables.values() for name in table["methods"]}
    header = ["", *tables, "AUC within tasks", "fit, s"]
    rows = [
        ["random", *(_share(table["random"]) for table in tables.values()), "", ""],
        *(_method_row(name, pack, tables) for name in methods),
        ["oracle", *(_share(table["oracle"]) for table in tables.values()), "", ""],
    ]
    facts = (
        f"{pack['n_attempts']} attempts at {pack['n_tasks']} tasks, {pack['n_tasks_with_choice']} "
        f"with a choice; candidates are {_CANDIDATES[pack['attempts']]}."
    )
    notes = [pack["caveat"].capitalize() + "."] if pack["caveat"] else []
    if pack.get("running"):
        told = ", ".join(
            f"after step {step} {found['auc']:.3f} ({found['n_tasks']} tasks)"
            for step, found in pack["running"].items()
        )
        notes.append(f"AUC of attempts that still run: {told}.")
    if pack["not_shown"]:
        left = ", ".join(f"{_word(name)} ({why})" for name, why in pack["not_shown"].items())
        notes.append(f"Not shown: {left}.")
    return [" ".join([facts, *notes]), "", *_table(header, rows)]


def _method_row(name: str, pack: Figures, tables: Mapping[str, Figures]) -> list[str]:
    cells = []
    for table in tables.values():
        found = table["methods"].get(name)
        cells.append(
            ""
            if found is None
            else f"{_share(found['success'])} ({_share(found['gap_closed'], 2)})"
        )
    auc = pack["diagnosis"]["methods"].get(name, {}).get("within_task_auc", {}).get("mean")
    word = f"**{_word(name)}**" if name == "controller" else _word(name)
    return [word, *cells, _share(auc), f"{pack['seconds'].get(name, 0):.1f}"]


def _ablations(studies: Figures) -> list[str]:
    rows = [
        [
            name,
            row["name"],
            str(row["k"]),
            _share(row["success"]),
            _share(row["gap_closed"], 2),
            f"{_points(row['difference'])} {_interval(row['interval'], 1, scale=100)}",
        ]
        for name, found in studies.items()
        for study in found.values()
        for row in study
    ]
    return _table(["pack", "", "K", "success", "gap closed", "points gained"], rows)


def _mixing(rows: Figures) -> list[str]:
    return _table(
        ["pack", "K", "tasks", "random", "alone", "together", "oracle", "together gains, points"],
        [
            [name, "", "", "", "", "", "", row["left_out"]]
            if "left_out" in row
            else [
                name,
                str(row["k"]),
                str(row["n_tasks"]),
                *(_share(row[key]) for key in ("random", "alone", "together", "oracle")),
                f"{_points(row['together_gains'])} {_interval(row['gain_interval'], 1, scale=100)}",
            ]
            for name, row in rows.items()
        ],
    )


def actions_section(figures: Figures) -> list[str]:
    """Accept or retry, stop or continue, prune, and policies, by pack."""
    lines: list[str] = []
    for name, log in figures["logs"].items():
        lines += [f"### {name}", ""]
        if log.get("inflated"):
            lines += ["How attempts ended gives the outcome away here: read with care.", ""]
        for part, rows in _leaves(log).items():
            lines += [f"**{part.replace('_', ' ')}**", "", *_table(["", "found"], rows), ""]
    return lines


def closed_loop_section(figures: Figures) -> list[str]:
    """First passes without and with the controller, guidance, and dangers filtered."""
    first = figures["first_pass"]["all"]
    rows = [
        [
            _word(name),
            f"{_percent(found['value'])} {_interval([found['low'], found['high']], 1, scale=100)}",
        ]
        for name, found in first.items()
        if isinstance(found, Mapping)
    ]
    goals, danger, corpus = figures["goals"], figures["danger"], figures["corpus"]
    gain = figures["controller_minus"]["without"]
    lines = [
        (
            f"The agent is simulated. {first['n_tasks']} held-out tasks, "
            f"{len(figures['seeds'])} seeds, K = {figures['k']}."
        ),
        "",
        *_table(["first passes", "%"], rows),
        "",
        (
            f"- gain {_points(gain['value'])} points "
            f"{_interval([gain['low'], gain['high']], 1, scale=100)}; goal +25: "
            f"{_reached(goals['gain']['reached'])}"
        ),
        (
            f"- share of the oracle {_percent(figures['share_of_oracle']['value'])} %; goal 90 %: "
            f"{_reached(goals['share_of_oracle']['reached'])}"
        ),
        (
            f"- dangerous proposals filtered: {danger['n_dangerous_filtered']} of "
            f"{danger['n_dangerous']}; corpus: {corpus['n_filtered']} of {corpus['n_dangerous']}, "
            f"{corpus['n_false_filtered']} false of {corpus['n_harmless']}"
        ),
    ]
    guidance = figures.get("guidance")
    if guidance:
        lines += ["", *_guidance(guidance)]
    return lines


def _guidance(guidance: Figures) -> list[str]:
    rows = [
        [
            _word(name),
            f"{_percent(found['value'])} {_interval([found['low'], found['high']], 1, scale=100)}",
        ]
        for part in ("first_pass", "gain")
        for name, found in guidance[part].items()
    ]
    return _table([f"guidance, {guidance['n_templates']} templates", "% or points"], rows)


def score_section(figures: Figures) -> list[str]:
    """Milliseconds of a decision by model and sort of request."""
    rows = [
        [model, _word(sort), f"{found['p50']:.1f}", f"{found['p95']:.1f}"]
        for model, sorts in figures["ms"].items()
        for sort, found in sorts.items()
        if isinstance(found, Mapping) and "p50" in found
    ]
    goals = [[name, *_flat(goal)] for name, goal in figures["goals"].items()]
    return [
        *_table(["model", "request", "p50, ms", "p95, ms"], rows),
        "",
        *_table(["goal", "found"], [[name, ", ".join(rest)] for name, *rest in goals]),
    ]


def encode_section(figures: Figures) -> list[str]:
    """Texts a second and fidelity of every way to encode."""
    return _generic(figures)


def train_section(figures: Figures) -> list[str]:
    """Updates a second beside peers, time to quality, memory."""
    return _generic(figures)


def rewards_section(figures: Figures) -> list[str]:
    """Candidates a second, graded by us and by peers."""
    return _generic(figures)


def _generic(figures: Figures) -> list[str]:
    lines: list[str] = []
    for part, rows in _leaves(figures).items():
        if part != "machine":
            lines += [f"**{part.replace('_', ' ')}**", "", *_table(["", "found"], rows), ""]
    return lines[:-1]


def _leaves(figures: Figures) -> dict[str, list[list[str]]]:
    """Top-level key → rows of path and value; plain values come together under `run`."""
    parts: dict[str, list[list[str]]] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping) and value:
            parts[name] = [[path, shown] for path, shown in _paths(value)]
        elif value not in ({}, []):
            parts.setdefault("run", []).append([_word(name), _shown(value)])
    return parts


def _paths(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, item in value.items():
        path = f"{prefix}{_word(str(name))}"
        if isinstance(item, Mapping) and _is_estimate(item):
            yield path, _estimate(item)
        elif isinstance(item, Mapping):
            yield from _paths(item, f"{path} · ")
        else:
            yield path, _shown(item)


def _is_estimate(item: Mapping[str, Any]) -> bool:
    return {"low", "high"} <= item.keys() and ("value" in item or "mean" in item)


def _estimate(item: Mapping[str, Any]) -> str:
    value = item.get("value", item.get("mean"))
    return f"{_shown(value)} {_interval([item['low'], item['high']], 3)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return _reached(value)
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"  # noqa: PLR2004
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return "" if value is None else str(value)


def _flat(goal: Any) -> list[str]:
    if isinstance(goal, Mapping):
        return [f"{_word(str(name))} {_shown(value)}" for name, value in goal.items()]
    return [_shown(goal)]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _word(name: str) -> str:
    return name.replace("_", " ")


def _share(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _interval(ends: Sequence[float | None] | None, digits: int, *, scale: float = 1.0) -> str:
    if ends is None or any(end is None for end in ends):
        return ""
    shown = ", ".join(f"{scale * end:.{digits}f}" for end in ends if end is not None)
    return f"[{shown}]".replace("-", "−")


def _gain(found: Figures) -> str:
    if "controller_gains" not in found:
        return ""
    return f"{_points(found['controller_gains'])} {_interval(found['gain_interval'], 1, scale=100)}"


def _reached(is_reached: bool) -> str:  # noqa: FBT001  # one word for one flag
    return "reached" if is_reached else "missed"
