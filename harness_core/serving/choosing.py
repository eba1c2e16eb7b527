"""From one request to the candidates that may be answered: how many are asked for, and how often.

With a price of candidates the first two are asked for, and then as many again for as long as the
controller thinks that one more is worth it. Where the controller would rather have another try
under a template of guidance, the model is asked again with the template's text before the prompt.
"""

import time
from dataclasses import dataclass
from typing import Final

from harness_core.controller.decision import GuidanceRetry
from harness_core.importers.chat import Message
from harness_core.serving.candidates import Candidate, Gathered, gather, own_n
from harness_core.serving.conversation import Question, question_of
from harness_core.serving.deciding import Wish
from harness_core.serving.dialect import Dialect
from harness_core.serving.endpoint import Asked, Services
from harness_core.serving.judging import Judged, rank, sift
from harness_core.serving.knobs import HarnessFields
from harness_core.trajectories.guidance import Guided, with_guidance
from harness_core.trajectories.schema import JsonObject

MAX_ROUNDS: Final = 3
"""Tries under guidance within one request."""
_FIRST: Final = 2
"""Candidates that are asked for where each has its price: fewer leave nothing to choose."""
LONG_BODY: Final = 1 << 16
"""Bytes above which a conversation is taken apart outside the event loop."""


@dataclass(frozen=True, slots=True)
class Round:
    """Candidates, and what is thought of them."""

    gathered: Gathered
    judged: Judged
    question: Question | None
    """What was decided on; None where nothing could be read."""


class Choosing:
    """One request on its way to its candidates."""

    def __init__(
        self, services: Services, dialect: Dialect, asked: Asked, fields: HarnessFields
    ) -> None:
        self._services = services
        self._dialect = dialect
        self._asked = asked
        self._fields = fields
        self._n = own_n(asked.body or {})
        self._n_asked = 0
        self._had: list[str] = []
        """Templates under which the model was asked."""
        self._tried: list[JsonObject] = []
        """The first candidates of tries under guidance that were turned down."""
        self.turned_down: list[tuple[Judged, Question]] = []
        """Tries of which nothing is answered, for the log."""

    async def choose(self) -> Round:
        """Ask and judge until candidates may be answered; there may be none at all."""
        body = self._asked.body or {}
        began = time.monotonic()
        found = await self._round(body, None)
        for _ in range(MAX_ROUNDS):
            # What it took so far is likely to be what it takes again, at most.
            if 2 * (time.monotonic() - began) > self._services.config.limits.read_s:
                break
            retry = await self._retry(found)
            guided = None if retry is None else self._dialect.guided(body, retry.text)
            if retry is None or guided is None:
                break
            again = await self._round(guided, Guided(id=retry.template_id, propensity=1.0))
            if not again.judged.order:
                # Nothing came of it: what there was before may still be answered.
                found.gathered.add_cost(again.gathered)
                self._turn_down(again)
                break
            again.gathered.add_cost(found.gathered)
            self._turn_down(found)
            found = again
            self._had.append(retry.template_id)
        return found

    def _turn_down(self, one: Round) -> None:
        if one.question is not None:
            self.turned_down.append((one.judged, one.question))

    async def _retry(self, found: Round) -> GuidanceRetry | None:
        """With which template to ask next, if the controller doesn't trust what there is."""
        retry, question = found.judged.retry, found.question
        if retry is None or question is None or retry.template_id not in self._had:
            return retry
        # It is not told of tries when it judges, lest they change what it judges. To name another
        # template it has to know of them: guided tries are told by the steps of the history.
        self._tried.append(question.candidates[found.judged.order[0]])
        history = [*question.state["history"], *self._tried]
        told = question._replace(state={**question.state, "history": history})
        budget_s = self._asked.knobs.budget_s
        scored = await self._services.scorer.score(Wish(told), budget_s=budget_s)
        other = None if scored.decision is None else scored.decision.guidance
        return None if other is None or other.template_id in self._had else other

    async def _round(self, body: JsonObject, mark: Guided | None) -> Round:
        knobs = self._asked.knobs
        first, most = self._first_and_most()
        gathered = await self._gather(body, first)
        if not gathered.candidates:
            return Round(gathered, Judged(order=(), reason="no_candidates"), None)
        judged, question = await self._judge(gathered, mark)
        while judged.wants_more and gathered.n_asked < most:
            wanted = min(gathered.n_asked, most - gathered.n_asked)
            gathered.join(more := await self._gather(body, wanted))
            if not more.candidates:
                break
            judged, question = await self._judge(gathered, mark)
        is_short = knobs.mode == "filter" and len(judged.order) < self._n < knobs.k
        if is_short:
            gathered.join(await self._gather(body, knobs.k - self._n))
            judged, question = await self._judge(gathered, mark)
        return Round(gathered, judged, question)

    def _first_and_most(self) -> tuple[int, int]:
        """How many candidates are asked for at once, and altogether."""
        knobs, in_use = self._asked.knobs, self._services.scorer.in_use
        if knobs.mode == "filter":
            return self._n, self._n
        if knobs.price is None or in_use is None:
            most = max(self._n, knobs.k)
            return most, most
        most = max(self._n, min(knobs.k, in_use.k_max or knobs.k))
        return max(self._n, min(_FIRST, most)), most

    async def _gather(self, body: JsonObject, wanted: int) -> Gathered:
        before, self._n_asked = self._n_asked, self._n_asked + wanted
        upstream, call = self._services.upstream, self._asked.call
        return await gather(upstream, self._dialect, call, body, wanted=wanted, before=before)

    async def _judge(
        self, gathered: Gathered, mark: Guided | None
    ) -> tuple[Judged, Question | None]:
        scorer, knobs = self._services.scorer, self._asked.knobs
        readable = [(item, said) for item in gathered.candidates if (said := self._said(item))]
        gathered.candidates = [item for item, _ in readable] or gathered.candidates
        if not readable:
            # Nothing is known of them, not even that they are harmless.
            return Judged(order=(), reason="unreadable", failure="unreadable"), None
        reply = readable[0][0].reply

        def read() -> Question:
            # The client's own messages: guidance is ours, and stands with the candidates.
            body = self._asked.body or {}
            try:
                messages = self._dialect.messages(body)
            except ValueError:
                messages = []
            said = [one for _, one in readable]
            model = model_name(reply, self._asked)
            return _marked(question_of(messages, said, self._fields, model=model), mark)

        is_long = len(self._asked.call.content) > LONG_BODY
        question = await scorer.aside(read) if is_long else read()
        if knobs.mode == "filter":
            return await sift(scorer, question), question
        goal = knobs.goal or self._fields.goal
        wish = Wish(question, goal, knobs.price)
        return await rank(scorer, wish, budget_s=knobs.budget_s), question

    def _said(self, item: Candidate) -> Message | None:
        try:
            return self._dialect.said(item.choice)
        except ValueError:
            return None


def model_name(reply: JsonObject, asked: Asked) -> str:
    """Name of the model: as the answer has it, else as it was asked for."""
    return str(reply.get("model") or (asked.body or {}).get("model") or "")


def _marked(question: Question, mark: Guided | None) -> Question:
    if mark is None:
        return question
    candidates = tuple(
        {**one, "arguments": with_guidance(one.get("arguments", {}), mark)}
        for one in question.candidates
    )
    return question._replace(candidates=candidates)
