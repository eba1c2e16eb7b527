"""The file of guidance templates, the situations they are legal in, and what records say."""

from pathlib import Path

import pytest

from harness_core.errors import ParameterError
from harness_core.trajectories.guidance import (
    Guided,
    Tried,
    guidance_of,
    with_guidance,
    without_guidance,
)
from harness_core.trajectories.guidance_library import (
    GuidanceLibrary,
    Situation,
    load_library,
    situations_of,
)

HEAD = "version: 1\ntemplates:\n"
ONE = HEAD + "  - id: a\n    when: after_error\n    text: Think.\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "guidance.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_templates_are_legal_where_they_make_sense(project_root: Path):
    library = load_library(project_root / "guidance.yaml")
    first = {item.id for item in library.legal(situations_of([]))}
    later = {item.id for item in library.legal(frozenset({Situation.AFTER_FAILED_CHECKS}))}
    assert "be-quick" in first - later
    assert {"follow-the-check", "start-over"} <= later - first
    assert "edge-cases" in first & later
    assert all(library.text_of(name) for name in library.ids)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Input should be"),
        ("version: 2\ntemplates: []\n", "line 1: version: Input should be 1 .found 2"),
        ("version: 1\ntemplate: []\n", "line 2: template: unknown; there are version, templates"),
        (ONE + "    weight: 3\n", "line 6: templates.0.weight: unknown; there are id, when, text"),
        (ONE.replace("after_error", "[later, never]"), "line 4: templates.0.when.1: .*after_error"),
        (ONE.replace("id: a", "id: A b"), "line 3: templates.0.id: String should match"),
        (ONE.replace("Think.", "''"), "line 5: templates.0.text: .*at least 1 character"),
        (ONE + "    text: More.\n", "line 6: the key 'text' stands twice"),
        (ONE + "  - id: a\n    text: b\n", "the id 'a' is taken; give every one its own"),
        (HEAD + "  - {id: a, text: [\n", "is not YAML"),
        (HEAD + "  - 1: a\n", "keys must be texts"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_line_and_reason(tmp_path: Path, text, message):
    with pytest.raises(ParameterError, match=message) as caught:
        load_library(write(tmp_path, text))
    assert "guidance.yaml" in str(caught.value)


def test_a_missing_file_says_what_to_do(tmp_path: Path):
    with pytest.raises(ParameterError, match="does not exist; copy the one that ships"):
        load_library(tmp_path / "guidance.yaml")


def test_a_template_without_conditions_is_always_legal(tmp_path: Path):
    library = load_library(write(tmp_path, ONE + "  - {id: b, text: Always.}\n"))
    assert [item.id for item in library.legal(situations_of([]))] == ["b"]
    assert [item.id for item in library.legal(frozenset({Situation.AFTER_ERROR}))] == ["a", "b"]
    assert GuidanceLibrary(version=1, templates=()).legal(situations_of([])) == ()


@pytest.mark.parametrize(
    ("result", "is_error", "expected"),
    [
        ("2 of 2 tests passed", None, set()),
        ("1 of 2 tests passed\n1/2 visible checks passed; assert f(1) failed", None, {"checks"}),
        ("0/3 visible checks passed; SyntaxError: no", None, {"checks", "error"}),
        ("Tested module:\nassert f(2) == 1 # failed", False, {"checks"}),
        ("AssertionError: 3 != 4", None, {"checks"}),
        ("Traceback (most recent call last): ZeroDivisionError", None, {"error"}),
        ("no such table", True, {"error"}),
        ("[1, 2, 3]", None, set()),
    ],
)
def test_what_came_back_tells_the_situation(result, is_error, expected):
    words = {"checks": Situation.AFTER_FAILED_CHECKS, "error": Situation.AFTER_ERROR}
    found = situations_of([Tried("a", result, is_error)])
    assert found == {Situation.LATER, *(words[name] for name in expected)}


def test_the_same_action_again_is_a_repeat_even_if_not_at_once():
    once = [Tried("a", ""), Tried("b", "")]
    assert Situation.AFTER_REPEAT not in situations_of(once)
    assert Situation.AFTER_REPEAT in situations_of([*once, Tried("a", "")])


def test_an_action_keeps_what_it_is_whatever_it_was_proposed_under():
    own = {"name": "search", "arguments": {"guidance": "x"}}
    guided = Guided(id="a", propensity=0.25)
    told = with_guidance(own, guided)
    assert guidance_of(told) == guided
    assert without_guidance(told) == own
    assert with_guidance(own, None) == own
    assert guidance_of(own) is None


@pytest.mark.parametrize(
    "found", [None, "fast", {}, {"id": "a"}, {"id": "a", "propensity": 0.0}, {"id": 3}]
)
def test_an_argument_of_the_same_name_is_left_alone(found):
    arguments = {"guidance": found}
    assert guidance_of(arguments) is None
    assert without_guidance(arguments) == arguments
