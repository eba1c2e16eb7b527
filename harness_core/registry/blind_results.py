"""The result of a blind comparison as a run in MLflow."""

from harness_core.evaluation.blind import BlindResult
from harness_core.registry.side_runs import SideRun

KIND = "blind"


def as_side_run(result: BlindResult) -> SideRun:
    """A run with the figures by criterion and the sentences; equal judgements give one run."""
    columns = ("n_controller", "n_agent", "n_equal", "share", "low", "high", "p_value", "n_tasks")
    lines = [f"- {sentence}" for sentence in result.words]
    lines += ["", f"| criterion | {' | '.join(name.replace('_', ' ') for name in columns)} |"]
    lines.append(f"|{'---|' * (len(columns) + 1)}")
    for name, verdict in result.figures["criteria"].items():
        cells = " | ".join(_cell(verdict[column]) for column in columns)
        lines.append(f"| {name} | {cells} |")
    return SideRun(
        kind=KIND,
        key=result.key,
        params={name: result.figures[name] for name in ("seed", "n_pairs", "n_judges")},
        figures=result.figures,
        note="\n".join(lines),
    )


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3g}"
