"""The pages in a real browser: by keyboard alone, without scripts, asking nobody else."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from harness_core.serving.review.app import make_app
from harness_core.serving.review.blind_study import Study
from harness_core.serving.review.desk import Desk
from tests.serving.review_scene import HOSTILE, MEDIAN, FakeLog, abstained, code, decided, serving

_CONTRAST = """() => {
  const light = (c) => {
    const s = c / 255;
    return s <= .03928 ? s / 12.92 : ((s + .055) / 1.055) ** 2.4;
  };
  const lum = ([r, g, b]) => .2126 * light(r) + .7152 * light(g) + .0722 * light(b);
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!own || !node.getClientRects().length || node.closest("script, style, .jump")) continue;
    const [a, b] = [lum(rgb(getComputedStyle(node).color)), lum(behind(node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)}`);
  }
  return poor;
}"""
_UNNAMED = """() => [...document.querySelectorAll("button, a, input:not([type=hidden]), textarea")]
  .filter((one) => !(one.textContent.trim() || one.labels?.length || one.ariaLabel))
  .map((one) => one.outerHTML)"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


class Visit:
    """One page with all that went wrong on it."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append("a dialog"))
        self.page.on(
            "request",
            lambda asked: (
                None if asked.url.startswith((url, "data:,")) else self.problems.append(asked.url)
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


def app_of(log: FakeLog, study: Study | None = None) -> Any:
    return make_app(desk=Desk(log.port()), study=study, reviewer="ada")


def test_a_decision_is_reviewed_by_keyboard_alone(browser):
    log = FakeLog(*(abstained(number) for number in range(1, 7)))
    with serving(app_of(log)) as url, Visit(browser, url) as visit:
        page = visit.page
        page.goto(url)
        visit.press("s")
        page.wait_for_url("**/decision?id=d1")
        visit.press("3")
        assert "Choose candidate 3" in page.locator("#said").inner_text()
        assert not log.reviews
        visit.press("Enter")
        page.wait_for_url("**/decision?id=d2&done=choose")
        visit.press("a", "Enter")
        page.wait_for_url("**/decision?id=d3&done=approve")
        visit.press("x", "Enter")
        page.wait_for_url("**/decision?id=d4&done=reject")
        visit.press("c")
        page.keyboard.type("def f():\n\treturn 'a'\njkaxp? 123")
        visit.press("Control+Enter")
        page.wait_for_url("**/decision?id=d5&done=correct")
        visit.press("p", "Enter")
        page.wait_for_url("**/decision?id=d5&done=appeal_open")
        visit.press("n")
        page.wait_for_url("**/decision?id=d6")
        assert visit.problems == []
    written = [(one.decision_id, one.verdict, one.chosen_index) for one in log.reviews]
    assert written == [
        ("d1", "choose", 2),
        ("d2", "approve", 1),
        ("d3", "reject", None),
        ("d4", "correct", None),
        ("d5", "appeal", 0),
    ]
    assert log.reviews[3].correction == "def f():\n\treturn 'a'\njkaxp? 123"


def test_keys_move_between_candidates_and_write_nothing(browser):
    log = FakeLog(abstained(1))
    with serving(app_of(log)) as url, Visit(browser, url) as visit:
        visit.page.goto(f"{url}/decision?id=d1")
        seen = []
        for key in ("j", "ArrowRight", "j", "j", "k", "ArrowUp"):
            visit.press(key)
            seen.append(visit.page.evaluate("document.activeElement.getAttribute('aria-label')"))
        assert [label[10] for label in seen] == ["1", "2", "3", "1", "3", "2"]
        visit.press("?")
        assert visit.page.locator("#help").get_attribute("open") is not None
        visit.press("c", "Escape")
        assert visit.page.evaluate("document.activeElement.tagName") == "ARTICLE"
        assert visit.problems == []
    assert not log.reviews


def test_everything_works_without_scripts(browser):
    log = FakeLog(abstained(1), abstained(2), abstained(3))
    with serving(app_of(log)) as url, Visit(browser, url, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(url)
        page.get_by_role("link", name="Start with the oldest").click()
        page.get_by_role("button", name="Choose this one").click()
        page.get_by_role("button", name="It is harmless: appeal").click()
        page.get_by_role("link", name="Correct it").nth(2).click()
        assert page.locator("#correction").input_value() == MEDIAN
        page.locator("#correction").fill(MEDIAN + "\n# checked\n")
        page.get_by_role("button", name="Send the correction").click()
        page.get_by_role("button", name="Reject every candidate").click()
        assert "Nothing waits" in page.locator("h1").inner_text()
        assert visit.problems == []
    assert [one.verdict for one in log.reviews] == ["choose", "appeal", "correct", "reject"]
    assert log.reviews[2].correction == MEDIAN + "\n# checked\n"


def test_hostile_text_neither_runs_nor_loads(browser):
    entry = abstained(1, candidates=code(HOSTILE, HOSTILE, f"</pre></code>{HOSTILE}"))
    with serving(app_of(FakeLog(entry))) as url, Visit(browser, url) as visit:
        visit.page.goto(f"{url}/decision?id=d1&from=0")
        visit.press("j", "j", "c")
        assert visit.page.title() == "Decision – harness"
        assert visit.page.locator("img").count() == 0
        assert "<script>" in visit.page.locator("article").first.inner_text()
        assert visit.problems == []


def test_pairs_are_judged_blindly_by_keyboard(browser, tmp_path):
    study = Study.prepare(
        tmp_path / "study", [decided(number, chosen=1) for number in range(2)], n=2, seed=0
    )
    app = make_app(study=study, reviewer="ada")
    with serving(app) as url, Visit(browser, url) as visit:
        page = visit.page
        page.goto(url)
        first = page.locator("input[name=pair]").input_value()
        visit.press("l", "e", "r", "Enter")
        page.wait_for_url("**/blind?done=yes")
        visit.press("j", "r", "l", "e", "k", "l", "Enter")
        page.get_by_text("You have judged all 2 pairs").wait_for()
        assert visit.problems == []
    found = {one.pair_id: (one.correctness, one.brevity, one.safety) for one in study.judgements()}
    assert found[first] == ("left", "equal", "right")
    assert len(found) == 2


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("path", ["/", "/decision?id=d1", "/decision?id=d2", "/summary", "/blind"])
def test_pages_fit_are_readable_and_name_their_controls(browser, tmp_path, width, path):
    long = code("x = " + "'long' + " * 200 + "1\n", "y" * 3000, MEDIAN)
    log = FakeLog(abstained(1), abstained(2, candidates=long))
    study = Study.prepare(tmp_path / "study", [decided(1, chosen=1)], n=1, seed=0)
    with serving(app_of(log, study)) as url, Visit(browser, url) as visit:
        visit.page.set_viewport_size({"width": width, "height": 800})
        visit.page.goto(f"{url}{path}")
        visit.press("j")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(_CONTRAST) == []
        assert visit.page.evaluate(_UNNAMED) == []
        assert visit.page.locator("h1").count() == 1
        assert visit.page.locator("[role=status][aria-live=polite]").count() == 1
        assert visit.problems == []


def test_the_focus_goes_through_the_page_in_reading_order_and_can_be_seen(browser):
    with serving(app_of(FakeLog(abstained(1)))) as url, Visit(browser, url) as visit:
        page = visit.page
        page.goto(f"{url}/decision?id=d1")
        tops, rings = [], set()
        for _ in range(40):
            visit.press("Tab")
            found = page.evaluate(
                """() => { const one = document.activeElement, box = one.getBoundingClientRect();
                return one === document.body ? null
                  : [box.top + scrollY, getComputedStyle(one).outlineWidth, one.className]; }"""
            )
            if found is None:
                break
            if found[2] != "jump":
                tops.append(found[0])
                rings.add(found[1])
        assert len(tops) > 15
        assert rings == {"3px"}
        # Candidates stand side by side, so that within their row the way goes up and down.
        assert tops[-1] > tops[0]
        assert all(later > earlier - 400 for earlier, later in pairwise(tops))
