"""An explanation in words, for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_LINE_CHARS: Final = 78

_REASONS: Final[Mapping[str, str]] = {
    "best_score": "it has the highest score",
    "exploration": "it was drawn at random, to learn what the others are worth",
    "only_candidate": "it is the only candidate that the hard filter let through",
    "low_confidence": "the best candidate is below the threshold of success",
    "all_filtered": "the hard filter took every candidate out",
    "out_of_distribution": "the state is stranger than is allowed",
    "risk_too_high": "the risk of the best candidate is not bounded by what was asked for",
    "policy": "it is the most likely intervention of the actor",
    "good_enough": "the best attempt so far is likely enough to succeed",
    "not_good_enough": "no attempt so far is likely enough to succeed",
    "forced_check": "the baseline tests once before anything is handed in",
    "nothing_legal": "no intervention makes sense in this state",
}


def in_words(explained: Mapping[str, Any]) -> str:
    """Lines of text, without a line feed at the end."""
    parts = (_asked, _turned_down, _candidates, _decided, _model, _nearest, _missing)
    return "\n".join(line for part in parts for line in part(explained))


def _asked(explained: Mapping[str, Any]) -> Iterator[str]:
    decision, state = explained["decision"], explained["state"]
    yield f"Decision {decision['decision_id']}, {decision['decided_at']}, mode {decision['mode']}"
    yield f"Task: {_cut(state.get('description') or '')}"
    history = state.get("history") or ()
    if history:
        yield f"After {len(history)} steps; the last one: {_cut(history[-1].get('text') or '')}"


def _turned_down(explained: Mapping[str, Any]) -> Iterator[str]:
    for one in explained["turned_down"]:
        reason = one["rule"]["reason"]
        why = one["rule"]["failure"] if reason is None else _REASONS.get(reason, reason)
        yield f"Another try, from which nothing was answered ({why}):"
        yield from _each(one["candidates"])


def _candidates(explained: Mapping[str, Any]) -> Iterator[str]:
    yield "Candidates:"
    yield from _each(explained["candidates"])


def _each(candidates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in candidates:
        marks = ("chosen", item["is_chosen"]), ("answered", item["is_answered"])
        said = ", ".join(word for word, is_so in marks if is_so)
        filtered = f"filtered by {', '.join(item['filtered_by'])}" if item["filtered_by"] else ""
        score = "no score" if item["score"] is None else f"score {item['score']:+.3f}"
        likely = item["success_probability"]
        chance = "" if likely is None else f"success {100 * likely:.0f} %"
        told = "; ".join(filter(None, (score, chance, filtered, said)))
        yield f"  {item['index']}: {told}: {_cut(item['text'] or '')}"


def _decided(explained: Mapping[str, Any]) -> Iterator[str]:
    decision, rule = explained["decision"], explained["rule"]
    if rule["reason"] is None:
        yield f"There was no decision: {rule['failure']}. The agent got its own answer."
        return
    reason = _REASONS.get(rule["reason"], rule["reason"])
    chosen = decision["chosen_index"]
    who = "Nobody was chosen" if chosen is None else f"Candidate {chosen} was chosen"
    yield f"{who}: {reason}{_numbers(decision, rule)}."
    if rule["fallback"]:
        yield f"So the fallback `{rule['fallback']}` decided."
    outcome = explained["outcome"]
    if outcome is None:
        yield "Nobody reported what came of it."
    else:
        success = {True: "success", False: "failure", None: "success unknown"}[outcome["success"]]
        score = "" if outcome["score"] is None else f", score {outcome['score']}"
        yield f"Reported by {outcome['source']}: {success}{score}."


def _numbers(decision: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    said = []
    if rule["threshold"] is not None:
        said.append(f"threshold {rule['threshold']:.3f}")
    for words, name in (
        ("probability of success", "success_probability"),
        ("risk", "risk"),
        ("strangeness", "out_of_distribution"),
    ):
        if decision[name] is not None:
            said.append(f"{words} {decision[name]:.3f}")
    if rule["margin_to_the_next"] is not None:
        said.append(f"{rule['margin_to_the_next']:.3f} ahead of the next")
    if rule["propensity"] not in (None, 1.0):
        said.append(f"propensity {rule['propensity']:.3f}")
    return f" ({', '.join(said)})" if said else ""


def _model(explained: Mapping[str, Any]) -> Iterator[str]:
    model = explained["model"]
    if model["digest"] is None:
        return
    origin = model["registered"]
    version = "not registered" if origin is None else f"{origin['name']} {origin['version']}"
    yield f"Model {model['digest'][:12]}: {version}"
    if origin is not None:
        yield (
            f"  run {origin['run_id']}, revision {origin['git_revision'] or 'unknown'}, "
            f"data {(origin['dataset_digest'] or 'unknown')[:12]}, "
            f"{len(origin['dvc'])} digests of DVC"
        )


def _nearest(explained: Mapping[str, Any]) -> Iterator[str]:
    found = explained["nearest"]
    if not found["rows"]:
        return
    yield f"Nearest training attempts to candidate {found['of_candidate']} ({found['space']}):"
    for row in found["rows"]:
        success = "unknown" if row["success"] is None else f"{row['success']:.2f}"
        reward = "unknown" if row["reward"] is None else f"{row['reward']:+.2f}"
        yield (
            f"  {row['distance']:.3f} away: {row['task_id']}, success {success}, reward {reward}: "
            f"{_cut(row['text'])}"
        )


def _missing(explained: Mapping[str, Any]) -> Iterator[str]:
    for item in explained["missing"]:
        yield f"Missing: {item}"


def _cut(text: str) -> str:
    """The beginning of a text on one line, with nothing that a terminal would obey."""
    line = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "?" for char in line)
    return shown if len(shown) <= _LINE_CHARS else f"{shown[: _LINE_CHARS - 1]}…"
