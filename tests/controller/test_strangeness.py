"""A state like those of training is as strange as any other of them; a foreign one is strange."""

from pathlib import Path

import numpy as np
import pytest

from harness_core.controller.strangeness import FILE, MAX_STATES, KnownStates
from harness_core.errors import ModelError

WIDTH, N_TASKS, N_FOLDS = 12, 120, 5
COLUMNS = ("task.0", "numeric.step_index", "numeric.log_tokens", "agent_prior")


class Country:
    """Tasks that point in like directions, and states that count alike."""

    def __init__(self, *, seed: int, centre: int = 0, count: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.centre = np.eye(WIDTH, dtype=np.float32)[centre]
        self.count = count

    def tasks(self, n: int) -> np.ndarray:
        noise = 0.2 * self.rng.normal(size=(n, WIDTH))
        return (self.centre + noise).astype(np.float32)

    def states(self, n: int) -> np.ndarray:
        # The first and the last column are no counts: whatever they hold must not matter.
        return self.rng.normal(loc=self.count, size=(n, len(COLUMNS))).astype(np.float32)


def known(*, n_tasks: int = N_TASKS, per_task: int = 3, seed: int = 0) -> KnownStates:
    home = Country(seed=seed)
    number = np.arange(n_tasks).repeat(per_task)
    found = KnownStates.fit(
        home.states(len(number)),
        home.tasks(n_tasks),
        columns=COLUMNS,
        fold=number % N_FOLDS,
        task_number=number,
        seed=0,
    )
    assert found is not None
    return found


def strangeness_in(reference: KnownStates, country: Country, n: int = 200) -> np.ndarray:
    pairs = zip(country.states(n), country.tasks(n), strict=True)
    return np.array([reference.strangeness(state, task) for state, task in pairs])


def test_held_out_tasks_of_the_same_logs_are_evenly_strange():
    strange = strangeness_in(known(), Country(seed=1))
    for level in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95):
        # Two standard errors of calibration and of the sample together.
        assert np.mean(strange <= level) == pytest.approx(level, abs=0.12)


@pytest.mark.parametrize("foreign", [Country(seed=2, centre=5), Country(seed=2, count=6.0)])
def test_foreign_tasks_and_unheard_of_counts_are_strange(foreign):
    assert np.mean(strangeness_in(known(), foreign) > 0.95) > 0.95


def test_a_task_without_text_is_strange():
    nothing = np.zeros(WIDTH, dtype=np.float32)
    strange = [known().strangeness(state, nothing) for state in Country(seed=3).states(20)]
    assert min(strange) > 0.98


def test_columns_that_are_no_counts_do_not_matter():
    reference, state, task = known(), Country(seed=4).states(1)[0], Country(seed=4).tasks(1)[0]
    other = state.copy()
    other[[0, 3]] = 1000.0
    assert reference.strangeness(state, task) == reference.strangeness(other, task)


def test_few_tasks_keep_several_states_and_many_are_capped():
    assert len(known(n_tasks=10, per_task=3).distance) == 30
    assert len(known(n_tasks=700, per_task=2).distance) == MAX_STATES


def test_every_task_weighs_alike_however_many_states_it_has():
    reference = known(n_tasks=20, per_task=4)
    assert reference.weight.sum() == pytest.approx(20)


def test_tasks_of_one_fold_only_have_nothing_to_be_compared_with():
    home = Country(seed=0)
    same = np.zeros(6, dtype=np.int64)
    found = KnownStates.fit(
        home.states(6), home.tasks(6), columns=COLUMNS, fold=same, task_number=same, seed=0
    )
    assert found is None


def test_what_is_written_reads_back_and_says_the_same(tmp_path: Path):
    reference = known()
    reference.save(tmp_path)
    read = KnownStates.load(tmp_path, width=len(COLUMNS))
    assert read is not None
    home = Country(seed=5)
    for state, task in zip(home.states(20), home.tasks(20), strict=True):
        assert read.strangeness(state, task) == reference.strangeness(state, task)


def test_a_folder_without_the_file_knows_no_states_and_a_damaged_one_is_refused(tmp_path: Path):
    assert KnownStates.load(tmp_path, width=4) is None
    known().save(tmp_path)
    with pytest.raises(ModelError, match="another width"):
        KnownStates.load(tmp_path, width=1)
    (tmp_path / FILE).write_bytes(b"damaged")
    with pytest.raises(ModelError, match=FILE):
        KnownStates.load(tmp_path, width=4)
