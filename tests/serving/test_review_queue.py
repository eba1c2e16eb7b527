"""Which decisions wait for a person, and what becomes of what a person says."""

import threading
from datetime import timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.errors import DecisionLogError
from harness_core.serving.decision_log import DecisionLog, read_log
from harness_core.serving.review.desk import (
    AlreadyReviewed,
    Answer,
    Desk,
    ReviewLog,
    WrongAnswer,
)
from harness_core.serving.review.queue import read_backlog
from harness_core.serving.review.readable import compared, visible
from harness_core.serving.review.rule_words import RULE_WORDS, rule_in_words
from harness_core.trajectories.decision_log import LogEntry
from tests.serving.review_scene import START, FakeLog, abstained, decided, reviewed


def said(verdict, **changes) -> Answer:
    return Answer(verdict=verdict, reviewer="ada", **changes)


def test_what_waits_is_what_was_left_to_a_person_or_may_be_appealed():
    log: list[LogEntry] = [
        decided(1, chosen=1),
        decided(2, fallback="review"),
        decided(3, chosen=0, asked={0: ("policy:money",)}),
        decided(4, chosen=0, asked={1: ("policy:money",)}),
        decided(5, chosen=0, filtered={1: ("B602",)}),
        decided(6, filtered={0: ("B602",), 1: ("B307",)}),
        decided(7, decision=None, failure="timeout"),
        decided(8, chosen=0, fallback="first"),
    ]
    causes = {name: item.causes for name, item in read_backlog(log).waiting.items()}
    assert causes == {
        "d2": ("abstained",),
        "d3": ("policy",),
        "d5": ("filtered",),
        "d6": ("all_filtered",),
    }


def test_the_oldest_comes_first_whatever_the_order_of_segments():
    log: list[LogEntry] = [
        abstained(5),
        abstained(1),
        reviewed("d3", "reject"),
        abstained(3),
        abstained(2),
    ]
    assert list(read_backlog(log).waiting) == ["d1", "d2", "d5"]


def test_a_decision_of_an_unknown_form_is_counted_and_never_stops_the_page():
    backlog = read_backlog([abstained(1, decision={"chosen_index": "none"}), abstained(2)])
    assert (backlog.n_unreadable, list(backlog.waiting)) == (1, ["d2"])


def test_a_decision_of_a_later_version_is_still_read():
    later = abstained(1)
    later = later.model_copy(update={"decision": {**(later.decision or {}), "new_field": [1]}})
    assert list(read_backlog([later]).waiting) == ["d1"]


@pytest.mark.parametrize("verdict", ["approve", "choose", "correct", "reject"])
def test_any_verdict_ends_the_wait(verdict):
    assert not read_backlog([abstained(1), reviewed("d1", verdict)]).waiting


def test_an_appeal_answers_the_filter_and_not_the_request():
    appeal = reviewed("d1", "appeal", chosen_index=0)
    assert "d1" in read_backlog([abstained(1), appeal]).waiting
    only_filtered = decided(1, chosen=1, filtered={0: ("B602",)})
    assert not read_backlog([only_filtered, appeal]).waiting
    all_filtered = decided(1, filtered={0: ("B602",), 1: ("B602",)})
    assert not read_backlog([all_filtered, appeal]).waiting


@pytest.mark.parametrize(
    ("item", "suggested"),
    [
        (decided(1, chosen=1, asked={1: ("policy:money",)}), 1),
        (abstained(1, answered=2), 2),
        (abstained(1, answered=0), 1),
        (abstained(1), 1),
        (decided(1, filtered={0: ("B602",), 1: ("B602",)}), None),
    ],
    ids=["the pick", "what the agent got", "got a filtered one", "best score", "nothing left"],
)
def test_approval_means_the_pick_or_what_the_agent_got_or_the_best(item, suggested):
    assert read_backlog([item]).items["d1"].suggested_index == suggested


def test_false_positives_are_counted_by_rule_among_those_looked_at():
    log: list[LogEntry] = [
        decided(1, chosen=0, filtered={1: ("B301", "py-network")}),
        decided(2, chosen=0, filtered={1: ("B301",)}),
        decided(3, chosen=0, filtered={1: ("B301",)}),
        reviewed("d1", "appeal", chosen_index=1),
        reviewed("d2", "approve", chosen_index=0),
    ]
    counts = {one.rule: one for one in read_backlog(log).rule_counts()}
    pickle = counts["B301"]
    assert (pickle.n_filtered, pickle.n_looked_at, pickle.n_appealed) == (3, 2, 1)
    assert counts["py-network"].n_appealed == 1
    assert pickle.interval[0] < 0.5 < pickle.interval[1]


def test_a_review_is_written_once_and_the_second_is_told_of_the_first():
    log = FakeLog(abstained(1))
    desk = Desk(log.port())
    item = desk.find("d1")
    assert item is not None
    desk.submit(item, said("choose", chosen_index=2), second_opinion=False)
    with pytest.raises(AlreadyReviewed) as refusal:
        desk.submit(item, said("reject"), second_opinion=False)
    assert [one.verdict for one in refusal.value.reviews] == ["choose"]
    desk.submit(item, said("reject"), second_opinion=True)
    assert [one.verdict for one in log.reviews] == ["choose", "reject"]


def test_of_many_at_once_one_writes_and_all_others_are_told():
    log = FakeLog(abstained(1))
    desk = Desk(log.port())
    item = desk.find("d1")
    assert item is not None
    told = []
    together = threading.Barrier(8)

    def answer():
        together.wait()
        try:
            desk.submit(item, said("reject"), second_opinion=False)
        except AlreadyReviewed as refusal:
            told.append(len(refusal.reviews))

    threads = [threading.Thread(target=answer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.reviews) == 1
    assert told == [1] * 7


def test_what_is_being_shown_does_not_change():
    before = read_backlog([abstained(1), abstained(2)])
    after = before.with_review(reviewed("d1", "reject"))
    assert (list(before.waiting), list(after.waiting)) == (["d1", "d2"], ["d2"])
    assert after.waiting == read_backlog([abstained(2)]).waiting


def test_a_review_of_another_process_is_seen_before_ours_is_written():
    log = FakeLog(abstained(1))
    desk = Desk(log.port())
    item = desk.find("d1")
    assert item is not None
    log.entries.append(reviewed("d1", "reject"))
    with pytest.raises(AlreadyReviewed):
        desk.submit(item, said("approve"), second_opinion=False)


def test_the_same_appeal_is_taken_once_and_another_one_too():
    log = FakeLog(abstained(1, filtered={0: ("B602",), 1: ("B307",)}))
    desk = Desk(log.port())
    item = desk.find("d1")
    assert item is not None
    desk.submit(item, said("appeal", chosen_index=0), second_opinion=False)
    with pytest.raises(AlreadyReviewed):
        desk.submit(item, said("appeal", chosen_index=0), second_opinion=False)
    desk.submit(item, said("appeal", chosen_index=1), second_opinion=False)
    desk.submit(item, said("approve"), second_opinion=False)
    assert [one.chosen_index for one in log.reviews] == [0, 1, 2]


@pytest.mark.parametrize(
    "answer",
    [
        said("choose", chosen_index=0),
        said("choose", chosen_index=9),
        said("choose"),
        said("appeal", chosen_index=1),
        said("correct", correction=" \n"),
        said("correct"),
    ],
    ids=["filtered", "no such", "none", "not filtered", "blank", "no text"],
)
def test_an_answer_that_cannot_be_meant_writes_nothing(answer):
    log = FakeLog(abstained(1))
    desk = Desk(log.port())
    item = desk.find("d1")
    assert item is not None
    with pytest.raises(WrongAnswer):
        desk.submit(item, answer, second_opinion=False)
    assert not log.reviews


def test_a_long_log_is_not_read_again_for_every_page():
    log = FakeLog(abstained(1), abstained(2))
    now = iter(range(1000))
    desk = Desk(log.port(), clock=lambda: float(next(now)))  # one reading takes a second
    item = desk.find("d1")
    assert item is not None
    desk.submit(item, said("reject"), second_opinion=False)
    log.entries.append(abstained(3))
    assert list(desk.backlog().waiting) == ["d2"]
    assert log.n_readings == 1
    for _ in range(30):
        desk.backlog()
    assert list(desk.backlog().waiting) == ["d2", "d3"]
    assert log.n_readings == 2


def test_the_queue_survives_a_restart_because_the_log_is_all_there_is(tmp_path):
    with DecisionLog(tmp_path) as log:
        for number in (1, 2):
            log.append(abstained(number))
        desk = Desk(ReviewLog.of_folder(tmp_path, log))
        item = desk.find("d1")
        assert item is not None
        desk.submit(item, said("correct", correction="x = 1\n"), second_opinion=False)
    with DecisionLog(tmp_path) as log:
        again = Desk(ReviewLog.of_folder(tmp_path, log))
        assert list(again.backlog().waiting) == ["d2"]
    written = [entry for entry in read_log(tmp_path) if entry.record == "review"]
    assert [entry.correction for entry in written] == ["x = 1\n"]
    assert written[0].reviewed_at - START > timedelta(0)


def test_what_could_not_be_written_is_no_review(tmp_path):
    def fail(_):
        raise DecisionLogError("the disk is full")

    log = FakeLog(abstained(1))
    port = log.port()
    desk = Desk(ReviewLog(read=port.read, append=fail, signature=port.signature))
    item = desk.find("d1")
    assert item is not None
    with pytest.raises(DecisionLogError):
        desk.submit(item, said("reject"), second_opinion=False)
    assert "d1" in desk.backlog().waiting


def test_every_danger_rule_of_the_corpus_has_words(project_root):
    corpus = (project_root / "tests/rewards/corpus/danger.jsonl").read_bytes().splitlines()
    rules = {rule for line in corpus for rule in orjson.loads(line)["rules"]}
    known = {rule for rule in rules if not rule.startswith("policy:")}
    assert len(known) > 50
    assert known <= RULE_WORDS.keys()
    assert rule_in_words("policy:money").endswith("the rule money of the tool policy")
    assert rule_in_words("x-new") == "breaks the rule x-new"


@given(st.text(), st.text())
def test_marked_lines_are_the_text_itself(text, other):
    shown = [line for line in compared(text, other) if line.mark != "−"]
    assert "\n".join("".join(piece.text for piece in line.pieces) for line in shown) == (
        text.removesuffix("\n")
    )


@given(st.text())
def test_a_text_does_not_differ_from_itself(text):
    assert all(line.mark == " " for line in compared(text, text))


def test_the_word_that_differs_is_marked():
    lines = compared("a = 1\nb = 3\n", "a = 1\nb = 2\nc = 4\n")
    assert [line.mark for line in lines] == [" ", "+", "−"]
    assert [piece.text for piece in lines[1].pieces if piece.differs] == ["3"]
    assert lines[2].pieces[0].text == "1 line not here"


def test_what_hides_is_shown_by_its_code():
    assert visible("a\u202eb\u200b\x1b[0m\r\n\tc") == "a⟨U+202E⟩b⟨U+200B⟩⟨U+001B⟩[0m\n\tc"
