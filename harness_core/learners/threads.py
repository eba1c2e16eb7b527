"""How many threads a small network computes with: one.

A few candidates are some hundred thousand multiplications. Handing half of them to another thread
takes longer than doing them, and on a busy machine the other thread is waited for a hundred times
as long.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

import torch

from harness_core.features.batch import Floats

_FEW_ROWS: Final = 256

_Self = TypeVar("_Self")
_Rest = ParamSpec("_Rest")


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, and as many as before afterwards.

    The setting is one of the whole process. Two callers at once cannot leave it at one: who finds
    one thread restores nothing, and who does not restores what was set before any of them.
    """
    before = torch.get_num_threads()
    if before > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if before > 1:
            torch.set_num_threads(before)


def alone_for_few_rows(
    method: Callable[Concatenate[_Self, Floats, _Rest], Floats],
) -> Callable[Concatenate[_Self, Floats, _Rest], Floats]:
    """A method of rows [K, …] that computes on one thread where K is small."""

    @wraps(method)
    def wrapped(self: _Self, rows: Floats, /, *rest: _Rest.args, **named: _Rest.kwargs) -> Floats:
        if len(rows) > _FEW_ROWS:
            return method(self, rows, *rest, **named)
        with one_thread():
            return method(self, rows, *rest, **named)

    return wrapped
