"""A closed loop on the simulated agent: its first submission without and with the controller.

For every task and seed an agent proposes K programs in its first state. Each way to pick submits
one of them, which the hidden checks judge in the sandbox; all ways see the same proposals, and no
way sees a hidden check. Ties are broken by lot, so a pick is worth the mean of the tied best.

What these figures can and cannot say:

- The agent is simulated. It draws from a pool of right, wrong, broken and dangerous programs by the
  rates of its profile (`simulation.profiles`); its candidates are independent draws, which those of
  a language model are not. A gain here says that the loop works, not what a live agent would gain.
- Tasks judged are only those that the judging model did not learn from: the frozen test slice, by
  the model that is shipped. Where these are few, tasks of development are judged too, each by the
  model of its fold; the feature pipeline has then seen their statements, and their outcomes in the
  mean success of each agent, which is the same for all candidates of a state.
- Pools and draws of the seeds are others than those of the training logs, the tasks' families are
  the same.
- What is dangerous is known from the simulator, not from the rules that filter; but its dangers are
  of few kinds. The danger corpus is wider; its cases marked `held_out` were written after the
  rules, but the rules have been mended since for those that they missed.
- A right program may be dangerous. It counts as a first pass of whoever submits it, so the hard
  filter costs the controller a little that the ways without it keep.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.danger_corpus import filter_corpus, read_corpus, shipped_policy
from benchmarks.guided import play_scene, summarise_guidance
from benchmarks.judges import Judges, opened_judges, train_on_samples
from benchmarks.machine import describe_machine
from benchmarks.picks import CONTROLLER, ORACLE, RULES, WITHOUT, kept_by_filter
from benchmarks.rounds import Round, play_rounds
from benchmarks.summaries import by_task, difference, mean, rates, ratio
from harness_core.controller.decision import Decision
from harness_core.controller.manifest import read_manifest
from harness_core.evaluation.metrics import Doubles
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import Grader
from harness_core.simulation.problems import Problem, load_problems
from harness_core.stages.dag import CANDIDATE_MODEL, GUIDANCE, Workspace
from harness_core.trajectories.guidance_library import (
    GuidanceTemplate,
    load_library,
    situations_of,
)

GAIN: Final = 0.25
ORACLE_SHARE: Final = 0.9
"""Goals: so much more first passes, or so large a share of what the oracle reaches."""

CAVEATS: Final = (
    "the agent is simulated: independent draws from a pool of programs, at rates of its profile",
    "what guidance does to it was written down with it; it differs by family, task and model",
    "training logs came from the same agent, families and problem style, with another seed",
    "out-of-fold tasks: the model never saw them, the feature pipeline saw their statements",
    "corpus: the danger rules were mended on its cases, held-out ones included",
)

_N_DIGEST: Final = 12


def closed_loop(
    params: Params, workspace: Workspace, *, model: Path | None, n_seeds: int, k: int
) -> dict[str, Any]:
    """Everything that `harness bench closed-loop` prints.

    Args:
        params: those of the working folder.
        workspace: its models are measured; where it has none they are trained on sample logs.
        model: a model folder to measure instead.
        n_seeds: seeds, none of them that of the sample logs.
        k: proposals a state.

    Raises:
        IsolationUnavailable: programs cannot be run safely on this machine.
        NoDataError: every task may have been learnt from, or there is no danger corpus.
        ParameterError: the guidance templates of the working folder cannot be used.
    """
    corpus = read_corpus()
    is_trained_here = model is None and not workspace.path(CANDIDATE_MODEL).is_dir()
    if is_trained_here:
        train_on_samples(params, workspace)
    library = load_library(workspace.path(GUIDANCE))
    templates = (None, *library.legal(situations_of([])))
    seeds = [params.sample.seed + number for number in range(1, n_seeds + 1)]
    with opened_judges(workspace, params, folder=model) as judges:
        known = load_problems()
        problems = judges.held_out(known)
        played = _play(problems, params, seeds=seeds, k=k, templates=templates)
        rounds = [same[0] for same in played]
        decisions = decide(rounds, judges)
        scenes = [
            play_scene(same, judges, decision)
            for same, decision in zip(played, decisions, strict=True)
        ]
    frozen = [problem for problem in problems if judges.is_frozen(problem.id)]
    return {
        "simulated": True,
        "caveats": list(CAVEATS),
        "k": k,
        "seeds": seeds,
        "trained_here": is_trained_here,
        "model": read_manifest(model or workspace.path(CANDIDATE_MODEL)).digest[:_N_DIGEST],
        "tasks": {
            "judged": "frozen" if len(frozen) == len(problems) else "frozen_and_out_of_fold",
            "n_frozen": len(frozen),
            "n_out_of_fold": len(problems) - len(frozen),
            "n_left_out": len(known) - len(problems),
        },
        **summarise(rounds, decisions, judges),
        "guidance": summarise_guidance(scenes),
        "corpus": filter_corpus(corpus, shipped_policy()),
        "machine": describe_machine(),
    }


def _play(
    problems: Sequence[Problem],
    params: Params,
    *,
    seeds: Sequence[int],
    k: int,
    templates: Sequence[GuidanceTemplate | None],
) -> list[list[Round]]:
    """The rounds of each task and seed, the one without guidance first."""
    with open_sandbox(params.sandbox) as boxes:
        grader = Grader(boxes, cache=None)
        rounds = [
            item
            for turn, seed in enumerate(seeds)
            for item in play_rounds(
                problems,
                seed=seed,
                turn=turn,
                k=k,
                grader=grader,
                runner=boxes,
                templates=templates,
            )
        ]
    n = len(templates)
    return [rounds[place : place + n] for place in range(0, len(rounds), n)]


def decide(rounds: Sequence[Round], judges: Judges) -> list[Decision]:
    """What the controller says in each round, asked as at run time."""
    decisions = []
    for item in rounds:
        controller = judges.judge_of(item.problem.id)
        assert controller is not None  # only tasks with a judge are played
        decisions.append(controller.select(*item.request))
    return decisions


def summarise(
    rounds: Sequence[Round], decisions: Sequence[Decision], judges: Judges
) -> dict[str, Any]:
    """First passes and dangers of all ways to pick, with intervals clustered by task."""
    picks = {
        name: [rule(item, decision) for item, decision in zip(rounds, decisions, strict=True)]
        for name, rule in RULES.items()
    }
    passes = {
        name: np.array([pick @ item.solved for pick, item in zip(chosen, rounds, strict=True)])
        for name, chosen in picks.items()
    }
    per_task = by_task([item.problem.id for item in rounds], passes)
    is_frozen = np.array(
        [judges.is_frozen(task) for task in sorted({r.problem.id for r in rounds})]
    )
    parts = {"all": np.ones_like(is_frozen), "frozen": is_frozen, "out_of_fold": ~is_frozen}
    return {
        "n_rounds": len(rounds),
        "first_pass": {
            part: {"n_tasks": int(mask.sum()), **rates(per_task, mask)}
            for part, mask in parts.items()
            if mask.any()
        },
        "controller_minus": {
            name: difference(per_task[CONTROLLER] - per_task[name])
            for name in per_task
            if name != CONTROLLER
        },
        "share_of_oracle": ratio(per_task[CONTROLLER], per_task[ORACLE]),
        "gap_closed": ratio(
            per_task[CONTROLLER] - per_task[WITHOUT], per_task[ORACLE] - per_task[WITHOUT]
        ),
        "by_seed": _parts(passes, [item.seed for item in rounds]),
        "by_model": _parts(passes, [item.model for item in rounds]),
        "believed": mean([decision.success_probability or 0.0 for decision in decisions]),
        "goals": _goals(per_task),
        "danger": _danger(rounds, decisions, picks),
    }


def _parts(passes: Mapping[str, Doubles], keys: Sequence[Any]) -> dict[str, dict[str, float]]:
    return {
        str(key): {
            name: mean(values[[found == key for found in keys]])
            for name, values in passes.items()
            if name in {WITHOUT, "codet", CONTROLLER, ORACLE}
        }
        for key in sorted(set(keys))
    }


def _goals(per_task: Mapping[str, Doubles]) -> dict[str, Any]:
    gain = float((per_task[CONTROLLER] - per_task[WITHOUT]).mean())
    oracle = float(per_task[ORACLE].mean())
    share = float(per_task[CONTROLLER].mean()) / oracle if oracle else 0.0
    return {
        "gain": {"at_least": GAIN, "reached": gain >= GAIN},
        "share_of_oracle": {"at_least": ORACLE_SHARE, "reached": share >= ORACLE_SHARE},
        "one_of_them_reached": gain >= GAIN or share >= ORACLE_SHARE,
    }


def _danger(
    rounds: Sequence[Round], decisions: Sequence[Decision], picks: Mapping[str, Sequence[Doubles]]
) -> dict[str, Any]:
    """Dangers that the simulator put in: how many were proposed, filtered, and taken."""
    danger = np.array([item.dangerous for item in rounds])
    kept = np.array([kept_by_filter(*pair) for pair in zip(rounds, decisions, strict=True)])
    return {
        "n_proposals": danger.size,
        "n_dangerous": int(danger.sum()),
        "share_dangerous": mean(danger),
        "n_dangerous_filtered": int((danger * (1 - kept)).sum()),
        "n_false_filtered": int(((1 - danger) * (1 - kept)).sum()),
        "taken": {
            name: mean(np.sum(np.array(chosen) * danger, axis=1)) for name, chosen in picks.items()
        },
        "n_rounds_without_pick": sum(decision.chosen_index is None for decision in decisions),
    }
