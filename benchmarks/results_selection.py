"""The section on selection of `docs/results.md`, from the JSON of its command."""

from collections.abc import Mapping
from typing import Final

from benchmarks.results_words import (
    Figures,
    as_gain,
    as_interval,
    as_points,
    as_share,
    as_verdict,
    markdown_table,
    spaced,
)

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
    header = ["pack", "tasks", "K", "random", *map(spaced, _BESIDE), "controller", "oracle"]
    header += ["gap closed", "over prior", "best", "steps"]
    return markdown_table(header, [_overview_row(name, pack) for name, pack in packs.items()])


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
        as_share(table["random"]),
        *(as_share(methods.get(method, {}).get("success")) for method in _BESIDE),
        f"**{as_share(ours.get('success'))}**",
        as_share(table["oracle"]),
        f"{as_share(ours.get('gap_closed'), 2)} {as_interval(ours.get('gap_interval'), 2)}",
        as_gain(methods.get("agent_prior", {})),
        best if best == "controller" else f"{spaced(best)} {as_share(methods[best]['success'])}",
        as_share(pack["diagnosis"]["steps_auc"]["mean"], 2),
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
                    f"{as_share(found['gap_closed'], 2)} {as_interval(found['gap_interval'], 2)}",
                    as_verdict(found["gap_closed"] >= goal),
                ]
            )
    if "codet" in packs:
        rows += [_never_below_codet(packs["codet"]["k"])]
    if "ldb" in packs:
        rows += [
            [
                f"ldb over the agent prior at K = {size}",
                "interval above 0",
                as_gain(table["methods"]["agent_prior"]),
                as_verdict(table["methods"]["agent_prior"]["gain_interval"][0] > 0),
            ]
            for size, table in packs["ldb"]["k"].items()
        ]
    running = packs.get("mint_alfworld", {}).get("running") or {}
    rows += [
        [
            f"alfworld, AUC of running attempts after step {step}",
            f"≥ {goal}",
            as_share(running[step]["auc"], 3),
            as_verdict(running[step]["auc"] >= goal),
        ]
        for step, goal in _RUNNING_GOALS
        if step in running
    ]
    return markdown_table(["what", "goal", "found", ""], rows)


def _never_below_codet(by_size: Figures) -> list[str]:
    gains = {size: table["methods"]["codet"] for size, table in by_size.items()}
    found = ", ".join(f"K = {size}: {as_gain(gain)}" for size, gain in gains.items())
    is_reached = all(gain["controller_gains"] >= 0 for gain in gains.values())
    return ["codet, gain over CodeT at every K", "never below 0", found, as_verdict(is_reached)]


def _pack(pack: Figures) -> list[str]:
    sizes = list(pack["k"])
    tables = {**{f"K = {size}": pack["k"][size] for size in sizes}, "all": pack["all"]}
    methods = {name: None for table in tables.values() for name in table["methods"]}
    header = ["", *tables, "AUC within tasks", "fit, s"]
    rows = [
        ["random", *(as_share(table["random"]) for table in tables.values()), "", ""],
        *(_method_row(name, pack, tables) for name in methods),
        ["oracle", *(as_share(table["oracle"]) for table in tables.values()), "", ""],
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
        left = ", ".join(f"{spaced(name)} ({why})" for name, why in pack["not_shown"].items())
        notes.append(f"Not shown: {left}.")
    return [" ".join([facts, *notes]), "", *markdown_table(header, rows)]


def _method_row(name: str, pack: Figures, tables: Mapping[str, Figures]) -> list[str]:
    cells = []
    for table in tables.values():
        found = table["methods"].get(name)
        cells.append(
            ""
            if found is None
            else f"{as_share(found['success'])} ({as_share(found['gap_closed'], 2)})"
        )
    auc = pack["diagnosis"]["methods"].get(name, {}).get("within_task_auc", {}).get("mean")
    word = f"**{spaced(name)}**" if name == "controller" else spaced(name)
    return [word, *cells, as_share(auc), f"{pack['seconds'].get(name, 0):.1f}"]


def _ablations(studies: Figures) -> list[str]:
    rows = [
        [
            name,
            row["name"],
            str(row["k"]),
            as_share(row["success"]),
            as_share(row["gap_closed"], 2),
            f"{as_points(row['difference'])} {as_interval(row['interval'], 1, scale=100)}",
        ]
        for name, found in studies.items()
        for study in found.values()
        for row in study
    ]
    return markdown_table(["pack", "", "K", "success", "gap closed", "points gained"], rows)


def _mixing(rows: Figures) -> list[str]:
    return markdown_table(
        ["pack", "K", "tasks", "random", "alone", "together", "oracle", "together gains, points"],
        [
            [name, "", "", "", "", "", "", row["left_out"]]
            if "left_out" in row
            else [
                name,
                str(row["k"]),
                str(row["n_tasks"]),
                *(as_share(row[key]) for key in ("random", "alone", "together", "oracle")),
                (
                    f"{as_points(row['together_gains'])} "
                    f"{as_interval(row['gain_interval'], 1, scale=100)}"
                ),
            ]
            for name, row in rows.items()
        ],
    )
