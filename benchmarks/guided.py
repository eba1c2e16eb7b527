"""What guidance does to the first pass of the simulated agent: alone, and with selection.

Every template that is legal in the first state is played by an agent with the same luck, and nobody
who chooses sees what came of it:

- `without`, `guidance` and the rest at K = 1 submit whatever the agent proposes; the mean over all
  of its K proposals stands for it, which are equal draws.
- `random_template` takes any legal template with equal probability. `oracle_template` knows the
  rates of the simulator (not the luck of the draw) and takes the template, or none, under which
  right programs are likeliest.
- At K the controller picks among the proposals made under its own choice (`both`) or without
  guidance (`selection`); the oracles know the hidden checks besides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.judges import Judges
from benchmarks.picks import CONTROLLER, ORACLE, RULES
from benchmarks.rounds import Round
from benchmarks.summaries import by_task, difference, mean, rates, ratio
from harness_core.controller.decision import Decision
from harness_core.controller.guidance import GuidanceChoice
from harness_core.errors import NoDataError
from harness_core.evaluation.metrics import Doubles

WITHOUT: Final = "without"
GUIDANCE: Final = "guidance"
SELECTION: Final = "selection"
BOTH: Final = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One agent before one task, played under every template, and what the controller said."""

    by_template: Mapping[str | None, Round]
    choice: GuidanceChoice
    unguided: Decision
    guided: Decision

    @property
    def plain(self) -> Round:
        """What was proposed without guidance."""
        return self.by_template[None]

    @property
    def chosen(self) -> Round:
        """What was proposed under the choice of the controller."""
        return self.by_template[self.choice.template_id]

    @property
    def likeliest(self) -> Round:
        """What was proposed where right programs were likeliest."""
        return max(self.by_template.values(), key=lambda item: item.right_rate)


def play_scene(rounds: Sequence[Round], judges: Judges, unguided: Decision) -> Scene:
    """Ask the controller which guidance to give and, under it, which proposal to take.

    Args:
        rounds: of one task and seed, one a template, the one without among them.
        judges: who may judge the task.
        unguided: what the controller picked without guidance.

    Raises:
        NoDataError: the model gives guidance that nothing was proposed under.
    """
    by_template = {item.template_id: item for item in rounds}
    plain = by_template[None]
    controller = judges.judge_of(plain.problem.id)
    assert controller is not None  # only tasks with a judge are played
    choice = controller.guide(plain.request[0])
    if choice.template_id not in by_template:
        raise NoDataError(
            f"the model gives the guidance {choice.template_id!r}, which guidance.yaml of the"
            " working folder does not hold; measure with the file that it was trained with"
        )
    is_plain = choice.template_id is None
    guided = unguided if is_plain else controller.select(*by_template[choice.template_id].request)
    return Scene(by_template=by_template, choice=choice, unguided=unguided, guided=guided)


def summarise_guidance(scenes: Sequence[Scene]) -> dict[str, Any]:
    """First passes of all ways to guide, their differences, and what was given how often."""
    passes = _passes(scenes)
    per_task = by_task([scene.plain.problem.id for scene in scenes], passes)
    given = [scene.choice.template_id for scene in scenes]
    return {
        "n_templates": len(scenes[0].by_template) - 1,
        "first_pass": rates(per_task),
        "gain": {
            "guidance_alone": difference(per_task[GUIDANCE] - per_task[WITHOUT]),
            "random_template": difference(per_task["random_template"] - per_task[WITHOUT]),
            "oracle_template": difference(per_task["oracle_template"] - per_task[WITHOUT]),
            "guidance_over_random": difference(per_task[GUIDANCE] - per_task["random_template"]),
            "selection_alone": difference(per_task[SELECTION] - per_task[WITHOUT]),
            "both": difference(per_task[BOTH] - per_task[WITHOUT]),
            "guidance_on_top_of_selection": difference(per_task[BOTH] - per_task[SELECTION]),
        },
        "share_of_oracle": {
            SELECTION: ratio(per_task[SELECTION], per_task["oracle_selection"]),
            BOTH: ratio(per_task[BOTH], per_task["oracle_both"]),
        },
        "given": {
            str(name): mean([found == name for found in given])
            for name in sorted(set(given), key=str)
        },
        "expected_gain": mean([scene.choice.expected_gain for scene in scenes]),
        "by_template": {
            str(name): mean([scene.by_template[name].solved.mean() for scene in scenes])
            for name in scenes[0].by_template
        },
        "dangers_taken": {
            SELECTION: mean([_danger(scene.plain, scene.unguided) for scene in scenes]),
            BOTH: mean([_danger(scene.chosen, scene.guided) for scene in scenes]),
        },
    }


def _passes(scenes: Sequence[Scene]) -> dict[str, Doubles]:
    values: dict[str, list[float]] = {
        WITHOUT: [scene.plain.solved.mean() for scene in scenes],
        "random_template": [
            float(np.mean([item.solved.mean() for item in _guided(scene)])) for scene in scenes
        ],
        GUIDANCE: [scene.chosen.solved.mean() for scene in scenes],
        "oracle_template": [scene.likeliest.solved.mean() for scene in scenes],
        SELECTION: [_picked(scene.plain, scene.unguided, CONTROLLER) for scene in scenes],
        BOTH: [_picked(scene.chosen, scene.guided, CONTROLLER) for scene in scenes],
        "oracle_selection": [_picked(scene.plain, scene.unguided, ORACLE) for scene in scenes],
        "oracle_both": [_picked(scene.likeliest, scene.unguided, ORACLE) for scene in scenes],
    }
    return {name: np.array(column, dtype=np.float64) for name, column in values.items()}


def _guided(scene: Scene) -> list[Round]:
    """The rounds under a template; without any template the plain one."""
    guided = [item for name, item in scene.by_template.items() if name is not None]
    return guided or [scene.plain]


def _picked(item: Round, decision: Decision, rule: str) -> float:
    return float(RULES[rule](item, decision) @ item.solved)


def _danger(item: Round, decision: Decision) -> float:
    return float(RULES[CONTROLLER](item, decision) @ item.dangerous)
