"""How often an agent succeeds: an estimate from other tasks than the one at hand.

This is the only place of `features` where labels are read, and only labels of *other* tasks count:
a development task of fold f gets the estimate from development tasks outside fold f, a task of the
frozen slice (and any task at run time) the estimate from all development tasks.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from harness_core.features.contents import AgentKey
from harness_core.records import Record
from harness_core.trajectories.vocabulary import GroupKind, Split

ALL_DEVELOPMENT: Final = -1
"""Key of the estimate from all development tasks; also the fold of the frozen slice."""

_UNINFORMED: Final = 0.5
_LABEL_COLUMNS: Final = ("kind", "task_id", "source", "split", "fold", "agent_name", "model")


class AgentRate(Record):
    """Smoothed success rate of one agent; `source` is empty for the rate over all sources."""

    source: str
    name: str
    model: str
    rate: float


class PriorTable(Record):
    """The estimate for one fold, from the most to the least specific."""

    agents: tuple[AgentRate, ...]
    sources: dict[str, float]
    overall: float


class AgentPriors(Record):
    """One table a fold, and one from all development tasks (`ALL_DEVELOPMENT`)."""

    tables: dict[int, PriorTable]

    def lookup(self, fold: int) -> Mapping[AgentKey, float]:
        """Rates as a mapping; ask it through `rate_of`. An unknown fold uses all tasks."""
        table = self.tables.get(fold, self.tables[ALL_DEVELOPMENT])
        rates = {AgentKey(item.source, item.name, item.model): item.rate for item in table.agents}
        rates.update({AgentKey(name, "", ""): rate for name, rate in table.sources.items()})
        rates[AgentKey("", "", "")] = table.overall
        return rates


def rate_of(agent: AgentKey, rates: Mapping[AgentKey, float]) -> float:
    """Rate of an agent in its source, else anywhere, else the mean of its source, else of all."""
    keys = (
        agent,
        agent._replace(source=""),
        AgentKey(agent.source, "", ""),
        AgentKey("", "", ""),
    )
    return next(rates[key] for key in keys if key in rates)


def fit_priors(candidates: pa.Table, *, strength: float) -> AgentPriors:
    """Estimate rates from the labelled attempts at development tasks.

    `strength` is the number of pseudo-attempts that pull a rate towards the mean of all agents.
    """
    labels = list(_labels(candidates))
    folds = sorted({label.fold for label in labels})
    outside = {fold: [label for label in labels if label.fold != fold] for fold in folds}
    return AgentPriors(
        tables={
            fold: _fit(part, strength=strength)
            for fold, part in [(ALL_DEVELOPMENT, labels), *outside.items()]
        }
    )


class _Label(NamedTuple):
    agent: AgentKey
    fold: int
    success: float


def _labels(candidates: pa.Table) -> Iterable[_Label]:
    for row in candidates.select([*_LABEL_COLUMNS, "success"]).to_pylist():
        is_development = row["kind"] == GroupKind.ATTEMPT and row["split"] != Split.TEST
        if is_development and row["success"] is not None:
            agent = AgentKey(row["source"], row["agent_name"], row["model"])
            yield _Label(agent, row["fold"], row["success"])


def _fit(labels: list[_Label], *, strength: float) -> PriorTable:
    overall = sum(label.success for label in labels) / len(labels) if labels else _UNINFORMED
    by_agent: dict[AgentKey, list[float]] = defaultdict(list)
    by_source: dict[str, list[float]] = defaultdict(list)
    for label in labels:
        by_agent[label.agent].append(label.success)
        by_agent[label.agent._replace(source="")].append(label.success)
        by_source[label.agent.source].append(label.success)
    sources = {name: _smooth(by_source[name], overall, strength) for name in sorted(by_source)}
    agents = tuple(
        AgentRate(
            source=agent.source,
            name=agent.name,
            model=agent.model,
            rate=_smooth(by_agent[agent], sources.get(agent.source, overall), strength),
        )
        for agent in sorted(by_agent)
    )
    return PriorTable(agents=agents, sources=sources, overall=overall)


def _smooth(values: list[float], mean: float, strength: float) -> float:
    return (sum(values) + strength * mean) / (len(values) + strength)
