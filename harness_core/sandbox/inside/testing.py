"""Inside a test process: run a test source whose candidate lives in another box.

Names that the source uses and nobody defines, and the argument of `check`, are stubs: calling one
sends its arguments out as data and waits for data. No candidate code ever runs here, so that the
source's own end, with or without an exception, is the verdict.
"""

import ast
import builtins
import io
import json
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any, Final

from harness_core.sandbox.inside import messages
from harness_core.sandbox.inside.candidate import ValueLimits
from harness_core.sandbox.inside.codec import NotDataError, decode, encode
from harness_core.sandbox.inside.framing import Frame, read_frame, write_frame

_LIMIT_BYTES: Final = 1 << 30
_CHECK: Final = "check"


class _CandidateFailure(BaseException):
    """The test needs data where the candidate gave an object."""


class _Unsendable(BaseException):
    """The test's arguments are not data, so this test cannot be run across a boundary."""


class _Link:
    """The way to the candidate."""

    def __init__(self, request_fd: int, reply_fd: int, limits: ValueLimits) -> None:
        self._request_fd = request_fd
        self._reply_fd = reply_fd
        self._limits = limits
        self.number = 0
        """Of the frame that is to be answered next."""
        self.n_requests = 0
        self.raised: BaseException | None = None
        self.is_refused = False

    def ask(
        self, operation: str, target: "_Remote | None", name: str, *arguments: Any, **keywords: Any
    ) -> Any:
        self.n_requests += 1
        request = (operation, target, name, arguments, keywords)
        try:
            payload = encode(
                request,
                limit_bytes=self._limits.value_bytes,
                max_depth=self._limits.max_value_depth,
                handle_of=_handle_of,
            )
        except NotDataError as error:
            raise _Unsendable from error
        write_frame(self._reply_fd, Frame(messages.REQUEST, payload, self.number))
        frame = read_frame(self._request_fd, limit_bytes=_LIMIT_BYTES)
        self.number = frame.number
        kind, content = frame.payload[0], frame.payload[1:]
        if kind != messages.VALUE:
            self.raised = _exception(content.decode("ascii"))
            raise self.raised
        result, changed = decode(
            content,
            limit_bytes=_LIMIT_BYTES,
            max_depth=self._limits.max_value_depth + 2,
            object_of=lambda number: _Remote(self, number),
        )
        for mine, theirs in zip(arguments, changed, strict=False):
            _change_in_place(mine, theirs)
        return result


class _Remote:
    """An object of the candidate's process. It can be used, but it equals and proves nothing."""

    __name__ = "candidate"  # `assertRaises` asks for it

    def __init__(self, link: _Link, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._link.ask("call", self, "", *arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask("set", self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._link.ask("list", self, ""))

    def _refuse(self, *_: Any) -> Any:
        self._link.is_refused = True
        raise _CandidateFailure

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __len__ = __contains__ = __getitem__ = __str__ = __repr__ = __format__ = _refuse
    __hash__ = None  # type: ignore[assignment]  # equality is refused, so hashing is too


class _Stub:
    """A name of the candidate's program."""

    def __init__(self, link: _Link, name: str) -> None:
        self._link = link
        self._name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._link.ask("call", None, self._name, *arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._link.ask("get", None, self._name), name)


def serve_test(job: Frame, request_fd: int, reply_fd: int, limits: ValueLimits) -> None:
    """Run the test and send its verdict."""
    link = _Link(request_fd, reply_fd, limits)
    link.number = job.number
    verdict = _verdict(json.loads(job.payload), link)
    write_frame(reply_fd, verdict._replace(number=link.number))


def _verdict(job: dict[str, Any], link: _Link) -> Frame:
    try:
        source = compile(job["source"], "<test>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        assert isinstance(source, ast.Module)
        code = compile(source, "<test>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return Frame(messages.UNUSABLE, type(error).__name__.encode())
    try:
        _execute(code, source, job["entry_point"], link)
    except BaseException as error:  # noqa: BLE001  # whatever ends a test is its verdict
        return _verdict_of(error, link)
    if link.is_refused:
        return Frame(messages.FAILED, b"object")
    if not link.n_requests:
        return Frame(messages.UNUSABLE, b"asks nothing")
    return Frame(messages.PASSED, b"")


def _verdict_of(error: BaseException, link: _Link) -> Frame:
    name = type(error).__name__.encode("ascii", "replace")
    if isinstance(error, _Unsendable):
        return Frame(messages.UNUSABLE, b"arguments are not data")
    if error is not link.raised and (isinstance(error, ImportError) or not link.n_requests):
        return Frame(messages.UNUSABLE, name)
    return Frame(messages.FAILED, name)


def _execute(
    code: types.CodeType, source: ast.Module, entry_point: str | None, link: _Link
) -> None:
    module = types.ModuleType("test")
    sys.modules["test"] = module
    namespace = module.__dict__
    names = _unresolved_names(source) | ({entry_point} if entry_point else set())
    stubs = {name: _Stub(link, name) for name in names}
    namespace.update(stubs)
    warnings.simplefilter("ignore")
    exec(code, namespace)
    check = namespace.get(_CHECK)
    if isinstance(check, types.FunctionType) and not _calls_check(source):
        check(stubs[entry_point] if entry_point else _only(stubs))
    cases = [
        item
        for item in namespace.values()
        if isinstance(item, type) and issubclass(item, unittest.TestCase)
    ]
    if cases:
        _run_cases(cases)


def _run_cases(cases: list[type[unittest.TestCase]]) -> None:
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    suite = unittest.TestSuite(load(case) for case in cases)
    result = unittest.TextTestRunner(stream=io.StringIO(), failfast=True).run(suite)
    # A skipped test shows nothing, so it does not count as passed.
    if not result.wasSuccessful() or result.skipped or not result.testsRun:
        raise AssertionError


def _only(stubs: dict[str, _Stub]) -> _Stub:
    (stub,) = stubs.values()
    return stub


def _unresolved_names(source: ast.Module) -> set[str]:
    used: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(source):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return used - bound - set(dir(builtins)) - {"__name__", "__file__", "__doc__"}


def _calls_check(source: ast.Module) -> bool:
    return any(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == _CHECK
        for statement in source.body
    )


def _handle_of(value: Any) -> int | None:
    if type(value) is _Remote:
        number = object.__getattribute__(value, "_number")
        assert isinstance(number, int)
        return number
    return None


def _exception(name: str) -> BaseException:
    """An exception like the candidate's, so that tests of errors work; only builtin ones."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(name)
        except TypeError:  # UnicodeDecodeError and the like want more arguments
            pass
    return RuntimeError(name)


def _change_in_place(mine: Any, theirs: Any) -> None:
    """Make an argument look as the candidate left it: in-place solutions are honest too."""
    if type(mine) is not type(theirs):
        return
    if type(mine) is list or type(mine) is bytearray:
        mine[:] = theirs
    elif type(mine) is dict or type(mine) is set:
        mine.clear()
        mine.update(theirs)
