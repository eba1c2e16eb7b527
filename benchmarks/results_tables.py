"""Sections of `docs/results.md` other than selection, each from the JSON of one command."""

from collections.abc import Mapping

from benchmarks.results_words import (
    Figures,
    as_interval,
    as_percent,
    as_points,
    as_verdict,
    markdown_table,
    spaced,
)

_CHOSEN = "chosen on inner tasks"  # the name of a row that only some studies have


def closed_loop_section(figures: Figures) -> list[str]:
    """First passes without and with the controller, guidance, and dangers filtered."""
    first = figures["first_pass"]["all"]
    rows = [
        [
            spaced(name),
            (
                f"{as_percent(found['value'])} "
                f"{as_interval([found['low'], found['high']], 1, scale=100)}"
            ),
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
        *markdown_table(["first passes", "%"], rows),
        "",
        (
            f"- gain {as_points(gain['value'])} points "
            f"{as_interval([gain['low'], gain['high']], 1, scale=100)}; goal +25: "
            f"{as_verdict(goals['gain']['reached'])}"
        ),
        (
            f"- share of the oracle {as_percent(figures['share_of_oracle']['value'])} %; "
            f"goal 90 %: {as_verdict(goals['share_of_oracle']['reached'])}"
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
            spaced(name),
            (
                f"{as_percent(found['value'])} "
                f"{as_interval([found['low'], found['high']], 1, scale=100)}"
            ),
        ]
        for part in ("first_pass", "gain")
        for name, found in guidance[part].items()
    ]
    return markdown_table([f"guidance, {guidance['n_templates']} templates", "% or points"], rows)


def demo_section(figures: Figures) -> list[str]:
    """First answers alone, behind the proxy, and after learning from the decisions there."""
    ways = {
        "alone": "alone",
        "proxy": "behind the proxy",
        "proxy_again": "after learning from its own decisions",
    }
    rates, dangers = figures["first_pass"], figures["n_dangerous"]
    promoted = "was promoted" if figures["promoted"] else "was not promoted"
    return [
        *markdown_table(
            ["", *ways.values()],
            [
                ["first answers right", *(f"{as_percent(rates[way])} %" for way in ways)],
                ["dangerous first answers", *(str(dangers[way]) for way in ways)],
            ],
        ),
        "",
        (
            f"{figures['n_answers']} answers to {figures['n_tasks']} tasks that no controller "
            f"learns from. The second one learnt from {figures['n_decisions_learnt_from']} "
            f"decisions besides; it {promoted}."
        ),
    ]


def choices_section(figures: Figures) -> list[str]:
    """Each way to train beside the default, study by study."""
    studies = figures["studies"]
    names = {row["name"] for packs in studies.values() for rows in packs.values() for row in rows}
    lines = ["The first row of each is the default; differences are to it, in the gap closed."]
    if _CHOSEN in names:
        lines[0] += f" The row `{_CHOSEN}` takes in each fold what did best outside it."
    lines.append("")
    for study, packs in studies.items():
        for pack, rows in packs.items():
            shown = [
                [
                    row["name"],
                    f"{row['success']:.3f}",
                    f"{row['gap_closed']:.3f}",
                    f"{row['difference']:+.3f} {as_interval(row['difference_interval'], 3)}",
                    f"{row['validation_auc']:.3f}",
                    f"{row['wall_s']:.0f}",
                ]
                for row in rows
            ]
            head = f"**{spaced(study)}, {pack}, K = {rows[0]['k']}, {rows[0]['n_tasks']} tasks**"
            columns = ["", "success", "gap closed", "difference", "inner AUC", "s"]
            lines += [head, "", *markdown_table(columns, shown), ""]
    return lines[:-1]


def distil_section(figures: Figures) -> list[str]:
    """Gap closed by teacher and student, by pack."""
    rows = [
        [
            pack,
            ", ".join(spaced(name) for name in found["transformer"]) or "none",
            ", ".join(map(str, row["sizes"] if "sizes" in row else [row["size"]])),
            str(row["n_tasks"]),
            *(f"{row['gap_closed'][side]:.3f}" for side in ("teacher", "student")),
            f"{row['gap_lost']:.3f} {as_interval(row['gap_lost_interval'], 3)}",
            f"{found['likeness']['same_pick']:.2f}",
        ]
        for pack, found in figures["packs"].items()
        for row in (found["overall"], found["headline"])
    ]
    columns = [
        *("pack", "texts through the transformer", "K", "tasks", "teacher", "student"),
        *("lost", "same pick"),
    ]
    return markdown_table(columns, rows)
