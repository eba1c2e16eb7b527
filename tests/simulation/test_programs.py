"""Mutations, styles and faults: what they keep and what they change."""

import ast
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.rewards.danger_python import python_rules
from harness_core.simulation.environment import Environment, Submission
from harness_core.simulation.faults import add_danger, break_syntax, cut_off
from harness_core.simulation.mutations import MUTATORS, mutants
from harness_core.simulation.pool import build_pool
from harness_core.simulation.problems import Problem, load_problems
from harness_core.simulation.source_edits import Source
from harness_core.simulation.styles import (
    make_sloppy,
    make_verbose,
    rename_variables,
    rewrite_equivalently,
)

PROBLEMS = load_problems()
any_problem = st.sampled_from(PROBLEMS)
seeds = st.integers(min_value=0, max_value=10**6)


def parses(program: str) -> bool:
    try:
        ast.parse(program)
    except SyntaxError:
        return False
    return True


@settings(deadline=None, max_examples=60)
@given(problem=any_problem, seed=seeds)
def test_a_mutant_parses_and_differs_from_the_program_and_from_other_mutants(
    problem: Problem, seed: int
):
    found = mutants(problem.reference, rng=random.Random(seed), n=6)
    trees = [ast.dump(ast.parse(program)) for program in (problem.reference, *found)]
    assert found or "while" in problem.reference
    assert trees[0] not in trees[1:]
    assert len(set(found)) == len(found) <= 6


@settings(deadline=None, max_examples=20)
@given(problem=any_problem, seed=seeds)
def test_the_same_seed_gives_the_same_mutants(problem: Problem, seed: int):
    first, second = (mutants(problem.reference, rng=random.Random(seed), n=6) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("program", "mutant"),
    [
        ("def f(a, b):\n    return a < b\n", "def f(a, b):\n    return a <= b\n"),
        ("def f(a):\n    return a + 1\n", "def f(a):\n    return a - 1\n"),
        ("def f(a):\n    return a + 1\n", "def f(a):\n    return a + 2\n"),
        ("def f(a, b):\n    return (a) and b\n", "def f(a, b):\n    return (a) or b\n"),
        ("def f(a):\n    a += 1\n    return a\n", "def f(a):\n    pass\n    return a\n"),
        ("def f(a):\n    return max(a, 2)\n", "def f(a):\n    return a\n"),
        ("def f(a):\n    return max(a, 2)\n", "def f(a):\n    return max(2, a)\n"),
        ("def f(a):\n    b = True\n    return b\n", "def f(a):\n    b = False\n    return b\n"),
        ("def f(ä):\n    return ä == 'é'\n", "def f(ä):\n    return ä != 'é'\n"),
    ],
)
def test_each_kind_of_bug_is_made(program: str, mutant: str):
    assert mutant in mutants(program, rng=random.Random(0), n=100)


@pytest.mark.parametrize("name", MUTATORS)
def test_every_kind_of_bug_has_places_in_our_problems(name: str):
    sources = [Source(problem.reference) for problem in PROBLEMS]
    edits = [
        edit
        for source in sources
        for node in ast.walk(source.tree)
        for edit in MUTATORS[name](source, node)
    ]
    assert len(edits) >= 10


def test_while_loops_keep_their_way_out():
    program = "def f(n):\n    while n > 0:\n        n -= 1\n    return n + 5\n"
    found = mutants(program, rng=random.Random(0), n=100)
    assert found
    assert all("while n > 0:\n        n -= 1\n" in mutant for mutant in found)


def test_equivalent_ways_to_write_a_reference_still_solve_the_problem(environment: Environment):
    submissions = [
        Submission(problem, program)
        for problem in PROBLEMS
        for program in build_pool(problem, rng=random.Random(7)).right
    ]
    verdicts = environment.judge(submissions)
    assert [item for item, right in zip(submissions, verdicts, strict=True) if not right] == []


@settings(deadline=None, max_examples=40)
@given(problem=any_problem, seed=seeds)
def test_a_change_of_style_changes_the_text_but_keeps_the_head(problem: Problem, seed: int):
    rng, reference = random.Random(seed), problem.reference
    for changed in (
        make_sloppy(reference, rng=rng),
        make_verbose(reference, rng=rng),
        rename_variables(reference, rng=rng),
        rewrite_equivalently(reference),
    ):
        assert parses(changed)
        assert f"{problem.signature}:\n" in changed
    assert make_verbose(reference, rng=rng).count("\n") > reference.count("\n")


@settings(deadline=None, max_examples=40)
@given(problem=any_problem, seed=seeds)
def test_a_dangerous_call_is_one_that_the_danger_rules_know(problem: Problem, seed: int):
    dangerous = add_danger(problem.reference, rng=random.Random(seed))
    assert list(python_rules(dangerous))
    assert not list(python_rules(problem.reference))


@settings(deadline=None, max_examples=40)
@given(problem=any_problem, seed=seeds)
def test_broken_syntax_never_parses_and_a_cut_answer_is_shorter(problem: Problem, seed: int):
    rng = random.Random(seed)
    assert not parses(break_syntax(problem.reference, rng=rng))
    cut = cut_off(problem.reference, rng=rng)
    assert problem.reference.startswith(cut)
    assert len(cut) < len(problem.reference)


@settings(deadline=None, max_examples=40)
@given(problem=any_problem, seed=seeds)
def test_a_pool_is_small_and_holds_no_program_twice(problem: Problem, seed: int):
    pool = build_pool(problem, rng=random.Random(seed))
    assert len(set(pool.programs)) == len(pool.programs) <= 25
    assert problem.reference in pool.right
    assert len(pool.wrong) >= len(problem.wrong_variants)
    assert pool.broken
    assert pool.dangerous
    assert build_pool(problem, rng=random.Random(seed)) == pool
