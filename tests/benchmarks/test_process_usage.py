"""Memory over time: how fast it grows, and how sure that is."""

import subprocess
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from benchmarks.process_usage import Memory


def memory_of(level: np.ndarray) -> Memory:
    """One sample a second, of the process itself; what it started takes 1 MB."""
    nobody = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=0))
    memory = Memory(nobody, block_s=30.0)
    memory._samples = [(float(at), float(used), 1.0) for at, used in enumerate(level)]
    return memory


def test_a_line_is_found_without_error() -> None:
    memory = memory_of(100.0 + 0.5 * np.arange(600) / 60.0)
    assert memory.slopes() == {"own": 0.5, "children": 0.0}
    assert memory.slope_errors()["own"] == pytest.approx(0.0, abs=0.01)


def test_what_only_goes_up_and_down_is_no_more_than_its_error() -> None:
    rng = np.random.default_rng(0)
    within = []
    for _ in range(40):
        level = 600.0 + np.repeat(rng.normal(scale=1.5, size=60), 10)
        memory = memory_of(level)
        slope, error = memory.slopes()["own"], memory.slope_errors()["own"]
        assert slope is not None
        assert error is not None
        within.append(abs(slope) < 2 * error)
    assert np.mean(within) > 0.8


def test_growth_before_it_settles_does_not_count() -> None:
    level = np.concatenate([np.linspace(100.0, 600.0, 200), np.full(400, 600.0)])
    assert memory_of(level).slopes()["own"] == pytest.approx(0.0, abs=0.01)


def test_nothing_is_said_of_too_short_a_time() -> None:
    assert memory_of(np.full(60, 5.0)).slopes() == {"own": None, "children": None}
