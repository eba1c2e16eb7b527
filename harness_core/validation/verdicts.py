"""What the data gate found: one verdict an expectation, and the sentences made of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from harness_core.records import Record

_DOMINANT_SHARE: Final = 0.99


class ExpectationVerdict(Record):
    """How one expectation fared on one table."""

    table: str
    expectation: str
    """Name of the expectation in Great Expectations."""
    column: str | None
    """The fact that was checked; None for an expectation on the whole table."""
    meaning: str
    """What should hold, as a sentence without its full stop."""
    severity: Literal["critical", "warning", "info"]
    passed: bool
    n_rows: int | None
    n_unexpected: int | None
    """Rows that break it; None where a figure of the whole column was checked."""
    observed: float | None
    """That figure."""
    examples: tuple[str, ...]
    """Ids of a few rows that break it."""

    @property
    def sentence(self) -> str:
        """What is wrong, where, and an id to look at."""
        name = f"{self.expectation} on {self.column}" if self.column else self.expectation
        if self.n_unexpected is None:
            return f"{self.table}: {self.meaning}, but found {self.observed:.4g} ({name})"
        example = f", for example {self.examples[0]}" if self.examples else ""
        return (
            f"{self.table}: {self.meaning}; {self.n_unexpected} of {self.n_rows} rows break this"
            f"{example} ({name})"
        )


def critical_failures(verdicts: Iterable[ExpectationVerdict]) -> list[ExpectationVerdict]:
    """The failures that stop the run."""
    return [item for item in verdicts if not item.passed and item.severity == "critical"]


def warnings_of(verdicts: Iterable[ExpectationVerdict]) -> list[str]:
    """The failures that do not stop the run, as sentences."""
    return [item.sentence for item in verdicts if not item.passed and item.severity != "critical"]


def oddities(trajectories: pa.Table) -> list[str]:
    """What is odd about the logs as a whole, though no single row is wrong."""
    return [*_one_agent(trajectories), *_one_outcome(trajectories)]


def _one_agent(trajectories: pa.Table) -> Iterable[str]:
    agents = Counter(
        zip(trajectories["agent_name"].to_pylist(), trajectories["model"].to_pylist(), strict=True)
    )
    if len(agents) < 2:  # noqa: PLR2004  # logs of a single agent are usual; an odd mix is not
        return
    (name, model), n = agents.most_common(1)[0]
    if n > _DOMINANT_SHARE * trajectories.num_rows:
        agent = f"{name} {model}".strip()
        yield (
            f"trajectories: {n} of {trajectories.num_rows} runs are of one agent, {agent}; the "
            f"other {len(agents) - 1} will hardly count"
        )


def _one_outcome(trajectories: pa.Table) -> Iterable[str]:
    outcomes = pc.coalesce(
        pc.cast(trajectories["success"], pa.float64()), trajectories["score"]
    ).drop_null()
    if len(outcomes) > 1 and len(pc.unique(outcomes)) == 1:
        yield (
            f"trajectories: all {len(outcomes)} logged outcomes are {outcomes[0].as_py():g}; there "
            "is nothing to learn from them unless hidden checks say otherwise"
        )
