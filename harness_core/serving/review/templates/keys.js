"use strict";
/* Keys move the focus; only Enter writes anything, as on any focused button. */
(() => {
  const said = document.getElementById("said");
  /* Fixed at the bottom, so that what has the focus does not move away. */
  const say = (text) => { said.classList.add("live"); said.textContent = text; };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const cards = all("[data-card]");
  const questions = all("[data-question]");
  let at = -1;
  let asked = -1;

  const focus = (element, words) => {
    if (!element) { say("There is no such button here."); return; }
    element.focus();
    element.scrollIntoView({ block: "nearest" });
    say(words || `${element.dataset.says || element.textContent.trim()}: Enter sends it.`);
  };
  const card = (index) => {
    if (!cards.length) return;
    at = (index + cards.length) % cards.length;
    focus(cards[at], cards[at].getAttribute("aria-label"));
  };
  const question = (index) => {
    if (!questions.length) return;
    asked = Math.max(0, Math.min(index, questions.length - 1));
    questions.forEach((one, number) => one.classList.toggle("now", number === asked));
    const chosen = questions[asked].querySelector("input:checked");
    focus(chosen || questions[asked].querySelector("input"), questions[asked].dataset.question);
  };
  const choose = (value) => {
    if (!questions.length) return;
    if (asked < 0) asked = 0;
    const title = questions[asked].dataset.question;
    questions[asked].querySelector(`input[value=${value}]`).checked = true;
    const open = questions.findIndex((one) => !one.querySelector("input:checked"));
    if (open >= 0) question(open);
    else focus(document.getElementById("send"));
    say(`${title}: ${value}. ${said.textContent}`);
  };
  const help = () => {
    const keys = document.getElementById("help");
    keys.open = !keys.open;
    keys.querySelector("summary").focus();
  };
  const moves = {
    j: () => (questions.length ? question(asked + 1) : card(at + 1)),
    k: () => (questions.length ? question(asked - 1) : card(at < 0 ? -1 : at - 1)),
    a: () => focus(document.querySelector("[data-approve]")),
    x: () => focus(document.getElementById("reject")),
    p: () => focus((cards[at] && cards[at].querySelector("[data-appeal]"))
      || document.querySelector("[data-appeal]")),
    c: () => focus(document.getElementById("correction"), "Correction: Control and Enter send it."),
    n: () => { const skip = document.getElementById("skip"); if (skip) skip.click(); },
    s: () => { const start = document.getElementById("start"); if (start) start.click(); },
    l: () => choose("left"),
    e: () => choose("equal"),
    r: () => choose("right"),
    "?": help,
  };
  moves.ArrowDown = moves.ArrowRight = moves.j;
  moves.ArrowUp = moves.ArrowLeft = moves.k;

  document.addEventListener("focusin", (event) => {
    const within = event.target.closest("[data-card], [data-question]");
    if (!within) return;
    if (cards.includes(within)) at = cards.indexOf(within);
    if (questions.includes(within)) asked = questions.indexOf(within);
  });
  document.addEventListener("keydown", (event) => {
    const into = event.target;
    if (into.id === "correction" && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      into.form.requestSubmit(document.getElementById("correct"));
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (into.matches("textarea, input[type=text]")) {
      if (event.key === "Escape") { into.blur(); card(Math.max(at, 0)); }
      return;
    }
    const isArrow = event.key.startsWith("Arrow");
    if (isArrow && (into.matches("input") || into.closest("pre") || !cards.length)) return;
    let move = Object.hasOwn(moves, event.key) ? moves[event.key] : null;
    if (/^[1-9]$/.test(event.key) && cards[Number(event.key) - 1]) {
      move = () => {
        at = Number(event.key) - 1;
        focus(cards[at].querySelector("button"));
      };
    }
    if (!move) return;
    event.preventDefault();
    move();
  });
  all("form").forEach((form) => form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  }));
  window.addEventListener("pageshow", () => all("form").forEach((form) => {
    delete form.dataset.sent;
  }));
})();
