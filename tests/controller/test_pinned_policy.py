"""A model decides under the tool policy that it was trained under, not under that of the day."""

import pytest

from harness_core.controller.controller import Controller
from harness_core.controller.decision import Reason
from harness_core.controller.manifest import (
    POLICY_FILE,
    file_digests,
    read_manifest,
    write_manifest,
)
from harness_core.errors import ModelError
from harness_core.stages.dag import CANDIDATE_MODEL
from tests.stages.small_run import finished_run

STATE = {"description": "Help the customer.", "language": "tools"}
CALLS = [{"text": '{"name": "delete_user", "arguments": {}}'}]
POLICY = """
version: 1
default: allow
rules:
  - {id: no-deletes, tool: "delete_*", effect: deny}
"""


def test_the_policy_of_the_model_folder_decides_and_an_old_model_has_none(tmp_path, params) -> None:
    folder = finished_run(tmp_path, params).path(CANDIDATE_MODEL)
    assert Controller.load(folder).select(STATE, CALLS).chosen_index == 0
    manifest = read_manifest(folder)
    (folder / POLICY_FILE).write_text(POLICY)
    with pytest.raises(ModelError, match=POLICY_FILE):
        Controller.load(folder)  # nobody signed for this file
    write_manifest(folder, manifest.model_copy(update={"files": file_digests(folder)}))
    decision = Controller.load(folder).select(STATE, CALLS)
    assert decision.reason is Reason.ALL_FILTERED
    assert decision.filtered[0].rules == ("policy:no-deletes",)
