"""The verb `calibrate`: trains small critics under several reward weights and shows their picks.

No stage of the table: nothing is built on it. It asks before a long training whether the policy
that some weights lead to is too clever, and leaves a run in the tracker with table and plot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import orjson

from harness_core.errors import NoDataError
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.config import PRESENT
from harness_core.evaluation.metrics import json_ready
from harness_core.evaluation.plots import render
from harness_core.evaluation.subsets import Subset
from harness_core.evaluation.sweep_report import NO_GOAL, as_markdown, draw_sweep, readings
from harness_core.evaluation.weight_sweep import (
    DANGEROUS,
    EARNED,
    SUCCESS,
    Facts,
    Objective,
    Picks,
    beside,
    choices,
    describe,
    differing,
    mean_of,
    too_clever,
)
from harness_core.features.batch import Floats
from harness_core.params import Params
from harness_core.registry.lineage import Attachment
from harness_core.registry.side_runs import SideRun
from harness_core.rewards.table import COMPONENTS
from harness_core.stages.calibrate_fits import Trained, train_settings
from harness_core.stages.calibrate_tables import (
    TEXT_FACTS,
    SmallPart,
    read_small_part,
    text_facts,
)
from harness_core.stages.dag import Workspace
from harness_core.stages.register import record_side_run
from harness_core.tables import combine_digests, publish_bytes
from harness_core.trajectories.vocabulary import GroupKind

KIND: Final = "calibrate"

_FOLDER: Final = "data/reports/calibration"
_METRICS: Final = (
    *(SUCCESS, "dangerous_unfiltered", "visible_rate", "clean", "lines", "excess_lines"),
    *("differs", "success_gain", "earned_gain"),
)

Row = dict[str, Any]


def run(params: Params, workspace: Workspace) -> dict[str, Any]:
    """Sweep the weights, publish table and plot, and record them as a run of their own.

    Raises:
        NoDataError: a table is missing (the message names the stage to run), or the small part
            offers no choice.
    """
    result = sweep(params, workspace)
    folder = workspace.path(_FOLDER)
    table = as_markdown(result)
    content = orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    publish_bytes(folder / "calibration.json", content)
    publish_bytes(folder / "calibration.md", table.encode())
    publish_bytes(folder / "calibration.png", render(draw_sweep, result, form="png"))
    side_run = SideRun(
        kind=KIND,
        key=_key(params, content),
        params=params.model_dump(mode="json"),
        figures=_metrics(result),
        note=table,
        attachments=[Attachment(path=folder)],
    )
    return {**result, **record_side_run(params.registry, workspace, side_run)}


def _key(params: Params, content: bytes) -> str:
    """The same parameters with the same result are one run."""
    parts = [("params", params.model_dump_json()), ("result", content.hex())]
    return combine_digests(parts)[:32]


def _metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    """Means by setting, of complete attempts if there is a choice of them."""
    part = result[GroupKind.ATTEMPT.value] or result[GroupKind.STEP.value]
    return {
        name: {fact: row[fact]["value"] for fact in _METRICS if row.get(fact)}
        for name, row in part["rows"].items()
    }


def sweep(params: Params, workspace: Workspace) -> dict[str, Any]:
    """Train under every setting, and describe what is picked, as plain JSON values.

    Raises:
        NoDataError: a table is missing (the message names the stage to run), or the small part
            offers no choice.
    """
    config = params.calibration
    part = read_small_part(config, workspace)
    facts = text_facts(part, params.rewards, workspace)
    bootstrap = Bootstrap(
        n_resamples=params.evaluation.n_resamples,
        confidence=params.evaluation.confidence,
        seed=params.evaluation.seed,
    )
    offered = {
        kind: choices(
            part.groups,
            kind=kind,
            size=config.group_size,
            n_subsets=params.evaluation.n_subsets,
            seed=config.seed,
        )
        for kind in GroupKind
    }
    if not any(offered.values()):
        raise NoDataError(
            "no task of the small part has two candidates with known outcomes; raise "
            "calibration.task_share or bring logs with several attempts a task"
        )
    trained = train_settings(part, params, workspace)
    result: dict[str, Any] = {
        "n_tasks": len({group.task_id for group in part.groups}),
        "n_development_tasks": part.n_development_tasks,
        "group_size": config.group_size,
        "settings": {
            item.name: {
                "gate_process": item.rewards.gate_process,
                "weights": item.rewards.weights.model_dump(),
            }
            for item in trained
        },
        "never_paid": [
            name
            for name, column in zip(COMPONENTS, part.arrays.rewards.T, strict=True)
            if np.isnan(column).all()
        ],
        **{
            kind.value: _describe(
                _Choices(
                    kind=kind,
                    subsets=offered[kind],
                    part=part,
                    facts=facts,
                    bootstrap=bootstrap,
                ),
                trained,
            )
            for kind in GroupKind
        },
    }
    ready: dict[str, Any] = json_ready(result)
    return {**ready, "readings": readings(ready)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choices:
    """Everything that is offered of one kind of candidates."""

    kind: GroupKind
    subsets: Sequence[Subset]
    part: SmallPart
    facts: Facts
    bootstrap: Bootstrap

    def picks(self, scores: Sequence[Floats]) -> Picks:
        """The picks of the highest scores."""
        return Picks.of(self.subsets, scores, self.facts)

    def row(self, picks: Picks, unfiltered: Picks) -> Row:
        """Facts of some picks; `unfiltered` are the same without the hard filter."""
        return {
            **describe(picks, TEXT_FACTS, self.bootstrap),
            "dangerous_unfiltered": mean_of(unfiltered.by_task(DANGEROUS), self.bootstrap),
        }


def _describe(choices: _Choices, trained: Sequence[Trained]) -> dict[str, Any] | None:
    """What is picked among candidates of one kind; None where nothing can be chosen."""
    subsets = choices.subsets
    if not subsets:
        return None
    lots = [np.zeros(len(subset.index), dtype=np.float32) for subset in subsets]
    picked = {
        "random": choices.picks(lots),
        "oracle": choices.picks([subset.success for subset in subsets]),
    }
    unfiltered = dict(picked)
    if choices.kind is GroupKind.ATTEMPT:
        # Success head and second stage know no weights: any setting's would do.
        judged = trained[0].judged
        picked[NO_GOAL] = choices.picks(judged.controller(subsets))
        unfiltered[NO_GOAL] = choices.picks(judged.scores(subsets))
    for item in trained:
        objective = Objective(
            judged=item.judged,
            weights=item.rewards.weights.model_dump(),
            success_of=choices.part.success_of,
        )
        picked[item.name] = choices.picks(objective.scores(subsets))
        unfiltered[item.name] = choices.picks(objective.scores(subsets, filtered=False))
    rows = {name: choices.row(picks, unfiltered[name]) for name, picks in picked.items()}
    reference = NO_GOAL if NO_GOAL in picked else PRESENT
    for item in trained:
        picks, row = picked[item.name], rows[item.name]
        row["differs"] = mean_of(differing(picks, picked[PRESENT]), choices.bootstrap)
        row |= _gains(picks, picked[reference], item, choices.bootstrap)
        row["too_clever"] = too_clever(row)
    return {
        "n_tasks": len({subset.group.task_id for subset in subsets}),
        "n_groups": len({subset.group.group_id for subset in subsets}),
        "reference": reference,
        "rows": rows,
    }


def _gains(picks: Picks, reference: Picks, item: Trained, bootstrap: Bootstrap) -> Row:
    """Success of the picks, and what they earned under their own weights, beside the reference."""
    paid: Facts = {name: {EARNED: values} for name, values in item.earned.items()}
    own, others = replace(picks, facts=paid), replace(reference, facts=paid)
    known = all(subset.group.group_id in paid for subset in picks.subsets)
    return {
        "success_gain": beside(picks, reference, SUCCESS, bootstrap),
        "earned_gain": beside(own, others, EARNED, bootstrap) if known else None,
    }
