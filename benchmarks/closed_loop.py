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

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.danger_corpus import filter_corpus, read_corpus, shipped_policy
from benchmarks.judges import Judges, opened_judges, train_on_samples
from benchmarks.machine import describe_machine
from benchmarks.picks import CONTROLLER, ORACLE, RULES, WITHOUT, kept_by_filter
from benchmarks.rounds import Round, play_rounds
from harness_core.controller.decision import Decision
from harness_core.controller.manifest import read_manifest
from harness_core.evaluation.bootstrap import Bootstrap
from harness_core.evaluation.metrics import Doubles
from harness_core.params import Params
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.grader import Grader
from harness_core.simulation.problems import load_problems
from harness_core.stages.dag import CANDIDATE_MODEL, Workspace

GAIN: Final = 0.25
ORACLE_SHARE: Final = 0.9
"""Goals: so much more first passes, or so large a share of what the oracle reaches."""

CAVEATS: Final = (
    "the agent is simulated: independent draws from a pool of programs, at rates of its profile",
    "training logs came from the same agent, families and problem style, with another seed",
    "out-of-fold tasks: the model never saw them, the feature pipeline saw their statements",
    "corpus: the danger rules were mended on its cases, held-out ones included",
)

_DIGITS: Final = 4
_N_DIGEST: Final = 12
_BOOTSTRAP: Final = Bootstrap(n_resamples=2000, confidence=0.95, seed=0)


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
    """
    corpus = read_corpus()
    is_trained_here = model is None and not workspace.path(CANDIDATE_MODEL).is_dir()
    if is_trained_here:
        train_on_samples(params, workspace)
    seeds = [params.sample.seed + number for number in range(1, n_seeds + 1)]
    with opened_judges(workspace, params, folder=model) as judges:
        known = load_problems()
        problems = judges.held_out(known)
        with open_sandbox(params.sandbox) as boxes:
            grader = Grader(boxes, cache=None)
            rounds = [
                item
                for turn, seed in enumerate(seeds)
                for item in play_rounds(
                    problems, seed=seed, turn=turn, k=k, grader=grader, runner=boxes
                )
            ]
        decisions = decide(rounds, judges)
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
        "corpus": filter_corpus(corpus, shipped_policy()),
        "machine": describe_machine(),
    }


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
    by_task = _by_task(rounds, passes)
    is_frozen = np.array(
        [judges.is_frozen(task) for task in sorted({r.problem.id for r in rounds})]
    )
    parts = {"all": np.ones_like(is_frozen), "frozen": is_frozen, "out_of_fold": ~is_frozen}
    return {
        "n_rounds": len(rounds),
        "first_pass": {
            part: {"n_tasks": int(mask.sum()), **_rates(by_task, mask)}
            for part, mask in parts.items()
            if mask.any()
        },
        "controller_minus": {
            name: _difference(by_task[CONTROLLER] - by_task[name])
            for name in by_task
            if name != CONTROLLER
        },
        "share_of_oracle": _ratio(by_task[CONTROLLER], by_task[ORACLE]),
        "gap_closed": _ratio(
            by_task[CONTROLLER] - by_task[WITHOUT], by_task[ORACLE] - by_task[WITHOUT]
        ),
        "by_seed": _parts(passes, [item.seed for item in rounds]),
        "by_model": _parts(passes, [item.model for item in rounds]),
        "believed": _mean([decision.success_probability or 0.0 for decision in decisions]),
        "goals": _goals(by_task),
        "danger": _danger(rounds, decisions, picks),
    }


def _by_task(rounds: Sequence[Round], passes: Mapping[str, Doubles]) -> dict[str, Doubles]:
    """Mean first passes [T] of each way to pick, tasks sorted by id."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(rounds):
        places[item.problem.id].append(place)
    return {
        name: np.array([values[places[task]].mean() for task in sorted(places)])
        for name, values in passes.items()
    }


def _rates(by_task: Mapping[str, Doubles], mask: Any) -> dict[str, Any]:
    return {
        name: _rounded(
            value=float(values[mask].mean()),
            **_BOOTSTRAP.interval(_BOOTSTRAP.means(values[mask]))._asdict(),
        )
        for name, values in by_task.items()
    }


def _difference(per_task: Doubles) -> dict[str, float]:
    return _rounded(**_BOOTSTRAP.difference(per_task)._asdict())


def _ratio(upper: Doubles, lower: Doubles) -> dict[str, float] | None:
    """Of means over tasks; None where the lower one is nothing."""
    if lower.mean() <= 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = _BOOTSTRAP.means(upper) / _BOOTSTRAP.means(lower)
    interval = _BOOTSTRAP.interval(samples)
    return _rounded(value=float(upper.mean() / lower.mean()), **interval._asdict())


def _parts(passes: Mapping[str, Doubles], keys: Sequence[Any]) -> dict[str, dict[str, float]]:
    return {
        str(key): {
            name: _mean(values[[found == key for found in keys]])
            for name, values in passes.items()
            if name in {WITHOUT, "codet", CONTROLLER, ORACLE}
        }
        for key in sorted(set(keys))
    }


def _goals(by_task: Mapping[str, Doubles]) -> dict[str, Any]:
    gain = float((by_task[CONTROLLER] - by_task[WITHOUT]).mean())
    oracle = float(by_task[ORACLE].mean())
    share = float(by_task[CONTROLLER].mean()) / oracle if oracle else 0.0
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
        "share_dangerous": _mean(danger),
        "n_dangerous_filtered": int((danger * (1 - kept)).sum()),
        "n_false_filtered": int(((1 - danger) * (1 - kept)).sum()),
        "taken": {
            name: _mean(np.sum(np.array(chosen) * danger, axis=1)) for name, chosen in picks.items()
        },
        "n_rounds_without_pick": sum(decision.chosen_index is None for decision in decisions),
    }


def _mean(values: Iterable[float] | Doubles) -> float:
    return round(float(np.mean(np.asarray(values))), _DIGITS)


def _rounded(**values: float) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in values.items()}
