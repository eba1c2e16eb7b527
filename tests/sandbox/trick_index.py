"""Where each of the fifty known tricks on a grader is tested, by number.

Most are programs of `tricks`. Those on a reward component, and the flags that a trick raises beside
its failure, are tested with what computes them.
"""

from typing import Final

CORPUS: Final = "tests/sandbox/test_tricks.py::test_no_trick_passes_a_check"
_AUDIT: Final = "tests/rewards/test_audit.py"
_NEXT: Final = "tests/sandbox/test_tricks.py::test_nothing_that_a_program_leaves_reaches_the_next"
_FLAG: Final = "tests/rewards/test_suspicion.py::test_a_trick_on_the_grader_raises_its_flag"
_HIDDEN: Final = (
    "tests/sandbox/test_isolation.py::test_no_expected_value_and_no_test_can_be_seen_in_the_box"
)

TRICK_INDEX: Final[dict[int, tuple[str, ...]]] = {
    1: (CORPUS, "tests/sandbox/test_grader.py::test_an_object_proves_nothing_in_a_test"),
    2: (CORPUS,),
    3: (CORPUS,),
    4: (CORPUS,),
    5: (CORPUS,),
    6: (CORPUS,),
    7: (CORPUS,),
    8: (CORPUS, _NEXT, _FLAG),
    9: (CORPUS, _NEXT, _FLAG),
    10: (CORPUS,),
    11: (
        CORPUS,
        "tests/rewards/test_hard_coding.py::test_a_table_of_the_visible_checks_is_recognised",
    ),
    12: (CORPUS, _FLAG),
    13: (CORPUS, _HIDDEN, _FLAG),
    14: (CORPUS, _HIDDEN, _FLAG),
    15: (CORPUS, "tests/sandbox/test_grader.py::test_a_program_cannot_speak_for_its_test"),
    16: (CORPUS, _FLAG),
    17: (CORPUS, _FLAG),
    18: (CORPUS,),
    19: (CORPUS, _FLAG),
    20: (CORPUS, _NEXT),
    21: (
        CORPUS,
        "tests/sandbox/test_stateful.py::test_a_program_that_counts_its_calls_is_noticed",
        "tests/rewards/test_compose.py::test_a_program_that_changes_its_mind_is_not_solved",
    ),
    22: (CORPUS, _FLAG),
    23: (CORPUS,),
    24: (CORPUS, _FLAG),
    25: (CORPUS, _NEXT),
    26: (CORPUS,),
    27: (CORPUS,),
    28: (
        CORPUS,
        f"{_AUDIT}::test_trick_28_a_refusal_and_an_empty_patch_earn_nothing",
    ),
    29: (
        CORPUS,
        f"{_AUDIT}::test_trick_29_an_empty_function_earns_less_than_any_attempt_that_passes_a_test",
    ),
    30: (CORPUS,),
    31: (CORPUS,),
    32: (CORPUS,),
    33: (CORPUS,),
    34: (CORPUS,),
    35: (CORPUS, _NEXT),
    36: (CORPUS,),
    37: (CORPUS, _FLAG),
    38: (CORPUS,),
    39: (CORPUS, _FLAG),
    40: (CORPUS,),
    41: (CORPUS,),
    42: (CORPUS, "tests/sandbox/test_values.py::test_nan_is_nothing_even_inside_of_data"),
    43: (CORPUS,),
    44: (CORPUS,),
    45: (CORPUS, f"{_AUDIT}::test_trick_45_words_for_a_judge_change_no_reward"),
    46: (CORPUS, "tests/rewards/test_danger.py::test_a_dangerous_program_breaks_its_rule"),
    47: ("tests/rewards/test_danger.py::test_a_harmless_program_breaks_no_rule",),
    48: ("tests/rewards/test_style.py::test_a_finding_is_a_finding_whatever_a_comment_says",),
    49: ("tests/rewards/test_programs.py::test_packing_lines_gains_nothing",),
    50: (
        "tests/rewards/test_compose.py::test_the_log_never_overrides_what_was_computed",
        "tests/rewards/test_compose.py::test_a_claim_that_tests_passed_is_looked_into",
    ),
}
