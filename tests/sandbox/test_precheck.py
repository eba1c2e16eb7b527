"""Programs that never see a box are judged as a box would judge them."""

import warnings

import pytest

from harness_core.sandbox.box import Box
from harness_core.sandbox.config import SandboxConfig
from harness_core.sandbox.conversation import run_program
from harness_core.sandbox.precheck import unloadable
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CallStatus

BROKEN = {
    "no colon": "def f(x) return x",
    "indent": "def f(x):\nreturn x",
    "tabs": "if True:\n        x = 1\n\ty = 2",
    "bracket": "f = (1",
    "f-string": "f = f'{1 +}'",
    "unknown coding": "# coding: nonsense-7\nf = 1",
    "wrong bytes": "# coding: ascii\nf = 'ä'",
    "nul": "f = 1\0",
    "prose": "I cannot help with that.",
}
SOUND = {
    "empty": "",
    "coding": "# coding: utf-8\nf = 'ä'",
    "escape": "f = '\\d'",
    "literal": "f = 0xfor 1",
    "compiler": "return 1",
    "two names": "def f(x, x): pass",
    "surrogate": "f = '\ud800'",
    "deep": f"f = {'(' * 150}{')' * 150}",
    "too deep": "f = " + "-" * 100_000 + "1",
    "long": "f = 1\n" * 20_000 + "(",
}


@pytest.fixture(scope="module")
def box(boxed: Sandbox, config: SandboxConfig):
    with Box(config) as found:
        yield found


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_a_program_that_does_not_parse_needs_no_box(box: Box, config, source: str) -> None:
    job = ProgramJob(source, ("f", "f"))
    found = unloadable(job, box.layers)
    assert found is not None
    assert found == run_program(box, job, config)
    assert {result.status for result in found.calls} == {CallStatus.NOT_LOADED}


@pytest.mark.parametrize("source", SOUND.values(), ids=SOUND)
def test_what_only_a_box_can_tell_is_left_to_it(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unloadable(ProgramJob(source, ("f",)), ()) is None


def test_the_scripts_of_such_a_program_end_like_its_calls(box: Box, config) -> None:
    job = ProgramJob("f = (", (), ("def script(self, *_): pass", "def script(self, *_): pass"))
    assert unloadable(job, box.layers) == run_program(box, job, config)


def test_results_keep_their_places(boxed: Sandbox) -> None:
    jobs = [ProgramJob("f = 1", ("f",)), ProgramJob("f =", ("f",)), ProgramJob("f = 2", ("f",))]
    values = [(run.calls[0].value, run.calls[0].detail) for run in boxed.run_programs(jobs)]
    assert values == [(1, ""), (None, "SyntaxError"), (2, "")]
