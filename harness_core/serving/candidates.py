"""Getting K candidates from an upstream: in one call, or one by one where it takes no `n`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness_core.serving.dialect import TOKENS, Dialect
from harness_core.serving.knobs import BODY_KEY
from harness_core.serving.refusals import Refusal
from harness_core.serving.upstream import Call, Reply, Upstream
from harness_core.trajectories.schema import JsonObject

_MAY_BE_N: Final = frozenset({400, 422, 501})
"""Statuses with which upstreams refuse an `n` that they don't know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One choice with the reply that it came in."""

    reply: JsonObject
    choice: JsonObject


@dataclass(slots=True, kw_only=True)
class Gathered:
    """What an upstream gave."""

    candidates: list[Candidate] = field(default_factory=list)
    first: Reply | None = None
    """The first good reply, whose headers are passed on."""
    failure: Reply | Refusal | None = None
    """The first reply that was none."""
    usage: dict[str, int] = field(default_factory=dict)
    """Tokens of all calls together."""
    n_calls: int = 0
    n_asked: int = 0
    """How many candidates were asked for."""

    def add(self, dialect: Dialect, replies: Sequence[Reply | Refusal]) -> None:
        """Take in replies."""
        for reply in replies:
            self.n_calls += 1
            document = None if isinstance(reply, Refusal) or not reply.is_ok else reply.document
            if document is None or isinstance(reply, Refusal):
                self.failure = self.failure or reply
                continue
            self.first = self.first or reply
            self.candidates += [
                Candidate(reply=document, choice=choice) for choice in dialect.choices(document)
            ]
            for name, value in dialect.usage(document).items():
                self.usage[name] = self.usage.get(name, 0) + value

    def join(self, other: "Gathered") -> None:
        """Take in what was gathered later, at the same conversation."""
        self.candidates += other.candidates
        self.first = self.first or other.first
        self.failure = self.failure or other.failure
        self.add_cost(other)

    def add_cost(self, other: "Gathered") -> None:
        """Count what was paid for candidates that are not among ours."""
        self.n_calls += other.n_calls
        self.n_asked += other.n_asked
        for name, value in other.usage.items():
            self.usage[name] = self.usage.get(name, 0) + value

    @property
    def cost(self) -> dict[str, int]:
        """True usage of all calls, as the client is told."""
        known = {name: self.usage.get(name, 0) for name in TOKENS}
        return {**known, "total_tokens": sum(known.values()), "calls": self.n_calls}


def own_n(body: Mapping[str, Any]) -> int:
    """How many choices the client wants."""
    n = body.get("n")
    return n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else 1


def sent_body(body: JsonObject) -> JsonObject:
    """What of a request is meant for the upstream."""
    return {key: value for key, value in body.items() if key != BODY_KEY}


async def gather(
    upstream: Upstream, dialect: Dialect, call: Call, body: JsonObject, *, wanted: int, before: int
) -> Gathered:
    """Ask for candidates until there are `wanted` ones, or the upstream gives no more.

    Args:
        upstream: whom to ask.
        dialect: of the endpoint.
        call: the client's request.
        body: its JSON.
        wanted: number of candidates.
        before: how many of this request were asked for before: these ones must be others.
    """
    gathered = await _gather(upstream, dialect, call, body, wanted=wanted, before=before)
    gathered.n_asked = wanted
    return gathered


async def _gather(
    upstream: Upstream, dialect: Dialect, call: Call, body: JsonObject, *, wanted: int, before: int
) -> Gathered:
    gathered = Gathered()
    model = f"{dialect.path} {body.get('model')}"
    single = {
        key: value
        for key, value in sent_body(body).items()
        if key not in ("n", "best_of", "stream_options")
    }
    if "stream" in single:
        single["stream"] = False
    if dialect.takes_n and wanted > 1 and not upstream.refuses_n(model):
        together = _numbered(_together(single, body, wanted), before)
        gathered.add(dialect, [await _try(upstream, call.asking(together, number=before))])
        refused = gathered.failure
        if refused is not None:
            if not isinstance(refused, Reply) or refused.status not in _MAY_BE_N:
                return gathered
            # Perhaps it minds the `n`, perhaps something else: one candidate alone will tell.
            gathered = Gathered(n_calls=gathered.n_calls)
            alone = call.asking(_numbered(single, before), number=before)
            gathered.add(dialect, [await _try(upstream, alone)])
            if gathered.failure is not None:
                return gathered
        if len(gathered.candidates) < wanted and gathered.candidates:
            upstream.note_refusal(model)
    missing = wanted - len(gathered.candidates)
    if missing > 0 and (gathered.candidates or not gathered.n_calls):
        calls = [
            call.asking(_numbered(single, number), number=number)
            for number in range(before + gathered.n_calls, before + gathered.n_calls + missing)
        ]
        gathered.add(dialect, await upstream.ask_all(calls))
    return gathered


async def _try(upstream: Upstream, call: Call) -> Reply | Refusal:
    try:
        return await upstream.ask(call)
    except Refusal as refusal:
        return refusal


def _together(single: JsonObject, body: JsonObject, wanted: int) -> JsonObject:
    asked = {**single, "n": wanted}
    if isinstance(body.get("best_of"), int):
        asked["best_of"] = max(wanted, body["best_of"])
    return asked


def _numbered(single: JsonObject, number: int) -> JsonObject:
    """A seed that is the same for all would make all candidates the same."""
    seed = single.get("seed")
    if number and isinstance(seed, int) and not isinstance(seed, bool):
        return {**single, "seed": seed + number}
    return single
