"""A few rows are scored on one thread, and nobody else notices."""

import numpy as np
import pytest
import torch

from harness_core.features.batch import Floats
from harness_core.learners.threads import alone_for_few_rows, one_thread


class Seen:
    def __init__(self) -> None:
        self.n_threads: list[int] = []

    @alone_for_few_rows
    def look(self, rows: Floats) -> Floats:
        self.n_threads.append(torch.get_num_threads())
        return rows


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_few_rows_are_computed_on_one_thread_and_many_on_all(two_threads):
    seen = Seen()
    for n_rows in (8, 1000):
        seen.look(np.zeros((n_rows, 1), dtype=np.float32))
    assert seen.n_threads == [1, 2]
    assert torch.get_num_threads() == 2


def test_the_threads_come_back_after_an_error(two_threads):
    with pytest.raises(ValueError, match="no"), one_thread():
        raise ValueError("no")
    assert torch.get_num_threads() == 2
