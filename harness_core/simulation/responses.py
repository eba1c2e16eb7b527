"""How the simulated agent responds to guidance.

Written down by us: what a controller learns of it says that the loop works, not what a text does to
a language model. What a template is worth depends on the family of the task, on what has happened
so far and on the model, and it differs from problem to problem besides; none is best everywhere:

- A way of thinking (`edge-cases`, `list-rules`, `name-the-state`) helps in the families whose
  mistakes it is about and distracts in all others. It closes a share of the gap to a certain right
  answer, or takes away a share of the chance of one; on each problem between half and one and a
  half times as much, drawn once a problem.
- `only-code` makes answers that are cut off or no Python rare, and costs a little thought; the
  models that often ramble gain by it.
- `plain-function` makes dangerous calls rare and does nothing else.
- `be-quick` costs.
- `follow-the-check` makes a failed attempt teach more.
- `start-over` ends the repetition of the same program, and throws away what failures have taught.
- A text that the agent does not know distracts it a little, and so do the last two before anything
  has failed.
"""

import random
from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import Field

from harness_core.records import Record
from harness_core.simulation.problems import Problem

_LOWEST, _HIGHEST = 0.5, 1.5
"""On a problem a way of thinking does between so much and so much of what it does on average."""


class Response(Record):
    """What a template does to the rates of a model, on average over problems."""

    families: frozenset[str] = frozenset()
    """Where `in_families` holds; everywhere else `elsewhere` does."""
    in_families: float = Field(default=0.0, ge=-1, le=1)
    """Share of the missing skill that it adds, or, below 0, of the skill that it takes away."""
    elsewhere: float = Field(default=0.0, ge=-1, le=1)
    broken: float = Field(default=1.0, ge=0)
    """Factor of the rate of answers that are no program."""
    dangerous: float = Field(default=1.0, ge=0)
    """Factor of the rate of dangerous programs."""
    stubbornness: float = Field(default=1.0, ge=0)
    """Factor of the rate of repeating the last program."""
    revision: float = Field(default=0.0, ge=-1, le=1)
    """Share of what failing feedback leaves untaught that it teaches now, or, below 0, takes."""
    needs_feedback: bool = False
    """Whether it only distracts, as an unknown text does, where nothing has failed yet."""


class Effect(NamedTuple):
    """What a template does on one problem, in one state."""

    skill: float = 0.0
    broken: float = 1.0
    dangerous: float = 1.0
    stubbornness: float = 1.0
    revision: float = 0.0


NO_EFFECT: Final = Effect()
_UNKNOWN: Final = Response(elsewhere=-0.1)

RESPONSES: Final[Mapping[str, Response]] = {
    "edge-cases": Response(
        families=frozenset({"arrays", "maths", "matrices", "strings"}),
        in_families=0.45,
        elsewhere=-0.2,
    ),
    "list-rules": Response(
        families=frozenset({"dates_and_units", "parsing", "text"}), in_families=0.5, elsewhere=-0.15
    ),
    "name-the-state": Response(
        families=frozenset({"dynamic_programming", "graphs", "simulation"}),
        in_families=0.5,
        elsewhere=-0.2,
    ),
    "only-code": Response(elsewhere=-0.05, broken=0.2),
    "plain-function": Response(dangerous=0.2),
    "be-quick": Response(elsewhere=-0.3, broken=0.5),
    "follow-the-check": Response(revision=0.4, stubbornness=0.5, needs_feedback=True),
    "start-over": Response(stubbornness=0.0, revision=-1.0, needs_feedback=True),
}


def effect_of(template_id: str | None, problem: Problem, *, has_feedback: bool) -> Effect:
    """What guidance does on a problem, whatever the seed of a run: it is how models are."""
    if template_id is None:
        return NO_EFFECT
    response = RESPONSES.get(template_id, _UNKNOWN)
    if response.needs_feedback and not has_feedback:
        response = _UNKNOWN
    mean = response.in_families if problem.family in response.families else response.elsewhere
    share = random.Random(f"response/{template_id}/{problem.id}").uniform(_LOWEST, _HIGHEST)
    return Effect(
        skill=mean * share,
        broken=response.broken,
        dangerous=response.dangerous,
        stubbornness=response.stubbornness,
        revision=response.revision,
    )


def changed_rate(rate: float, change: float) -> float:
    """A rate with a share of what is missing added, or a share of what is there taken away."""
    return rate + change * (1 - rate) if change > 0 else rate * (1 + change)
