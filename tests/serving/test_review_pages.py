"""The pages over HTTP: what they show, what they take, and whom they turn away."""

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from harness_core.errors import DecisionLogError
from harness_core.serving.review.app import make_app
from harness_core.serving.review.desk import Desk, ReviewLog
from tests.serving.review_scene import HOSTILE, FakeLog, abstained, code, decided, reviewed


def client_of(log: FakeLog, port: ReviewLog | None = None) -> TestClient:
    app = make_app(desk=Desk(port or log.port()), reviewer="ada")
    return TestClient(
        app, base_url="http://127.0.0.1:8765", follow_redirects=False, raise_server_exceptions=False
    )


def token_of(page: str) -> str:
    found = re.search(r'name="token" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


def send(client: TestClient, decision_id="d1", **form):
    page = client.get("/decision", params={"id": decision_id, "again": 1})
    return client.post(
        "/decision", params={"id": decision_id}, data={"token": token_of(page.text), **form}
    )


def test_the_page_says_why_what_and_which_rules_in_words():
    client = client_of(FakeLog(abstained(1, answered=2)))
    page = unescape(client.get("/decision", params={"id": "d1"}).text)
    for words in (
        "The controller was not sure enough to choose.",
        "Write a function `median(values)`",
        "assert median([1, 2]) == 1.5 failed",
        "It starts a process through a shell",
        "what the agent got",
        "41 %",
    ):
        assert words in page


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ({"action": "approve"}, ("approve", 1, None)),
        ({"action": "choose:2"}, ("choose", 2, None)),
        ({"action": "correct", "correction": "\tx\r\n  y"}, ("correct", None, "\tx\n  y")),
        ({"action": "reject"}, ("reject", None, None)),
        ({"action": "appeal:0"}, ("appeal", 0, None)),
    ],
    ids=["approve", "choose", "correct", "reject", "appeal"],
)
def test_each_button_writes_one_review(form, written):
    log = FakeLog(abstained(1))
    answer = send(client_of(log), note="checked by hand", **form)
    assert answer.status_code == 303
    (review,) = log.reviews
    assert (review.verdict, review.chosen_index, review.correction) == written
    assert (review.decision_id, review.reviewer, review.note) == ("d1", "ada", "checked by hand")


def test_after_a_review_comes_the_next_and_after_the_last_the_empty_queue():
    client = client_of(FakeLog(abstained(1), abstained(2)))
    first = send(client, action="reject")
    assert first.headers["location"] == "/decision?id=d2&done=reject"
    last = send(client, "d2", action="reject")
    assert last.headers["location"] == "/?done=reject"
    page = client.get("/?done=reject").text
    assert "Nothing waits: all 2 are reviewed" in page
    assert "Rejected" in page


def test_an_empty_log_says_so():
    page = client_of(FakeLog(decided(1, chosen=0))).get("/").text
    assert "Nothing waits" in page
    assert "Of 1 decisions in the log none was left to a person" in page


def test_the_second_of_two_people_sees_the_first_and_loses_nothing():
    log = FakeLog(abstained(1))
    client = client_of(log)
    token = token_of(client.get("/decision?id=d1").text)
    log.entries.append(reviewed("d1", "choose", chosen_index=2, reviewer="grace"))
    form = {"token": token, "action": "correct", "correction": "mine = 1", "note": "n"}
    answer = client.post("/decision?id=d1", data=form)
    assert answer.status_code == 409
    assert "Somebody was faster" in answer.text
    assert "chose candidate 3" in answer.text
    assert "mine = 1" in answer.text
    assert len(log.reviews) == 1
    again = client.post("/decision?id=d1", data={**form, "second": "yes"})
    assert again.status_code == 303
    assert [one.correction for one in log.reviews] == [None, "mine = 1"]


def test_after_an_appeal_the_request_still_waits():
    client = client_of(FakeLog(abstained(1)))
    answer = send(client, action="appeal:0")
    assert answer.headers["location"] == "/decision?id=d1&done=appeal_open"
    assert "still waits for a verdict" in client.get(answer.headers["location"]).text


def test_text_of_a_log_stays_text():
    state = {"description": HOSTILE, "history": [{"kind": HOSTILE, "text": HOSTILE}], HOSTILE: 1}
    entry = abstained(
        1,
        candidates=({"kind": HOSTILE, "text": HOSTILE, "arguments": {HOSTILE: HOSTILE}},) * 3,
        filtered={0: (HOSTILE,)},
        state=state,
        session_id=HOSTILE,
        goal={HOSTILE: 1.0},
    )
    log = FakeLog(entry, reviewed("d1", "appeal", chosen_index=0, reviewer=HOSTILE, note=HOSTILE))
    client = client_of(log)
    pages = [
        client.get(path) for path in ("/", "/decision?id=d1", "/decision?id=d1&from=1", "/summary")
    ]
    pages.append(send(client, action="correct", correction="", note=f"</textarea>{HOSTILE}"))
    assert pages[-1].status_code == 422
    for page in pages:
        assert page.text.count("<script") == 1
        assert "<img" not in page.text
        assert not re.search(r"<[^>]*\sonfocus=", page.text)
        assert "\u202e" not in page.text
    whole = client.get("/candidate?id=d1&number=1")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.headers["x-content-type-options"] == "nosniff"


def test_a_correction_keeps_its_first_empty_line():
    client = client_of(FakeLog(abstained(1, candidates=code("a", "\n\n  b", "c"))))
    page = client.get("/decision?id=d1&from=1").text
    assert '<textarea id="correction"' in page
    # A parser drops the first line end behind the tag: one more than the text has stands there.
    assert re.search(r'<textarea id="correction"[^>]*>\n\n\n  b</textarea>', page)


def test_only_loopback_names_are_answered():
    client = client_of(FakeLog(abstained(1)))
    for host in ("attacker.example:8765", "127.0.0.1.attacker.example", "", "[::2]", "a@127.0.0.2"):
        answer = client.get("/", headers={"host": host})
        assert answer.status_code == 400
        assert "median" not in answer.text
    for host in ("localhost:1", "127.0.0.1", "[::1]:8765"):
        assert client.get("/", headers={"host": host}).status_code == 200


def test_a_form_of_another_page_is_turned_away():
    log = FakeLog(abstained(1))
    client = client_of(log)
    token = token_of(client.get("/decision?id=d1").text)
    form = {"token": token, "action": "reject"}
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = client.post("/decision?id=d1", data=form, headers=headers)
        assert answer.status_code == 403
    client.cookies.clear()
    assert client.post("/decision?id=d1", data=form).status_code == 403
    assert not log.reviews


def test_a_form_from_before_a_restart_is_shown_again_with_what_was_typed():
    log = FakeLog(abstained(1))
    client = client_of(log)
    form = {"token": token_of(client.get("/decision?id=d1").text), "action": "correct"}
    restarted = client_of(log)
    restarted.cookies = client.cookies
    answer = restarted.post("/decision?id=d1", data={**form, "correction": "hours_of_work = 3"})
    assert answer.status_code == 403
    assert "hours_of_work = 3" in answer.text
    assert not log.reviews


def test_what_the_disk_refuses_is_shown_again():
    log = FakeLog(abstained(1))
    port = log.port()

    def fail(_):
        raise DecisionLogError("the disk is full")

    client = client_of(log, ReviewLog(read=port.read, append=fail, signature=port.signature))
    answer = send(client, action="correct", correction="typed = 1")
    assert answer.status_code == 503
    assert "the disk is full" in answer.text
    assert "typed = 1" in answer.text


@pytest.mark.parametrize(
    "path", ["/", "/decision?id=d1", "/summary", "/decision?id=no", "/nowhere"]
)
def test_every_answer_forbids_foreign_content_and_frames(path):
    answer = client_of(FakeLog(abstained(1))).get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)
    assert nonce is not None
    assert answer.text.count(f'nonce="{nonce[1]}"') == 2
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r'(src|href|action)="(https?:)?//', answer.text)


def test_nonces_and_tokens_are_never_given_twice():
    client = client_of(FakeLog(abstained(1)))
    policies = {client.get("/").headers["content-security-policy"] for _ in range(5)}
    assert len(policies) == 5
    others = client_of(FakeLog(abstained(1)))
    assert token_of(client.get("/").text) != token_of(others.get("/").text)


def test_the_cookie_is_for_this_page_alone():
    answer = client_of(FakeLog(abstained(1))).get("/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_large_or_foreign_bodies_are_refused():
    client = client_of(FakeLog(abstained(1)))
    assert client.post("/decision?id=d1", json={"action": "reject"}).status_code == 415
    assert client.post("/decision?id=d1", data={"note": "x" * (5 << 20)}).status_code == 413
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/decision?id=d1", content=b"note=%ff", headers=kind).status_code == 400
    many = "&".join(f"f{number}=1" for number in range(50)).encode()
    assert client.post("/decision?id=d1", content=many, headers=kind).status_code == 400


def test_two_people_at_one_server_carry_their_own_names():
    log = FakeLog(abstained(1), abstained(2))
    client = client_of(log)
    token = token_of(client.get("/").text)
    client.post("/reviewer", data={"token": token, "name": "  Grace \u202e Hopper; é "})
    send(client, action="reject")
    assert log.reviews[0].reviewer == "Grace ⟨U+202E⟩ Hopper; é"


def test_the_queue_can_be_narrowed_to_one_cause():
    log = FakeLog(decided(1, chosen=0, filtered={1: ("B602",)}), decided(2, fallback="review"))
    client = client_of(log)
    page = client.get("/?why=abstained").text
    assert "id=d2&amp;why=abstained" in page
    assert "id=d1" not in page
    assert client.get("/?why=<nonsense>").status_code == 200


def test_a_server_fault_shows_a_page_and_no_secrets():
    log = FakeLog(abstained(1))

    def break_down():
        raise RuntimeError("password=hunter2")

    port = ReviewLog(read=break_down, append=log.entries.append, signature=lambda: 1)
    answer = client_of(log, port).get("/")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
