"""The one table of stages: what each reads, writes and depends on. `dvc.yaml` must agree."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RAW: Final = "data/raw"
QUARANTINE: Final = "data/quarantine"
TRAJECTORIES: Final = "data/interim/trajectories.parquet"
STEPS: Final = "data/interim/steps.parquet"
TASKS: Final = "data/interim/tasks.parquet"
REWARDS: Final = "data/interim/rewards.parquet"
TRANSITIONS: Final = "data/interim/transitions.parquet"
CANDIDATES: Final = "data/interim/candidates.parquet"
FEATURES: Final = "data/features"
CANDIDATE_MODEL: Final = "data/models/candidate"
FOLD_MODELS: Final = "data/models/folds"
CHAMPION_MODEL: Final = "data/models/champion"
STUDENT_MODEL: Final = "data/models/student"
REPORTS: Final = "data/reports"
DATA_DOCS: Final = "data/reports/data_docs"
EVALUATION: Final = "data/reports/evaluation.json"
VERDICT: Final = "data/reports/verdict.json"
HTML_REPORT: Final = "data/reports/report.html"
PLOTS: Final = "data/reports/plots"
LAST_RUN: Final = "data/reports/last_run.json"
AUDIT_TABLE: Final = "data/reports/audit_table.json"
POLICY: Final = "policy.yaml"
"""The tool policy: written by hand, like `params.yaml`, and no output of any stage."""
GUIDANCE: Final = "guidance.yaml"
"""The guidance templates, written by hand too."""

_INTERIM: Final = (TRAJECTORIES, STEPS, TASKS)


def report_path(stage: str) -> str:
    """Where a stage writes its report."""
    return f"{REPORTS}/{stage}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage. Paths are relative to the working folder."""

    deps: tuple[str, ...]
    outs: tuple[str, ...]
    params: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    """Small JSON outputs that DVC shows and does not cache."""
    plots: tuple[str, ...] = ()
    verb: str | None = None
    """What follows `harness` on the command line, where it is not the name of the stage."""
    registry_state: tuple[str, ...] = ()
    """Inputs that the registry owns: they count for freshness, but DVC does not track them."""


STAGES: Final[Mapping[str, StageSpec]] = {
    "sample": StageSpec(deps=(GUIDANCE,), outs=(f"{RAW}/sample",), params=("sample", "sandbox")),
    "ingest": StageSpec(
        deps=(RAW,),
        outs=(*_INTERIM, QUARANTINE),
        params=("ingest",),
        metrics=(report_path("ingest"),),
    ),
    "validate": StageSpec(
        deps=_INTERIM, outs=(), params=("validation",), metrics=(report_path("validate"),)
    ),
    "rewards": StageSpec(
        deps=(*_INTERIM, report_path("validate"), POLICY),
        outs=(REWARDS,),
        params=("rewards", "sandbox"),
        metrics=(report_path("rewards"),),
    ),
    "audit": StageSpec(
        deps=(TASKS, report_path("rewards")),
        outs=(AUDIT_TABLE,),
        params=("rewards", "sandbox"),
        metrics=(report_path("audit"),),
        verb="audit rewards",
    ),
    "transitions": StageSpec(
        deps=(*_INTERIM, REWARDS),
        outs=(TRANSITIONS, CANDIDATES),
        params=("transitions",),
        metrics=(report_path("transitions"),),
    ),
    "features": StageSpec(
        deps=(*_INTERIM, TRANSITIONS, CANDIDATES),
        outs=(FEATURES,),
        params=("features", "sandbox"),
        metrics=(report_path("features"),),
    ),
    "train": StageSpec(
        deps=(
            *(*_INTERIM, TRANSITIONS, CANDIDATES, FEATURES, POLICY, GUIDANCE),
            report_path("audit"),
        ),
        outs=(CANDIDATE_MODEL, FOLD_MODELS),
        params=("train", "rewards", "controller"),
        metrics=(report_path("train"),),
    ),
    "evaluate": StageSpec(
        deps=(CANDIDATES, FEATURES, CANDIDATE_MODEL, FOLD_MODELS),
        outs=(),
        params=("evaluation",),
        metrics=(EVALUATION, report_path("evaluate")),
        plots=(PLOTS,),
    ),
    "compare": StageSpec(
        deps=(*_INTERIM, CANDIDATES, FEATURES, CANDIDATE_MODEL, EVALUATION),
        outs=(HTML_REPORT,),
        params=("evaluation", "gate", "sandbox"),
        metrics=(VERDICT, report_path("compare")),
        registry_state=(CHAMPION_MODEL,),
    ),
}
"""In running order. `register` is no stage: it changes the world, so only the flow and the verb
`harness register` do it."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The working folder of a run: everything that it reads and writes lies below it."""

    root: Path
    shared_cache: Path | None = None
    """Cache of another working folder, for scratch folders that must not start cold."""

    def path(self, relative: str) -> Path:
        """Absolute path of a path of this table."""
        return self.root / relative

    @property
    def cache(self) -> Path:
        """Content-addressed caches (verdicts, embeddings), kept across runs."""
        return self.shared_cache or self.root / ".harness" / "cache"
