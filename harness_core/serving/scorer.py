"""Decisions in threads of their own, within a time budget, or the reason why there is none."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from harness_core.controller.decision import Decision
from harness_core.controller.guard import filter_dangerous, needing_review
from harness_core.errors import ParameterError
from harness_core.rewards.tool_policy import ToolPolicy
from harness_core.serving.conversation import Question, actions_of
from harness_core.serving.metrics import ProxyMetrics
from harness_core.trajectories.vocabulary import Language

N_THREADS: Final = 2
SCREEN_S: Final = 5.0
"""Time for the danger rules; a candidate that takes them longer counts as one that broke them."""
CLOSE_S: Final = 30.0
"""How long a model that is no longer used may still be asked before it is closed all the same."""
NOT_SCREENED: Final = ("not_screened",)

Failure = Literal["timeout", "busy", "no_model", "bad_state", "scorer_error"]
_LOG = logging.getLogger("harness")
_Result = TypeVar("_Result")


class Selector(Protocol):
    """What chooses: a `Controller`, or a fake of one."""

    def select(
        self,
        state: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        goal: Mapping[str, float] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> Decision:
        """Choose one of K candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModel:
    """A model that is ready to choose."""

    version: str
    selector: Selector
    close: Callable[[], None] = lambda: None
    """Frees what belongs to it, once it is not used any more."""


class Scored(NamedTuple):
    """A decision, or why there is none."""

    decision: Decision | None
    failure: Failure | None
    seconds: float


class Screened(NamedTuple):
    """What danger rules and tool policy say of the candidates, by their index."""

    denied: dict[int, tuple[str, ...]]
    to_review: dict[int, tuple[str, ...]]


class Scorer:
    """Holds the model in use; no decision is ever made on the event loop."""

    def __init__(self, policy: ToolPolicy, metrics: ProxyMetrics, *, max_waiting: int) -> None:
        self.model: OpenModel | None = None
        self._policy = policy
        self._metrics = metrics
        self._slots = threading.BoundedSemaphore(max_waiting)
        self._idle = threading.Condition()
        self._n_asking: Counter[str] = Counter()
        self._deciders = ThreadPoolExecutor(N_THREADS, thread_name_prefix="decide")
        # Apart, so that the deny list holds while every decider hangs.
        self._screens = ThreadPoolExecutor(N_THREADS, thread_name_prefix="screen")

    async def score(
        self, question: Question, goal: Mapping[str, float] | None, *, budget_s: float
    ) -> Scored:
        """Choose among the candidates of a question; never raises."""
        began = time.perf_counter()
        if self.model is None:
            return Scored(None, "no_model", 0.0)
        if not self._slots.acquire(blocking=False):
            return Scored(None, "busy", 0.0)
        try:
            future = self._deciders.submit(self._select, question, goal)
        except RuntimeError:  # the pool was shut down
            self._slots.release()
            return Scored(None, "scorer_error", 0.0)
        future.add_done_callback(lambda _: self._slots.release())
        try:
            async with asyncio.timeout(budget_s):
                result = await asyncio.wrap_future(future)
        except TimeoutError:
            result = "timeout"
        seconds = time.perf_counter() - began
        self._metrics.scoring.observe(seconds)
        if isinstance(result, Decision):
            return Scored(result, None, seconds)
        return Scored(None, result, seconds)

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

    def swap(self, model: OpenModel | None) -> None:
        """Use another model from now on; close the old one once nobody asks it any more."""
        with self._idle:
            old, self.model = self.model, model
            self._metrics.in_use(None if model is None else model.version)
            if old is not None:
                self._idle.wait_for(lambda: not self._n_asking[old.version], timeout=CLOSE_S)
        if old is not None:
            old.close()

    @contextmanager
    def _asking(self) -> Iterator[OpenModel | None]:
        """The model in use, which is not closed meanwhile."""
        with self._idle:
            model = self.model
            version = "" if model is None else model.version
            self._n_asking[version] += 1
        try:
            yield model
        finally:
            with self._idle:
                self._n_asking[version] -= 1
                self._idle.notify_all()

    def _select(self, question: Question, goal: Mapping[str, float] | None) -> Decision | Failure:
        try:
            with self._asking() as model:
                if model is None:
                    return "no_model"
                return model.selector.select(question.state, question.candidates, goal)
        except ParameterError as error:
            _LOG.warning("proxy: the controller cannot read the state: %s", error)
            return "bad_state"
        except BaseException as error:  # noqa: BLE001  # whatever breaks, the agent gets an answer
            _LOG.warning("proxy: no decision: %s", type(error).__name__)
            return "scorer_error"

    def close(self) -> None:
        """Stop; whoever still asks is told that there is no scorer."""
        for pool in (self._deciders, self._screens):
            pool.shutdown(wait=False, cancel_futures=True)
        model, self.model = self.model, None
        if model is not None:
            model.close()


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
