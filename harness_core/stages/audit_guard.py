"""Whether the present weights passed their audit: without it no model is trained on them."""

import hashlib

from pydantic import ValidationError

from harness_core.errors import AuditFailed
from harness_core.rewards.config import RewardConfig
from harness_core.stages.dag import Workspace, report_path
from harness_core.stages.report import StageReport


def scheme_digest(rewards: RewardConfig) -> str:
    """What names a scheme of rewards in the report of its audit."""
    return hashlib.sha256(rewards.model_dump_json().encode()).hexdigest()


def refuse_unaudited(rewards: RewardConfig, workspace: Workspace) -> None:
    """Stop unless the last audit passed, and looked at these rewards.

    Raises:
        AuditFailed: it did not pass, it looked at others, or there was none.
    """
    path = workspace.path(report_path("audit"))
    try:
        figures = StageReport.read(path).figures
    except (FileNotFoundError, ValidationError) as error:
        raise AuditFailed(
            f"{path} is missing or cannot be read: nothing is trained on rewards that did not pass "
            "an audit; run `harness audit rewards`"
        ) from error
    if not figures.get("passed"):
        raise AuditFailed(f"{path}: the audit did not pass; run `harness audit rewards`")
    if figures.get("scheme") != scheme_digest(rewards):
        raise AuditFailed(
            f"{path}: another section `rewards` was audited than the one to train on; run "
            "`harness audit rewards` with the same parameters"
        )
