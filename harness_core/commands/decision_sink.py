"""Where decisions of a proxy are kept: its decision log, and spans where they are asked for."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness_core.errors import ParameterError
from harness_core.serving.decision_log import DecisionLog
from harness_core.serving.outcomes import report_outcome
from harness_core.serving.spans import DecisionTracer, TraceTarget, open_tracer
from harness_core.stages.dag import Workspace
from harness_core.stages.register import STORE
from harness_core.trajectories.decision_log import LogEntry


class DecisionSinks:
    """The decision log and the tracer, as far as they are wanted."""

    def __init__(self, log: DecisionLog | None, tracer: DecisionTracer | None) -> None:
        self.log = log
        self._tracer = tracer

    def append(self, entry: LogEntry) -> None:
        """Log an entry and trace a decision.

        Raises:
            DecisionLogError: it was not logged.
        """
        if self._tracer is not None and entry.record == "decision":
            self._tracer.record(entry)
        if self.log is not None:
            self.log.append(entry)

    def close(self) -> None:
        """End both; once more does nothing."""
        if self.log is not None:
            self.log.close()
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.close()

    def report(self, decision_id: str, **values: Any) -> Any:
        """Log an outcome."""
        assert self.log is not None  # only then the route is there
        return report_outcome(self.log, decision_id, **values)


@contextlib.contextmanager
def open_sink(
    folder: Path | None, trace: str | None, workspace: Workspace
) -> Iterator[DecisionSinks]:
    """Open what is wanted, and close it at the end.

    Args:
        folder: of the decision log; None for none.
        trace: `mlflow`, `otlp` or None for no spans.
        workspace: whose MLflow store takes the spans.

    Raises:
        ParameterError: there is no such way to trace, or its package is not installed.
        DecisionLogError: the folder cannot be written to.
        RegistryError: MLflow refused.
    """
    tracer: DecisionTracer | None = None
    if trace is not None:
        if trace not in {"mlflow", "otlp"}:
            raise ParameterError(f"--trace {trace}: expected mlflow or otlp")
        target: TraceTarget = "mlflow" if trace == "mlflow" else "otlp"
        tracer = open_tracer(target, store=workspace.path(STORE))
    sink = DecisionSinks(None if folder is None else DecisionLog(folder), tracer)
    try:
        yield sink
    finally:
        sink.close()
