"""Decisions within a time budget, or the reason why there is none; and the rules that need none."""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from harness_core.controller.decision import Decision
from harness_core.controller.guard import filter_dangerous, needing_review
from harness_core.rewards.tool_policy import ToolPolicy
from harness_core.serving.conversation import Question, actions_of
from harness_core.serving.deciding import Answered, Decider, Failure, InUse, Wish
from harness_core.serving.metrics import ProxyMetrics
from harness_core.trajectories.vocabulary import Language

N_THREADS: Final = 2
SCREEN_S: Final = 5.0
"""Time for the danger rules; a candidate that takes them longer counts as one that broke them."""
NOT_SCREENED: Final = ("not_screened",)

_Result = TypeVar("_Result")


class Scored(NamedTuple):
    """A decision, or why there is none."""

    decision: Decision | None
    failure: Failure | None
    wants_more: bool = False
    """Whether one more candidate would be worth its price."""


class Screened(NamedTuple):
    """What danger rules and tool policy say of the candidates, by their index."""

    denied: dict[int, tuple[str, ...]]
    to_review: dict[int, tuple[str, ...]]


class Scorer:
    """Asks whoever decides, and holds to the rules where nobody does."""

    def __init__(self, policy: ToolPolicy, metrics: ProxyMetrics, decider: Decider) -> None:
        self.decider = decider
        self._policy = policy
        self._metrics = metrics
        # In this process, so that the deny list holds while nobody can decide.
        self._screens = ThreadPoolExecutor(N_THREADS, thread_name_prefix="screen")

    @property
    def in_use(self) -> InUse | None:
        """The model that decides."""
        return self.decider.in_use

    async def score(self, wish: Wish, *, budget_s: float) -> Scored:
        """Choose among the candidates of a question; never raises."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(budget_s):
                found = await self.decider.decide(wish)
        except TimeoutError:
            found = "timeout"
        if isinstance(found, Answered) or found == "timeout":
            self._metrics.scoring.observe(time.perf_counter() - began)
        if isinstance(found, Answered):
            return Scored(found.decision, None, found.wants_more)
        return Scored(None, found)

    async def screen(self, question: Question) -> Screened:
        """Apply the rules that need no model. What cannot be screened in time is denied."""
        language = Language(question.state["language"])
        denied: dict[int, tuple[str, ...]] = {}
        to_review: dict[int, tuple[str, ...]] = {}
        for index, candidate in enumerate(question.candidates):
            try:
                future = self._screens.submit(_screen, candidate, language, self._policy)
                async with asyncio.timeout(SCREEN_S):
                    rules, review = await asyncio.wrap_future(future)
            except (TimeoutError, RuntimeError):
                rules, review = NOT_SCREENED, ()
            if rules:
                denied[index] = rules
            if review:
                to_review[index] = review
        return Screened(denied, to_review)

    async def aside(self, work: Callable[[], _Result]) -> _Result:
        """Do something that takes a while without holding the event loop up."""
        return await asyncio.wrap_future(self._screens.submit(work))

    async def close(self) -> None:
        """Stop; whoever still asks is told that there is no scorer."""
        self._screens.shutdown(wait=False, cancel_futures=True)
        await self.decider.close()


def _screen(
    candidate: Mapping[str, Any], language: Language, policy: ToolPolicy
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        actions = actions_of([dict(candidate)])
        broken = filter_dangerous(actions, language=language, policy=policy)
        review = needing_review(actions, policy=policy)
    except BaseException:  # noqa: BLE001  # what the rules cannot read is not known to be harmless
        return NOT_SCREENED, ()
    return (
        tuple(rule for item in broken for rule in item.rules),
        tuple(rule for item in review for rule in item.rules),
    )
