import gzip
import random
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.importers.base import ImportContext
from harness_core.importers.decision_marks import is_own, within_share
from harness_core.importers.decisions import DecisionsImporter, whole_lines
from harness_core.importers.landing import RAW, land
from harness_core.stages.dag import Workspace
from harness_core.trajectories.decision_log import LogEntry, LoggedReview, LoggedRound
from harness_core.trajectories.schema import Outcome, Trajectory
from tests.importers.conftest import CONFIG, Imported, ReadFolder
from tests.serving.logged import BEGIN, decision, outcome

STATE = {"description": "Say hello.", "language": "text", "history": []}


def write(folder: Path, *entries: LogEntry, name: str = "a.jsonl") -> None:
    lines = b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)
    (folder / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)


def review(name: str, of: str, verdict: Any, *, hour: int = 1, **said: Any) -> LoggedReview:
    return LoggedReview(
        review_id=name,
        decision_id=of,
        reviewed_at=BEGIN + timedelta(hours=hour),
        reviewer="somebody",
        verdict=verdict,
        **said,
    )


@pytest.fixture
def told(tmp_path: Path, read_folder: ReadFolder):
    def read(*entries: LogEntry) -> Imported:
        write(tmp_path, *entries)
        return read_folder("decisions", tmp_path)

    return read


def test_one_decision_is_one_trajectory_with_its_candidates(told):
    (trajectory,) = told(decision("a")).trajectories
    (step,) = trajectory.steps
    assert [item.action.text for item in step.candidates] == ["Hello.", "Hi."]
    assert (step.chosen_index, step.propensity, step.decision_id) == (0, 1.0, "a")
    assert trajectory.extra["controller"]["policy"] == "controller"


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({"mode": "shadow"}, "agent"),
        ({"mode": "off"}, "agent"),
        ({"decision": None, "failure": "timeout"}, "agent"),
        ({"mode": "filter", "decision": None, "answered_index": 1}, "controller"),
        ({"mode": "library"}, "controller"),
    ],
)
def test_the_behaviour_policy_is_who_decided_what_was_done(told, changes, policy: str):
    (trajectory,) = told(decision("a", **changes)).trajectories
    assert trajectory.extra["controller"]["policy"] == policy
    assert is_own(trajectory) == (policy == "controller")


def test_a_session_is_one_run_and_tells_what_came_back(told):
    done = {"kind": "message", "text": "Hello.", "result": "Hi there!", "is_error": False}
    (trajectory,) = told(
        decision("b", second=2, session_id="s", state={**STATE, "history": [done]}),
        decision("a", second=1, session_id="s", state=STATE),
    ).trajectories
    assert [step.decision_id for step in trajectory.steps] == ["a", "b"]
    assert [step.result for step in trajectory.steps] == ["Hi there!", ""]
    assert trajectory.extra["session_id"] == "s"


def test_what_was_done_without_the_controller_is_a_step_without_candidates(told):
    done = {"kind": "tool_call", "text": "look", "arguments": {"name": "look"}, "result": "nothing"}
    (trajectory,) = told(decision("a", state={**STATE, "history": [done]})).trajectories
    first, second = trajectory.steps
    assert (first.candidates, first.decision_id, first.result) == ((), None, "nothing")
    assert second.decision_id == "a"


def test_a_history_that_begins_anew_is_another_run_of_the_session(told):
    imported = told(
        decision("a", second=1, session_id="s", state=STATE),
        decision("b", second=2, session_id="s", state=STATE),
        decision("c", second=3, session_id="s", state={"description": "Say goodbye."}),
    )
    assert [[s.decision_id for s in t.steps] for t in imported.trajectories] == [
        ["a"],
        ["b"],
        ["c"],
    ]


def test_a_client_that_tells_no_history_is_taken_at_the_word_of_its_session(told):
    state = {"description": "Say hello."}
    (trajectory,) = told(
        *(decision(name, second=n, session_id="s", state=state) for n, name in enumerate("abc"))
    ).trajectories
    assert [step.decision_id for step in trajectory.steps] == ["a", "b", "c"]


def test_runs_that_were_served_side_by_side_are_told_apart_by_their_histories(told):
    def later(name: str, second: int, text: str):
        history = [{"kind": "message", "text": text, "result": f"after {text}"}]
        return decision(name, second=second, state={**STATE, "history": history})

    imported = told(
        decision("a1", second=1, state=STATE),
        decision("b1", second=2, state=STATE, answered_index=1),
        later("b2", 3, "Hi."),
        later("a2", 4, "Hello."),
        later("c", 5, "Hello."),
    )
    runs = [[step.decision_id for step in item.steps] for item in imported.trajectories]
    assert runs == [["a1", "a2"], ["b1", "b2"], [None, "c"]]
    assert imported.trajectories[0].steps[0].result == "after Hello."


def test_a_system_text_that_changes_on_the_way_divides_no_run(told):
    done = {"kind": "message", "text": "Hello."}
    state = {**STATE, "task_id": "t", "initial_state": "It is ten."}
    later = {**state, "initial_state": "It is eleven.", "history": [done]}
    imported = told(
        decision("a", second=1, session_id="s", state=state),
        decision("b", second=2, session_id="s", state=later),
    )
    assert [len(item.steps) for item in imported.trajectories] == [2]


def test_an_outcome_ends_a_run_and_none_leaves_it_cut_off(told):
    known, unknown = told(
        decision("a", second=1),
        decision("b", second=2, state={"description": "Other."}),
        outcome("o", "a", source="tests", success=True),
    ).trajectories
    assert (known.outcome.success, known.terminated) == (True, True)
    assert (unknown.outcome, unknown.truncated) == (Outcome(), True)


def test_the_outcome_of_a_run_is_that_of_its_last_decision_that_has_one(told):
    state = {"description": "Say hello."}
    (trajectory,) = told(
        *(decision(name, second=n, session_id="s", state=state) for n, name in enumerate("abc")),
        outcome("1", "a", source="tests", success=False),
        outcome("2", "b", source="user", score=0.5),
    ).trajectories
    assert trajectory.outcome == Outcome(score=0.5)


def test_a_program_brings_its_task_with_visible_checks(told):
    state = {
        "description": "Add.",
        "language": "python",
        "task_id": "mbpp_12",
        "entry_point": "add",
        "visible_checks": ["assert add(1, 2) == 3"],
    }
    imported = told(decision("a", state=state, candidates=({"text": "def add(a, b): ..."},)))
    task = imported.tasks["mbpp/12"]
    assert (task.language, task.entry_point, task.family) == ("python", "add", "mbpp")
    assert task.visible_checks == ("assert add(1, 2) == 3",)
    assert task.hidden_checks == ()
    assert imported.trajectories[0].steps[0].action.kind == "code"


@pytest.mark.parametrize(
    ("verdict", "said", "text"),
    [
        ("approve", {"chosen_index": 1}, "Hi."),
        ("choose", {"chosen_index": 1}, "Hi."),
        ("correct", {"correction": "Good day."}, "Good day."),
    ],
)
def test_a_person_who_decided_is_followed_by_a_run_of_its_own(told, verdict, said, text: str):
    (trajectory,) = told(
        decision("a", answered_index=None, propensity=None), review("r", "a", verdict, **said)
    ).trajectories
    (step,) = trajectory.steps
    assert step.action.text == text
    assert step.logged_reward == 1.0
    assert (trajectory.extra["controller"]["policy"], trajectory.extra["review"]) == (
        "human",
        verdict,
    )
    assert not is_own(trajectory)


def test_a_correction_of_what_was_answered_stands_beside_the_run_that_took_place(told):
    done, wanted = told(
        decision("a"),
        outcome("o", "a", source="user", success=False),
        review("r", "a", "correct", correction="Good day."),
    ).trajectories
    assert (done.steps[0].action.text, done.outcome.success) == ("Hello.", False)
    assert (wanted.steps[0].action.text, wanted.outcome.success) == ("Good day.", None)


def test_the_last_word_of_a_person_counts_and_an_approval_of_what_was_done_adds_nothing(told):
    imported = told(
        decision("a"),
        review("1", "a", "choose", chosen_index=1, hour=1),
        review("2", "a", "approve", chosen_index=0, hour=2),
        review("3", "a", "appeal", chosen_index=1, hour=3),
    )
    (trajectory,) = imported.trajectories
    assert trajectory.steps[0].action.text == "Hello."
    assert imported.tally.warnings == {"D-APPEAL": 1}


def test_what_nobody_answered_and_nobody_decided_is_counted_and_leaves_no_task(told):
    imported = told(decision("a", answered_index=None, propensity=None))
    assert (imported.trajectories, imported.tasks) == ([], {})
    assert imported.tally.warnings == {"D-NOT-ANSWERED": 1}


def test_an_answer_that_is_no_candidate_is_a_reject(told):
    assert told(decision("a", answered_index=7)).rules == ["D-ANSWERED"]


def test_a_line_that_is_still_being_written_is_left_out(told, tmp_path: Path, read_folder):
    write(tmp_path, decision("a"))
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(decision("b").model_dump_json().encode())
    imported = read_folder("decisions", tmp_path)
    assert (len(imported.trajectories), imported.rejects) == (1, [])


@given(data=st.binary(max_size=200), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_whole_lines_are_what_stands_before_the_last_line_feed(data: bytes, sizes: list[int]):
    chunks: list[bytes] = []
    rest = data
    while rest:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(rest[:size])
        rest = rest[size:]
    is_document = data.lstrip()[:1] == b"["
    expected = data if is_document else data[: data.rfind(b"\n") + 1]
    assert b"".join(whole_lines(chunks)) == expected


@given(seed=st.integers(0, 1000))
def test_however_a_log_is_split_ordered_doubled_or_packed_it_tells_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int
):
    """DA2."""
    done = {"kind": "message", "text": "Hello.", "result": "Hi there!"}
    entries: list[LogEntry] = [
        decision("a", second=1, session_id="s", state=STATE),
        decision("b", second=2, session_id="s", state={**STATE, "history": [done]}),
        decision("c", second=3),
        outcome("1", "b", source="user", hour=1, success=False),
        outcome("2", "b", source="tests", hour=0, success=True),
        review("r", "c", "correct", correction="Good day."),
    ]
    shuffled = random.Random(seed)
    told = []
    for name in ("plain", "shuffled"):
        folder = tmp_path_factory.mktemp(name)
        if name == "shuffled":
            entries += entries[:2]
            shuffled.shuffle(entries)
            cut = shuffled.randrange(len(entries))
            write(folder, *entries[:cut], name="b.jsonl")
            write(folder, *entries[cut:], name="a.jsonl.gz")
        else:
            write(folder, *entries)
        context = ImportContext(source="log", config=CONFIG)
        items = DecisionsImporter().read(folder, context)
        told.append({item.trajectory_id for item in items if isinstance(item, Trajectory)})
    assert told[0] == told[1]


def trajectories(told, *, own: int, others: int) -> Sequence[Trajectory]:
    return told(
        *(
            decision(
                f"{n}",
                second=n,
                mode="rerank" if n < own else "shadow",
                state={"description": str(n)},
            )
            for n in range(own + others)
        )
    ).trajectories


@pytest.mark.parametrize(
    ("share", "n_own"), [(0.0, 0), (0.2, 5), (0.5, 20), (0.6, 30), (0.9, 30), (1.0, 30)]
)
def test_the_share_of_the_controllers_own_runs_is_bounded(told, share: float, n_own: int):
    everything = trajectories(told, own=30, others=20)
    kept = within_share(everything, share)
    assert sum(map(is_own, kept)) == n_own
    assert len(kept) - n_own == 20
    # Neither the order of the logs matters, nor do more of others lose any of them.
    assert {t.trajectory_id for t in within_share(everything[::-1], share)} == {
        t.trajectory_id for t in kept
    }


def test_alone_the_controller_may_not_teach_itself_unless_that_is_allowed(told):
    everything = trajectories(told, own=3, others=0)
    assert within_share(everything, 0.9) == []
    assert within_share(everything, 1.0) == everything


def test_a_log_that_is_rotated_while_it_lands_lands_whole(tmp_path: Path, monkeypatch):
    write(tmp_path, decision("a"), name="1.jsonl")
    workspace = Workspace(tmp_path / "work")
    copyfile = shutil.copyfile

    def rotate_first(original: Path, copy: Path) -> None:
        if original.name == "1.jsonl":
            write(tmp_path, decision("a"), name="1.jsonl.gz")
            original.unlink()
        copyfile(original, copy)

    monkeypatch.setattr(shutil, "copyfile", rotate_first)
    name = land(tmp_path, "decisions", name="proxy", workspace=workspace)
    landed = workspace.path(f"{RAW}/{name}")
    assert sorted(path.name for path in landed.iterdir()) == ["1.jsonl.gz", "source.json"]


def test_tries_that_were_turned_down_are_kept_beside_the_step_and_not_in_it(told):
    before = LoggedRound(
        candidates=({"text": "Bye."},),
        decision={"chosen_index": None, "reason": "risk_too_high", "risk": 0.5, "scores": [0.25]},
    )
    nothing = LoggedRound(candidates=({"text": "Go."},), decision=None, failure="timeout")
    (trajectory,) = told(decision("a", turned_down=(before, nothing))).trajectories
    (step,) = trajectory.steps
    assert [item.action.text for item in step.candidates] == ["Hello.", "Hi."]
    (mark,) = trajectory.extra["controller"]["decisions"]
    assert mark["turned_down"] == [
        {
            "candidates": [{"text": "Bye."}],
            "reason": "risk_too_high",
            "risk": 0.5,
            "scores": [0.25],
        },
        {"candidates": [{"text": "Go."}], "failure": "timeout"},
    ]
    (plain,) = told(decision("a")).trajectories
    assert "turned_down" not in plain.extra["controller"]["decisions"][0]
