"""Who makes decisions for the proxy, and what becomes of one request to decide."""

import logging
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from harness_core.controller.decision import Decision
from harness_core.errors import ParameterError
from harness_core.serving.conversation import Question
from harness_core.serving.selector import Located, OpenModel

Failure = Literal["timeout", "busy", "no_model", "bad_state", "scorer_error"]
_LOG = logging.getLogger("harness")


class InUse(NamedTuple):
    """The model that decides."""

    version: str
    k_max: int | None


class Answered(NamedTuple):
    """A decision, and whether one more candidate would be worth the price that was named."""

    decision: Decision
    wants_more: bool


class Wish(NamedTuple):
    """What is to be decided, and how."""

    question: Question
    goal: Mapping[str, float] | None = None
    """Weight by reward component, instead of the weights of training."""
    price: float | None = None
    """Of one more candidate, in probability of success; None asks for no advice on it."""
    is_urgent: bool = True
    """Whether somebody waits for it: it goes first then, and shadow decisions give way."""


class Decider(Protocol):
    """Makes decisions away from the event loop that asks for them."""

    @property
    def in_use(self) -> InUse | None:
        """The model that would decide now; None for none."""

    async def open(self, located: Located) -> None:
        """Open a model aside and use it from then on.

        Raises:
            HarnessError: it cannot be opened; the one in use stays.
        """

    async def decide(self, wish: Wish) -> Answered | Failure:
        """Decide, or say why not; never raises. May be given up at any time by cancelling it."""

    async def close(self) -> None:
        """Stop; whoever still waits is told that there is no scorer."""


def decided(model: OpenModel, wish: Wish) -> Answered | Failure:
    """Ask a model, whatever happens in it."""
    try:
        state, candidates = wish.question
        decision = model.selector.select(state, candidates, wish.goal)
        more = wish.price is not None and model.selector.wants_more(decision, price=wish.price)
    except ParameterError as error:
        _LOG.warning("proxy: the controller cannot read the state: %s", error)
        return "bad_state"
    except BaseException as error:  # noqa: BLE001  # whatever breaks, the agent gets an answer
        _LOG.warning("proxy: no decision: %s", type(error).__name__)
        return "scorer_error"
    return Answered(decision, more)
