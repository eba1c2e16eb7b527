"""ATIF in and out, against the models of the `atif` package and its real files."""

import copy

import atif
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.importers.atif import write_atif
from harness_core.importers.atif_document import read_document
from harness_core.importers.chat import canonical_json
from harness_core.importers.json_difference import difference, patched
from harness_core.trajectories.schema import Provenance
from tests.importers.conftest import ReadFolder
from tests.importers.golden.regenerate import GOLDEN

PROVENANCE = Provenance(importer="atif", source="test", path="a.json", source_sha256="0", line=1)
GOLDEN_FILE = GOLDEN / "atif" / "logs" / "trajectory.json"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "set", "change"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.fixture
def document():
    return orjson.loads(GOLDEN_FILE.read_bytes())


@pytest.fixture
def read_one(tmp_path, read_folder: ReadFolder):
    def read(document):
        (tmp_path / "trajectory.json").write_bytes(orjson.dumps(document))
        return read_folder("atif", tmp_path)

    return read


def assert_same_document(written, document):
    assert written | {"schema_version": ""} == document | {"schema_version": ""}
    assert written["schema_version"] == "ATIF-v1.8"
    atif.Trajectory.model_validate(written)


def test_a_document_comes_back_as_it_was(document):
    assert_same_document(write_atif(read_document(document, PROVENANCE)), document)


def test_real_documents_come_back_as_they_were(data_packs):
    files = sorted((data_packs / "formats" / "atif").rglob("*.json"))
    documents = [orjson.loads(file.read_bytes()) for file in files if ".traces." not in file.name]
    assert len(documents) == 10
    for document in documents:
        trajectory = read_document(document, PROVENANCE)
        assert_same_document(write_atif(trajectory), document)
        assert read_document(write_atif(trajectory), PROVENANCE) == trajectory


def test_38_copied_steps_are_not_told_again_and_not_lost(document):
    trajectory = read_document(document, PROVENANCE)
    texts = [step.action.text for step in trajectory.steps]
    assert "An older answer." not in texts
    written = write_atif(trajectory)
    assert [step.get("is_copied_context") for step in written["steps"]].count(True) == 1


def test_a_later_change_of_ours_is_written_into_their_document(document):
    trajectory = read_document(document, PROVENANCE)
    step = trajectory.steps[0].model_copy(update={"decision_id": "d-1"})
    changed = trajectory.model_copy(update={"steps": (step, *trajectory.steps[1:])})
    written = write_atif(changed)
    assert written["steps"][3]["extra"]["controller"] == {"decision_id": "d-1"}
    assert written["steps"][3]["tool_calls"] == document["steps"][3]["tool_calls"]
    assert read_document(written, PROVENANCE).steps[0].decision_id == "d-1"


@pytest.mark.parametrize("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_all_versions_are_read(read_one, document, version):
    imported = read_one(document | {"schema_version": version})
    assert len(imported.trajectories) == 1
    assert not imported.tally.warnings


def test_a_bare_version_is_read_with_a_warning(read_one, document):
    assert read_one(document | {"schema_version": "1.4"}).tally.warnings == {"A-BARE-VERSION": 1}


def drop_steps(document):
    document["steps"] = document["steps"][:2]


def gap(document):
    document["steps"][2]["step_id"] = 9


def no_agent(document):
    del document["agent"]


def no_message(document):
    del document["steps"][3]["message"]


def future(document):
    document["schema_version"] = "ATIF-v2.0"


@pytest.mark.parametrize(
    ("damage", "rule_id", "field"),
    [
        (future, "A-VERSION", "schema_version"),
        (gap, "A-STEP-ID", "steps"),
        (drop_steps, "A-NO-STEPS", "steps"),
        (no_agent, "S-SCHEMA", "agent"),
        (no_message, "S-SCHEMA", "steps.3.message"),
    ],
)
def test_29_31_a_damaged_document_is_rejected(read_one, document, damage, rule_id, field):
    damaged = copy.deepcopy(document)
    damage(damaged)
    (reject,) = read_one(damaged).rejects
    assert (reject.rule_id, reject.field) == (rule_id, field)


def test_37_a_result_without_its_call_is_counted(read_one, document):
    document["steps"][3]["observation"]["results"][0]["source_call_id"] = "elsewhere"
    assert read_one(document).tally.warnings == {"A-CALL-ID": 1}


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(old=JSON, new=JSON)
def test_a_difference_leads_from_old_to_new_and_survives_json(old, new):
    change = difference(old, new)
    before = copy.deepcopy(old)
    after = patched(old, orjson.loads(orjson.dumps(change)))
    assert canonical_json(after) == canonical_json(new)
    assert old == before
    assert (change is None) == (canonical_json(old) == canonical_json(new))
