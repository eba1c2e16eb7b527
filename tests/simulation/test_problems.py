import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from harness_core.errors import DataError, NoDataError
from harness_core.rewards.style import clean_programs
from harness_core.simulation.environment import Environment, Submission
from harness_core.simulation.problems import Problem, load_problems


def test_there_are_enough_problems_in_enough_families(problems: tuple[Problem, ...]):
    families = Counter(problem.family for problem in problems)
    assert len(problems) >= 64
    assert len(families) >= 8
    assert min(families.values()) >= 6


def test_ids_name_the_family_and_the_function(problems: tuple[Problem, ...]):
    assert all(item.id == f"{item.family}/{item.entry_point}" for item in problems)


def test_names_and_statements_are_unique(problems: tuple[Problem, ...]):
    for name in ("id", "entry_point", "statement"):
        assert len({getattr(problem, name) for problem in problems}) == len(problems)


def test_every_difficulty_occurs_in_most_families(problems: tuple[Problem, ...]):
    pairs = {(problem.family, problem.difficulty) for problem in problems}
    assert len(pairs) >= 24


def test_checks_compare_one_call_with_a_literal(problems: tuple[Problem, ...]):
    for problem in problems:
        for check in (*problem.visible_checks, *problem.hidden_checks):
            (statement,) = ast.parse(check).body
            assert isinstance(statement, ast.Assert)
            comparison = statement.test
            assert isinstance(comparison, ast.Compare)
            call, (literal,) = comparison.left, comparison.comparators
            assert isinstance(call, ast.Call)
            assert isinstance(call.func, ast.Name)
            assert call.func.id == problem.entry_point
            assert isinstance(comparison.ops[0], ast.Eq)
            ast.literal_eval(literal)
            for argument in call.args:
                ast.literal_eval(argument)


def test_no_hidden_check_is_visible(problems: tuple[Problem, ...]):
    assert not [item.id for item in problems if {*item.visible_checks} & {*item.hidden_checks}]


def test_programs_begin_with_the_promised_function_head(problems: tuple[Problem, ...]):
    for problem in problems:
        assert f"{problem.signature}:\n" in problem.reference
        assert problem.signature in problem.prompt
        ast.parse(problem.skeleton)
        for program in problem.wrong_variants:
            assert re.search(rf"^def {problem.entry_point}\(", program, re.MULTILINE)


def test_references_are_short_and_clean(problems: tuple[Problem, ...]):
    references = {problem.reference for problem in problems}
    assert clean_programs(references) == references
    assert max(reference.count("\n") for reference in references) <= 25


def test_every_reference_passes_all_its_checks(
    problems: tuple[Problem, ...], environment: Environment
):
    submissions = [Submission(problem, problem.reference) for problem in problems]
    visible = [feedback.all_passed for feedback in environment.test(submissions)]
    hidden = environment.judge(submissions)
    failing = [
        problem.id
        for problem, *verdicts in zip(problems, visible, hidden, strict=True)
        if not all(verdicts)
    ]
    assert failing == []


def test_every_wrong_variant_fails_a_hidden_check_and_visible_ones_are_not_enough(
    problems: tuple[Problem, ...], environment: Environment
):
    submissions = [
        Submission(problem, program) for problem in problems for program in problem.wrong_variants
    ]
    solved = [
        submission
        for submission, is_right in zip(submissions, environment.judge(submissions), strict=True)
        if is_right
    ]
    assert solved == []
    feedbacks = environment.test(submissions)
    deceived = {
        submission.problem.id
        for submission, feedback in zip(submissions, feedbacks, strict=True)
        if feedback.all_passed
    }
    assert len(deceived) >= len(problems) / 2


def test_a_folder_without_problems_is_refused(tmp_path: Path):
    with pytest.raises(NoDataError, match="no problem files"):
        load_problems(tmp_path)


def test_a_problem_that_stands_twice_is_refused(tmp_path: Path, project_root: Path):
    content = (project_root / "data/problems/strings.json").read_bytes()
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"stands twice: .*strings/turn_wheel"):
        load_problems(tmp_path)


def test_an_unknown_key_is_refused_by_name(tmp_path: Path):
    (tmp_path / "odd.json").write_text('[{"id": "odd/one", "hint": "none"}]')
    with pytest.raises(DataError, match=r"odd\.json: 0\."):
        load_problems(tmp_path)
