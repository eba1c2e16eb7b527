"""A blind study: what judges can know of the sides, what survives, and what the result says."""

import hashlib
import re
from datetime import UTC, datetime

import orjson
import pytest
from starlette.testclient import TestClient

from harness_core.errors import DataError, NoDataError, ParameterError
from harness_core.registry.blind_results import as_side_run
from harness_core.registry.side_runs import log_side_run
from harness_core.serving.review.app import make_app
from harness_core.serving.review.blind_result import read_result
from harness_core.serving.review.blind_study import Judgement, Study
from tests.serving.review_scene import MEDIAN, MEDIAN_WRONG, abstained, code, decided

AT = datetime(2026, 5, 5, tzinfo=UTC)


def log_of(n: int):
    """Decisions where the pick is the second candidate; each pair has texts of its own."""
    return [
        decided(
            number,
            chosen=1,
            candidates=code(f"{MEDIAN_WRONG}# agent {number}", f"{MEDIAN}# pick {number}"),
            state={"task_id": f"made/{number % 10}", "description": "median"},
        )
        for number in range(n)
    ]


def judged(study: Study, pair_id: str, choice, judge="ada") -> None:
    study.judge(
        Judgement(
            pair_id=pair_id,
            judge=judge,
            judged_at=AT,
            correctness=choice,
            brevity="equal",
            safety="equal",
        )
    )


def client_of(study: Study, reviewer="ada") -> TestClient:
    return TestClient(
        make_app(study=study, reviewer=reviewer),
        base_url="http://127.0.0.1",
        follow_redirects=False,
    )


def shown(page: str) -> str:
    found = re.search(r'name="pair" value="(\w+)"', page)
    assert found is not None
    return found[1]


def form_of(page: str, **choices: str) -> dict[str, str]:
    token = re.search(r'name="token" value="(\w+)"', page)
    assert token is not None
    return {"token": token[1], "pair": shown(page), **choices}


def test_only_picks_that_differ_from_the_agents_first_are_drawn(tmp_path):
    drawn_by_lot = decided(14, chosen=1)
    drawn_by_lot = drawn_by_lot.model_copy(
        update={"decision": {**(drawn_by_lot.decision or {}), "reason": "exploration"}}
    )
    log = [
        *log_of(2),
        decided(10, chosen=0),
        decided(11, chosen=1, candidates=code("same", "same")),
        decided(12, chosen=0, candidates=code("alone")),
        drawn_by_lot,
        abstained(13),
    ]
    study = Study.prepare(tmp_path / "study", log, n=40, seed=0)
    key = orjson.loads((tmp_path / "study/key.json").read_bytes())
    assert len(study.pairs) == 2
    assert (key["n_decisions"], key["n_differing"]) == (4, 2)


def test_equal_seeds_give_equal_studies_whatever_the_order_of_the_log(tmp_path):
    files = []
    for name, log in (("a", log_of(9)), ("b", log_of(9)[::-1])):
        Study.prepare(tmp_path / name, log, n=5, seed=3)
        files.append(
            [(tmp_path / name / part).read_bytes() for part in ("pairs.jsonl", "key.json")]
        )
    assert files[0] == files[1]
    Study.prepare(tmp_path / "c", log_of(9), n=5, seed=4)
    assert (tmp_path / "c/pairs.jsonl").read_bytes() != files[0][0]


def test_each_side_has_half_of_the_picks(tmp_path):
    study = Study.prepare(tmp_path / "study", log_of(20), n=20, seed=0)
    sides = [one.controller for one in study.unblind(AT).pairs]
    assert sides.count("left") == 10
    assert sides != sorted(sides)


def test_judging_never_opens_the_key(tmp_path):
    Study.prepare(tmp_path / "study", log_of(3), n=3, seed=0)
    (tmp_path / "study/key.json").unlink()
    study = Study(tmp_path / "study")
    client = client_of(study)
    page = client.get("/blind").text
    form = form_of(page, correctness="left", brevity="equal", safety="right")
    assert client.post("/blind", data=form).status_code == 303
    assert len(study.judgements()) == 1


def test_what_judges_get_names_neither_decision_nor_side(tmp_path):
    log = [
        one.model_copy(
            update={
                "candidates": (
                    {**one.candidates[0], "logprob": -1.5, "source": "upstream"},
                    {**one.candidates[1], "logprob": -9.5, "source": "rerank"},
                )
            }
        )
        for one in log_of(30)
    ]
    study = Study.prepare(tmp_path / "study", log, n=30, seed=0)
    client = client_of(study)
    texts = [(tmp_path / "study/pairs.jsonl").read_text()]
    for _ in range(30):
        answer = client.get("/blind")
        # Style and keys are the same for every page of the server.
        page = re.sub(r"(?s)<(style|script).*?</\1>", "", answer.text)
        texts.append(str(answer.headers) + page)
        form = form_of(answer.text, correctness="equal", brevity="equal", safety="equal")
        sent = client.post("/blind", data=form)
        texts.append(str(sent.headers) + sent.text)
        assert sent.headers["location"] == "/blind?done=yes"
    everything = "\n".join(texts).lower()
    for word in ("controller", "logprob", "rerank", "upstream", "chosen", "score", "suggested"):
        assert word not in everything, word
    assert not re.search(r"\bd\d+\b", everything)  # ids of decisions


def test_the_page_is_the_same_but_for_the_texts_whichever_side_is_whose(tmp_path):
    """Replace what each side holds by a mark: nothing else on the page depends on the side."""
    study = Study.prepare(tmp_path / "study", log_of(12), n=12, seed=0)
    sides = {one.pair_id: one.controller for one in study.unblind(AT).pairs}
    (tmp_path / "study/unblinded.json").unlink()
    digests: dict[str, set[str]] = {"left": set(), "right": set()}
    client = client_of(study)
    for _ in range(12):
        page = client.get("/blind").text
        pair = shown(page)
        frame = re.sub(r"(?s)<pre.*?</pre>", "", page)
        frame = re.sub(r'nonce="[^"]*"', "", frame).replace(pair, "")
        frame = re.sub(r"Pair \d+ of|made/\d+|(value=\"|>)\d+( of|\")", "", frame)
        frame = re.sub(r"Your judgement was written\.", "", frame)
        digests[sides[pair]].add(hashlib.sha256(frame.encode()).hexdigest())
        form = form_of(page, correctness="equal", brevity="equal", safety="equal")
        client.post("/blind", data=form)
    assert digests["left"] == digests["right"]
    assert len(digests["left"]) == 1


def test_all_three_questions_must_be_answered_and_answers_are_kept(tmp_path):
    study = Study.prepare(tmp_path / "study", log_of(2), n=2, seed=0)
    client = client_of(study)
    form = form_of(client.get("/blind").text, correctness="left", brevity="sideways")
    answer = client.post("/blind", data=form)
    assert answer.status_code == 422
    assert "brevity and safety" in answer.text
    assert re.search(r'name="correctness" value="left" required checked', answer.text)
    assert not study.judgements()


def test_judgements_survive_a_restart_and_a_torn_line(tmp_path):
    study = Study.prepare(tmp_path / "study", log_of(3), n=3, seed=0)
    first, second, third = study.pairs
    judged(study, first, "left")
    with (tmp_path / "study/judgements.jsonl").open("ab") as file:
        file.write(b'{"pair_id": "torn')
    again = Study(tmp_path / "study")
    assert [one.pair_id for one in again.left_to_judge("ada")] == [second, third]
    judged(again, second, "right")
    assert [one.pair_id for one in again.judgements()] == [first, second]


def test_every_judge_has_all_pairs(tmp_path):
    study = Study.prepare(tmp_path / "study", log_of(2), n=2, seed=0)
    for pair in study.pairs:
        judged(study, pair, "equal", judge="ada")
    assert "You have judged all 2 pairs" in client_of(study).get("/blind").text
    assert "Pair 1 of 2" in client_of(study, reviewer="grace").get("/blind").text


def test_the_result_finds_the_controllers_side(tmp_path):
    folder = tmp_path / "study"
    study = Study.prepare(folder, log_of(10), n=10, seed=0)
    key = study.unblind(AT)
    (folder / "unblinded.json").unlink()
    for number, one in enumerate(key.pairs):
        other = "right" if one.controller == "left" else "left"
        judged(study, one.pair_id, one.controller if number else other)
    result = read_result(folder, early=False, at=AT)
    found = result.figures["criteria"]["correctness"]
    assert (found["n_controller"], found["n_agent"], found["share"]) == (9, 1, 0.9)
    assert found["p_value"] == pytest.approx(2 * 11 / 2**10)  # ten coins, nine or ten alike
    assert result.figures["criteria"]["safety"]["n_equal"] == 10
    assert "the controller's picks are preferred" in result.words[0]
    assert "all 10 pairs were found equal" in result.words[1]


def test_reading_the_result_closes_the_study(tmp_path):
    folder = tmp_path / "study"
    study = Study.prepare(folder, log_of(3), n=3, seed=0)
    first, second, _ = study.pairs
    judged(study, first, "left")
    with pytest.raises(ParameterError, match="1 of 3 pairs are judged"):
        read_result(folder, early=False, at=AT)
    early = read_result(folder, early=True, at=AT)
    assert "ended early" in early.words[-1]
    with pytest.raises(ParameterError, match="closed"):
        judged(study, second, "left")
    assert "This study is closed" in client_of(study).get("/blind").text
    assert read_result(folder, early=False, at=AT).key == early.key


def test_a_study_is_never_overwritten_nor_made_of_nothing(tmp_path):
    Study.prepare(tmp_path / "study", log_of(1), n=1, seed=0)
    with pytest.raises(ParameterError, match="there is a study already"):
        Study.prepare(tmp_path / "study", log_of(1), n=1, seed=0)
    with pytest.raises(NoDataError, match="everywhere"):
        Study.prepare(tmp_path / "other", [decided(1, chosen=0)], n=1, seed=0)
    with pytest.raises(NoDataError, match="prepare"):
        Study(tmp_path / "nowhere")


def test_a_lost_key_is_said_plainly(tmp_path):
    study = Study.prepare(tmp_path / "study", log_of(1), n=1, seed=0)
    judged(study, next(iter(study.pairs)), "left")
    (tmp_path / "study/key.json").unlink()
    with pytest.raises(DataError, match="key of the sides"):
        read_result(tmp_path / "study", early=False, at=AT)


class FakeTracker:
    """Runs in memory."""

    def __init__(self) -> None:
        self.metrics: dict[str, dict[str, float]] = {}
        self.tags: dict[str, dict[str, str]] = {}

    def find(self, run_key):
        return next((name for name, tags in self.tags.items() if run_key in tags.values()), None)

    def close_dead(self):
        return 0

    def start(self, name, *, tags, parent=""):
        self.tags[name] = dict(tags)
        return name

    def log(self, run_id, *, params=None, metrics=None, datasets=()):
        self.metrics[run_id] = dict(metrics or {})

    def attach(self, run_id, path, *, folder=""):
        raise AssertionError("nothing to attach")

    def finish(self, run_id):
        pass

    def tag(self, run_id, tags):
        self.tags[run_id].update(tags)


def test_the_run_in_mlflow_has_the_figures_and_the_words(tmp_path):
    study = Study.prepare(tmp_path / "study", log_of(4), n=4, seed=0)
    for pair in study.pairs:
        judged(study, pair, "left")
    result = read_result(tmp_path / "study", early=False, at=AT)
    tracker = FakeTracker()
    run_id = log_side_run(tracker, as_side_run(result))
    metrics = tracker.metrics[run_id]
    assert metrics["blind/criteria/correctness/share"] == 0.5
    assert metrics["blind/n_judged"] == 4
    assert "| correctness | 2 | 2 |" in tracker.tags[run_id]["mlflow.note.content"]
    again = read_result(tmp_path / "study", early=False, at=AT)
    assert log_side_run(tracker, as_side_run(again)) == run_id
    assert len(tracker.metrics) == 1
