"""Ablations of how training goes: curriculum, old beside new logs, a fine-tuned encoder.

Everything is judged out of fold, on random subsets of one size, the same for all rows. Where there
are several settings, the row `chosen` takes in each fold the setting that did best on the
validation tasks outside it: no row was picked on the tasks that it is reported on. Differences are
to the first row, paired, with whole tasks resampled.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from benchmarks.selection.arms import Arm, Material, train_arm
from benchmarks.selection.cut_features import pack_under
from benchmarks.selection.pack import Pack
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import Doubles, gap_closed, json_ready
from harness_core.evaluation.selection import ORACLE, RANDOM, judge
from harness_core.evaluation.subsets import draw_subsets
from harness_core.features.batch import DecisionGroup
from harness_core.features.config import FinetuneConfig, LoraConfig
from harness_core.learners.config import (
    CurriculumConfig,
    CurriculumStage,
    ReplayConfig,
)
from harness_core.learners.order import facts_of
from harness_core.learners.sampling import entering_shares

Row = dict[str, Any]
CHOSEN: Final = "chosen on inner tasks"
_OLD, _NEW = "old", "new"
_NEW_SHARE: Final = 0.3
"""Share of tasks that arrive later, where a pack has one family only."""
_EVERY_TEXT: Final = 1_000_000
_FINETUNE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "last_layers": None,
        "lora": None,
        "n_folds": 2,
        "max_texts": 4000,
        "n_updates": 80,
        "n_groups": 4,
        "group_size": 6,
        "learning_rate": 0.0002,
        "head_learning_rate": 0.01,
        "weight_decay": 0.01,
        "pairwise_weight": 1.0,
        "accelerator": "auto",
        "seed": 0,
    }
)
FINETUNED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "last layer": {**_FINETUNE, "last_layers": 1},
        "lora of rank 8": {
            **_FINETUNE,
            "learning_rate": 0.001,
            "lora": LoraConfig(rank=8, alpha=16, dropout=0.0),
        },
    }
)
PUBLISHED: Final = "encoder as published"
ENCODERS: Final[Mapping[str, Mapping[str, Any] | None]] = MappingProxyType(
    {PUBLISHED: None, **FINETUNED}
)
CURRICULA: Final[Mapping[str, CurriculumConfig]] = MappingProxyType(
    {
        "half of the tasks first": CurriculumConfig(
            stages=(CurriculumStage(until=0.3, task_share=0.5),)
        ),
        "three stages": CurriculumConfig(
            stages=(
                CurriculumStage(until=0.2, task_share=0.34),
                CurriculumStage(until=0.4, task_share=0.67),
            )
        ),
    }
)
OLD_SHARES: Final = (0.3, 0.8)


def curriculum(material: Material, seed: int) -> list[Row]:
    """All families from the start, or simple and common ones first."""
    pack = material.pack
    arms = {"no curriculum": material.plain(seed)}
    for name, schedule in CURRICULA.items():
        arms[name] = train_arm(pack, seed, heads=material.heads(seed), curriculum=schedule)
    return _rows(pack.groups, _with_choice(arms), pack, seed)


def old_and_new(material: Material, seed: int) -> list[Row]:
    """Every log alike, or a set share of each batch from old ones, when new ones have come in.

    New is the family that comes last in the order of the curriculum; of one family alone, tasks by
    lot. Rows are given for all tasks and for those of either age.
    """
    pack, sources = _aged(material.pack)
    arms = {"all logs alike": material.plain(seed)}
    for share in OLD_SHARES:
        replay = ReplayConfig(old_share=share, old_sources=(_OLD,))
        arms[f"old share {share}"] = train_arm(
            pack, seed, heads=material.heads(seed), sources=sources, replay=replay
        )
    compared = _with_choice(arms)
    rows = _rows(pack.groups, compared, pack, seed)
    for age in (_OLD, _NEW):
        part = [group for group in pack.groups if group.source == age]
        rows += [
            {**row, "name": f"{row['name']}, {age} tasks"}
            for row in _rows(part, compared, pack, seed)
        ]
    return rows


def finetuning(material: Material, seed: int) -> list[Row]:
    """Texts encoded as published, or by an encoder that learnt from outcomes of tasks set aside.

    All rows are judged on tasks whose outcomes no encoder saw. The critic learns from the tasks
    that were set aside too, or (`…, apart`) from the others alone.
    """
    packs, spent_s = {}, {}
    for name, settings in ENCODERS.items():
        started = time.perf_counter()
        packs[name] = _encoded(material, settings)
        spent_s[name] = time.perf_counter() - started
    seen = {task for pack in packs.values() for task in pack.schema.encoder_tasks}
    rest = {name: _without(pack, seen) for name, pack in packs.items()}
    named = []
    for name, pack in packs.items():
        judged = rest[name].groups
        for label, learnt_from in ((name, pack), (f"{name}, apart", rest[name])):
            arm = train_arm(learnt_from, seed, judged=judged)
            named.append((label, replace(arm, wall_s=arm.wall_s + spent_s[name]), judged))
    return _compare(named, material.pack, seed)


ABLATIONS: Final[Mapping[str, Callable[[Material, int], list[Row]]]] = MappingProxyType(
    {"curriculum": curriculum, "old_and_new": old_and_new, "finetuning": finetuning}
)


def _encoded(material: Material, finetune: Mapping[str, Any] | None) -> Pack:
    """The pack with every text encoded, whatever their number."""
    settings = None if finetune is None else FinetuneConfig(**finetune)
    config = material.pack.params.features
    encoder = config.encoder.model_copy(update={"max_texts": _EVERY_TEXT, "finetune": settings})
    return pack_under(
        material.pack, material.workspace, config.model_copy(update={"encoder": encoder})
    )


def _without(pack: Pack, tasks: set[str]) -> Pack:
    return replace(pack, groups=tuple(g for g in pack.groups if g.task_id not in tasks))


def _with_choice(arms: Mapping[str, Arm]) -> dict[str, Arm]:
    """The arms, and the one that takes in each fold what did best on inner tasks."""
    every = list(arms.values())
    folds = range(len(every[0].validation_auc))
    # Of equals the first, which is the one without the thing in question.
    best = [every[int(np.argmax([arm.validation_auc[fold] for arm in every]))] for fold in folds]
    chosen = Arm(
        models={fold: best[fold].models[fold] for fold in folds},
        validation_auc=tuple(best[fold].validation_auc[fold] for fold in folds),
        wall_s=sum(arm.wall_s for arm in every),
    )
    return {**arms, CHOSEN: chosen}


def _rows(
    groups: Sequence[DecisionGroup], arms: Mapping[str, Arm], pack: Pack, seed: int
) -> list[Row]:
    return _compare([(name, arm, groups) for name, arm in arms.items()], pack, seed)


def _compare(
    arms: Sequence[tuple[str, Arm, Sequence[DecisionGroup]]], pack: Pack, seed: int
) -> list[Row]:
    """One row an arm; the groups of all hold the same candidates, maybe with other features."""
    evaluation = pack.params.evaluation
    bootstrap = Bootstrap(
        n_resamples=evaluation.n_resamples, confidence=evaluation.confidence, seed=seed
    )
    size = _size(arms[0][2], evaluation.group_sizes, evaluation.headline_size)
    rows: list[Row] = []
    first: tuple[Doubles, Doubles] | None = None
    for name, arm, groups in arms:
        subsets = draw_subsets(groups, size=size, n_subsets=evaluation.n_subsets, seed=seed)
        outcomes = judge(subsets, {name: arm.judged.controller})
        tasks, values = outcomes.by_task(
            np.stack([outcomes.column(column) for column in (name, RANDOM, ORACLE)], axis=1)
        )
        samples = gap_closed(*np.moveaxis(bootstrap.means(values), 1, 0))
        gap = gap_closed(*values.mean(axis=0))
        first = first or (gap, samples)
        interval = bootstrap.interval(samples)
        difference = bootstrap.interval(samples - first[1])
        rows.append(
            json_ready(
                {
                    "name": name,
                    "k": size,
                    "n_tasks": len(tasks),
                    "success": values[:, 0].mean(),
                    "gap_closed": float(gap),
                    "interval": list(interval),
                    "difference": float(gap - first[0]),
                    "difference_interval": list(difference),
                    "validation_auc": float(np.mean(arm.validation_auc)),
                    "wall_s": round(arm.wall_s, 1),
                }
            )
        )
    return rows


def _size(groups: Sequence[DecisionGroup], sizes: Sequence[int], most: int) -> int:
    """The largest K up to the headline's that at least half of the groups offer."""
    enough = [
        size
        for size in sizes
        if size <= most and 2 * sum(group.size >= size for group in groups) >= len(groups)
    ]
    return max(enough, default=1)


def _aged(pack: Pack) -> tuple[Pack, Any]:
    """The pack as if its last family had come later; source of each transition."""
    enters = entering_shares(facts_of(pack.groups))
    last = max(enters.values())
    tasks = sorted(enters)
    if last > 0:
        new = {task for task in tasks if enters[task] == last}
    else:
        new = {task for task in tasks if _place(task) < _NEW_SHARE}
    groups = tuple(
        replace(group, source=_NEW if group.task_id in new else _OLD) for group in pack.groups
    )
    sources = np.where(np.isin(pack.transitions.task_id, sorted(new)), _NEW, _OLD)
    return replace(pack, groups=groups), sources


def _place(task: str) -> float:
    digest = hashlib.sha256(task.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64
