"""Requests for a model's answer: passed on and scored afterwards, or ranked before the answer."""

from typing import Any, Final

import httpx
import orjson

from harness_core.serving.candidates import Gathered, own_n
from harness_core.serving.choosing import LONG_BODY, Choosing, model_name
from harness_core.serving.config import K_LIMIT
from harness_core.serving.conversation import Question, question_of
from harness_core.serving.deciding import Wish
from harness_core.serving.dialect import Dialect
from harness_core.serving.endpoint import (
    DECISION_ID,
    REASON,
    USAGE,
    Asked,
    Endpoint,
    Kept,
    Services,
    plain_headers,
    read_object,
    without_harness,
)
from harness_core.serving.judging import Judged, log_entry, new_decision_id, watch
from harness_core.serving.knobs import HarnessFields, read_fields
from harness_core.serving.refusals import Refusal
from harness_core.serving.relay import is_event_stream, send_made
from harness_core.serving.streams import read_stream
from harness_core.trajectories.decision_log import LoggedDecision
from harness_core.trajectories.schema import JsonObject

SHADOW_S: Final = 30.0
"""Time for a decision that nobody waits for."""


class ModelEndpoint(Endpoint):
    """Serves one way of asking a model."""

    def __init__(self, services: Services, dialect: Dialect) -> None:
        super().__init__(services, dialect.path)
        self._dialect = dialect

    def _read(self, content: bytes) -> JsonObject | None:
        return read_object(content)

    async def serve(self, asked: Asked) -> None:
        """Answer in the mode that the request is in."""
        mode = asked.knobs.mode
        if mode == "off":
            call = without_harness(asked.call, asked.body)
            await self.relay(
                Asked(call=call, body=None, knobs=asked.knobs, send=asked.send),
                headers=(),
                keep=None,
            )
        elif mode == "shadow":
            await self._shadow(asked)
        else:
            await self._choose(asked)

    async def _shadow(self, asked: Asked) -> None:
        services = self._services
        fields = read_fields(asked.body or {})
        decision_id = new_decision_id()
        kept = Kept(services.config.limits.max_reply_bytes)
        passed = Asked(
            call=without_harness(asked.call, asked.body),
            body=asked.body,
            knobs=asked.knobs,
            send=asked.send,
        )
        headers = [(DECISION_ID, decision_id.encode())]
        response = await self.relay(passed, headers=headers, keep=kept)
        if response is not None and response.is_success:
            services.recorder.afterwards(
                self._afterwards(asked, fields, decision_id, kept, response)
            )

    async def _afterwards(
        self,
        asked: Asked,
        fields: HarnessFields,
        decision_id: str,
        kept: Kept,
        response: httpx.Response,
    ) -> None:
        """Score what was answered, and log it."""
        services, dialect = self._services, self._dialect

        def read() -> tuple[Question, dict[str, int]] | None:
            reply = self._reply(kept, response)
            choices = [] if reply is None else dialect.choices(reply)
            if reply is None or not choices:
                return None
            said = [dialect.said(choice) for choice in choices]
            question = question_of(
                dialect.messages(asked.body or {}), said, fields, model=model_name(reply, asked)
            )
            return question, dialect.usage(reply)

        is_long = max(kept.n_bytes, len(asked.call.content)) > LONG_BODY
        try:
            # Another thread would cost the event loop more than a short conversation does.
            found = await services.scorer.aside(read) if is_long else read()
        except (ValueError, RuntimeError):
            found = None
        if found is None:
            self._opened("unreadable")
            return
        question, usage = found
        goal = asked.knobs.goal or fields.goal
        wish = Wish(question, goal, is_urgent=False)
        judged = await watch(services.scorer, wish, budget_s=SHADOW_S)
        self._note(asked, judged)
        services.metrics.used(usage)
        services.recorder.put(
            lambda: log_entry(
                # The agent got its own first candidate, whatever was chosen.
                judged,
                question,
                decision_id=decision_id,
                mode="shadow",
                session_id=fields.session_id,
                goal=goal,
                answered=[0],
                usage=usage,
                n_asked=own_n(asked.body or {}),
            )
        )

    def _reply(self, kept: Kept, response: httpx.Response) -> JsonObject | None:
        content = kept.content(response)
        if content is None:
            return None
        if not is_event_stream(response):
            return read_object(content)
        stream = read_stream(content)
        reply = self._dialect.assemble(stream)
        for oddity in stream.oddities:
            self._services.metrics.odd_streams.labels(oddity=oddity).inc()
        return reply

    async def _choose(self, asked: Asked) -> None:
        """Get candidates, choose, and answer with the best."""
        services, body = self._services, asked.body
        if body is None:
            raise Refusal(400, "invalid_json", "The body is no JSON object.")
        fields = read_fields(body)
        n = own_n(body)
        if n > K_LIMIT:
            raise Refusal(
                400, "invalid_value", f"n: this proxy ranks at most {K_LIMIT} choices.", param="n"
            )
        choosing = Choosing(services, self._dialect, asked, fields)
        found = await choosing.choose()
        gathered, judged, question = found.gathered, found.judged, found.question
        if not gathered.candidates:
            await self._fail(asked, gathered)
            return
        decision_id = new_decision_id()
        self._note(asked, judged)
        services.metrics.used(gathered.usage)

        def entry() -> LoggedDecision:
            assert question is not None
            return log_entry(
                judged,
                question,
                decision_id=decision_id,
                mode=asked.knobs.mode,
                session_id=fields.session_id,
                goal=asked.knobs.goal or fields.goal,
                answered=judged.order[:n],
                usage=gathered.usage,
                n_asked=gathered.n_asked,
                turned_down=choosing.turned_down,
            )

        if question is not None:
            await services.recorder.keep(entry)
        await self._answer(asked, gathered, judged, decision_id=decision_id, n=n)

    async def _answer(
        self, asked: Asked, gathered: Gathered, judged: Judged, *, decision_id: str, n: int
    ) -> None:
        dialect = self._dialect
        picked = [gathered.candidates[index] for index in judged.order[:n]]
        if picked:
            answer = dialect.answer(picked, decision_id=decision_id)
        else:
            rules = ", ".join(sorted(set(judged.rules)))
            reason = f"No candidate may be answered ({rules or judged.reason})."
            reply = gathered.candidates[0].reply
            answer = dialect.withheld(reply, reason=reason, decision_id=decision_id)
        streamed = bool((asked.body or {}).get("stream"))
        # Made as a whole first: nothing may break once the answer has begun.
        content = (
            list(dialect.stream(answer, asked.body or {})) if streamed else [orjson.dumps(answer)]
        )
        assert gathered.first is not None  # candidates come in good replies
        more = [
            (DECISION_ID, decision_id.encode()),
            (REASON, judged.reason.encode()),
            (USAGE, orjson.dumps(gathered.cost)),
            *([(b"x-harness-review", b"required")] if judged.review else []),
        ]
        await send_made(
            asked.send, content, headers=gathered.first.headers, more=more, streamed=streamed
        )

    async def _fail(self, asked: Asked, gathered: Gathered) -> None:
        """Pass on what the upstream said instead of candidates."""
        failure = gathered.failure or gathered.first
        if failure is None or isinstance(failure, Refusal):
            raise failure or Refusal(502, "upstream_unreachable", "The upstream gave nothing.")
        if failure.is_ok and failure.document is None:
            raise Refusal(502, "upstream_unreadable", "The upstream's answer is no JSON object.")
        headers = plain_headers(failure.headers)
        start: dict[str, Any] = {"type": "http.response.start", "status": failure.status}
        await asked.send({**start, "headers": headers})
        await asked.send({"type": "http.response.body", "body": failure.content})

    def _note(self, asked: Asked, judged: Judged) -> None:
        metrics = self._services.metrics
        metrics.reasons.labels(mode=asked.knobs.mode, reason=judged.reason).inc()
        if judged.n_denied:
            metrics.filtered.inc(judged.n_denied)
        if judged.is_open:
            self._opened(judged.failure or judged.reason)

    def _opened(self, reason: str) -> None:
        self._services.metrics.fail_open.labels(reason=reason).inc()
