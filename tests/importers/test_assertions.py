import pytest

from harness_core.importers.assertions import hidden_checks, model_written, top_level_names


def test_asserts_are_counted_after_normalisation():
    texts = ["f(1)==2\nassert f( 2 ) == 'x', \"why\"\n", ' f(2) == "x"\n', "f(1) == 2 # twice\n"]
    assert model_written(texts, "f", limit=9) == ("assert f(1) == 2", "assert f(2) == 'x'")


def test_the_limit_keeps_the_most_frequent():
    assert model_written(["f(1)\nassert f(2)", "f(2)"], "f", limit=1) == ("assert f(2)",)


@pytest.mark.parametrize(
    "text",
    [
        "g(1) == 2",
        "f == 2",
        "f(1) ==",
        "f(x) == 1",
        "f(___) == 1",
        "f(\n1) == 1",
        "f(1) == 1\x00",
        "f(" * 300 + ")" * 300,
        "f(9) == " + "9" * 5000,
    ],
)
def test_what_is_no_single_line_assert_about_the_function_is_left_out(text: str):
    assert model_written([text], "f", limit=9) == ()


def test_bound_names_and_the_names_of_the_prompt_may_be_used():
    texts = ["all(f(i) for i in range(3))\nassert f(g(1)) == 1\nassert f(key=lambda v: v)"]
    assert len(model_written(texts, "f", names={"g"}, limit=9)) == 3


def test_plain_asserts_of_a_test_program_are_single_checks():
    program = "\ndef check(candidate):\n    assert f(1) == 2\n    assert f(2) == 3\ncheck(f)\n"
    assert hidden_checks(program, "f") == ("assert f(1) == 2", "assert f(2) == 3")


@pytest.mark.parametrize(
    "program",
    [
        "def check(candidate):\n    assert candidate(1) == 2\n",
        "import math\n\ndef check(candidate):\n    assert f(1) == math.pi\n",
        "def check(candidate):\n    for i in range(3):\n        assert f(i) == i\n",
        "def check(candidate:\n",
    ],
)
def test_a_program_that_does_more_is_one_check(program: str):
    assert hidden_checks(program, "f") == (program,)


def test_the_call_of_check_is_cut_off():
    program = "def check(candidate):\n    assert candidate(1)\ncheck(f)\n"
    assert hidden_checks(program, "f") == ("def check(candidate):\n    assert candidate(1)\n",)


def test_top_level_names_are_definitions_and_imports():
    program = "import os.path as p, re\nfrom math import pi\ndef f(): ...\nclass C: ...\nx = 1\n"
    assert top_level_names(program) == {"p", "re", "pi", "f", "C"}
