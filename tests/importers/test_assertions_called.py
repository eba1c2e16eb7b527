import pytest

from harness_core.importers.assertions import called_by


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (["assert add(1, 2) == 3"], "add"),
        (["assert get_gcd([2, 4]) == 2"], "get_gcd"),
        (["assert sorted(get_gcd([2, 4])) == [2]"], "get_gcd"),
        (["assert f(1) == 2", "assert g(1) == 2"], "add"),
        (["not python ("], "add"),
        ([], "add"),
    ],
)
def test_checks_name_the_function_they_are_about(checks, expected):
    assert called_by(checks, "add") == expected
