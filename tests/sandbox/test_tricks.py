import pytest

from harness_core.sandbox.grader import GradeJob, Grader
from harness_core.sandbox.protocol import ProgramJob, Sandbox
from harness_core.sandbox.result import CheckStatus, Verdict
from tests.sandbox.trick_index import CORPUS, TRICK_INDEX
from tests.sandbox.tricks import TRICKS, Trick


@pytest.fixture(scope="module")
def verdicts(boxed) -> dict[str, Verdict]:
    jobs = [GradeJob(trick.program, "f", (*trick.passes, *trick.checks)) for trick in TRICKS]
    graded = Grader(boxed).grade(jobs)
    return dict(zip((trick.name for trick in TRICKS), graded, strict=True))


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_no_trick_passes_a_check(trick: Trick, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[trick.name]
    assert verdict.checks == (
        *(CheckStatus.PASSED,) * len(trick.passes),
        *(CheckStatus.FAILED,) * len(trick.checks),
    )
    assert verdict.tampered == trick.flagged
    assert verdict.stateful == trick.stateful


def test_an_honest_program_passes_after_all_the_tricks(verdicts, grader: Grader) -> None:
    (verdict,) = grader.grade([GradeJob("def f(x): return x + 1", "f", ("assert f(1) == 2",))])
    assert verdict.all_passed
    assert verdict.is_honest


LEAVERS = {
    9: "import sys\nfor name in ('sitecustomize.py', 'math.py', 'conftest.py'):\n"
    "    open(name, 'w').write('1/0')\nsys.path.insert(0, '.')",
    20: "import builtins, os\nbuiltins.answers = {1: 2}\nos.environ['ANSWERS'] = '2'\n"
    "for path in ('answers', '/dev/shm/answers', '/tmp/answers', '/scratch/answers'):\n"
    "    try: open(path, 'w').write('2')\n    except OSError: pass",
    25: "import os\nfor name in ('python3', 'git'): open(name, 'w').write('exit 0')\n"
    "os.environ['PATH'] = os.getcwd()",
    35: "import os, threading\ntry:\n    os.fork() or os.setsid()\n"
    "except OSError:\n    threading.Thread(target=print).start()",
}
LOOK = """
import builtins, math, os, sys
def find(path):
    try: return open(path).read()
    except OSError: return None
def f():
    paths = ("answers", "/dev/shm/answers", "/tmp/answers", "/scratch/answers")
    return [
        os.listdir(), hasattr(builtins, "answers"), os.environ.get("ANSWERS"), sys.path[:0],
        [find(path) for path in paths], os.environ["PATH"], math.sqrt(4), os.getpid() > 2,
    ]
"""


@pytest.mark.parametrize("number", LEAVERS)
def test_nothing_that_a_program_leaves_reaches_the_next(number: int, boxed: Sandbox) -> None:
    jobs = [ProgramJob(LEAVERS[number], ("1",)), ProgramJob(LOOK, ("f()",))] * 4
    values = [run.calls[0].value for run in boxed.run_programs(jobs)[1::2]]
    assert values == [[[], False, None, [], [None] * 4, "/nowhere", 2.0, True]] * 4


def test_the_corpus_is_large_enough_and_named_once() -> None:
    assert len({trick.name for trick in TRICKS}) == len(TRICKS) >= 80


def test_every_known_trick_is_tested_somewhere(project_root) -> None:
    assert list(TRICK_INDEX) == list(range(1, 51))
    in_corpus = {int(trick.name.split()[0]) for trick in TRICKS}
    for number, places in TRICK_INDEX.items():
        assert places
        for place in places:
            path, _, name = place.partition("::")
            assert f"def {name}(" in (project_root / path).read_text(encoding="utf-8"), place
        assert (CORPUS in places) == (number in in_corpus), number
