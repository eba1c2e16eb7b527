"""The programming tasks of the sample logs: what a problem holds and where the files lie."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from pydantic import Field, TypeAdapter, ValidationError

from harness_core.errors import DataError, NoDataError
from harness_core.records import Record

_CHECKOUT: Final = Path(__file__).parents[2] / "data" / "problems"
_SUFFIX: Final = ".json"


class Problem(Record):
    """One task. What the agent may see is in `prompt` and `visible_checks`, all else is hidden."""

    id: str = Field(min_length=1)
    family: str = Field(min_length=1)
    difficulty: int = Field(ge=1, le=3)
    statement: str = Field(min_length=1)
    signature: str = Field(min_length=1)
    """The head of the function, without its colon."""
    entry_point: str = Field(min_length=1)
    reference: str
    """A complete program that passes every check."""
    wrong_variants: tuple[str, ...] = Field(min_length=1)
    """Plausible programs, each of which fails at least one hidden check."""
    visible_checks: tuple[str, ...] = Field(min_length=2, max_length=3)
    hidden_checks: tuple[str, ...] = Field(min_length=6, max_length=10)

    @property
    def prompt(self) -> str:
        """The statement and the head of the function to write."""
        return f"{self.statement}\n\n{self.signature}"

    @property
    def skeleton(self) -> str:
        """The function before anything is written."""
        return f"{self.signature}:\n    ...\n"


_PROBLEMS: Final = TypeAdapter(tuple[Problem, ...])


def load_problems(folder: Traversable | None = None) -> tuple[Problem, ...]:
    """All problems in the order of their ids.

    Args:
        folder: one JSON file a family; by default the tasks that come with the library.

    Raises:
        NoDataError: there are no problem files.
        DataError: a file is not what it should be, or an id or function name stands twice.
    """
    source = _default_folder() if folder is None else folder
    files = sorted(
        (item for item in source.iterdir() if item.name.endswith(_SUFFIX)),
        key=lambda item: item.name,
    )
    if not files:
        raise NoDataError(f"{source} holds no problem files (*{_SUFFIX})")
    problems = sorted(
        (problem for file in files for problem in _read(file)), key=lambda problem: problem.id
    )
    for names in ([item.id for item in problems], [item.entry_point for item in problems]):
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise DataError(f"{source}: stands twice: {', '.join(doubled)}; rename one of each")
    return tuple(problems)


def _read(file: Traversable) -> tuple[Problem, ...]:
    try:
        return _PROBLEMS.validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(f"{file.name}: {place}: {first['msg']}") from error


def _default_folder() -> Traversable:
    packaged = resources.files("harness_core.simulation").joinpath("problems")
    # In a checkout the tasks lie where people look for data, and the wheel copies them in.
    return packaged if packaged.is_dir() else _CHECKOUT
