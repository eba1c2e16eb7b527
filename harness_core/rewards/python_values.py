"""What a Python expression may stand for: names followed through aliases, constants folded.

Nothing is run. An expression stands for a set of values: symbols (`os.system`), constants,
functions of the program. An empty set means that nothing is known. A container stands for all of
its elements at once.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from harness_core.rewards.python_constants import (
    MAX_ALTERNATIVES,
    Constant,
    added,
    decoded,
    formatted,
    joined,
    method_result,
    path_joined,
    sliced,
)
from harness_core.rewards.python_scopes import (
    Binding,
    FunctionNode,
    Parameter,
    Scope,
    arguments_for,
    is_shadowed,
    read_program,
    stand_ins,
)
from harness_core.rewards.python_symbols import (
    COMPUTED,
    GET_ATTRIBUTE,
    GETTER,
    GETTERS,
    IMPORTERS,
    LOCATORS,
    LOOK_UPS,
    NAMESPACES,
    PASS_ON,
    RISKY_NAMESPACES,
    Symbol,
    canonical,
)


class TooComplexError(Exception):
    """The program needs more looking than any honest one; nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the program defines."""

    node: FunctionNode


Value = Symbol | Constant | Function
Values = frozenset[Value]

_MAX_LOOKS: Final = 1_000_000
_MAX_DEPTH: Final = 60


class Reader:
    """Looks up what expressions of one program may stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.program = read_program(tree)
        self._known: dict[int, Values] = {}
        # Answers found inside a cycle may be incomplete and live as long as one question.
        self._for_now: dict[int, Values] = {}
        self._active: set[int] = set()
        self._n_looks = 0
        self._n_cuts = 0
        self._calls: dict[str, list[tuple[ast.Call, Scope]]] = defaultdict(list)
        self._returns: dict[Scope, list[ast.expr]] = defaultdict(list)
        for node, scope in self.program.nodes:
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                self._calls[name].append((node, scope))
            elif isinstance(node, ast.Return) and node.value is not None:
                self._returns[scope].append(node.value)

    def values(self, node: ast.expr, scope: Scope) -> Values:
        """What the expression may stand for."""
        key = id(node)
        known = self._known.get(key, self._for_now.get(key))
        if known is not None:
            return known
        # A name that is defined by itself, or a chain that no honest program has.
        if key in self._active or len(self._active) > _MAX_DEPTH:
            self._n_cuts += 1
            return frozenset()
        self._count(1)
        n_cuts_before = self._n_cuts
        self._active.add(key)
        found = frozenset(self._look(node, scope))
        self._active.discard(key)
        if len(found) > MAX_ALTERNATIVES:
            found = frozenset(value for value in found if not isinstance(value, Constant))
        is_whole = self._n_cuts == n_cuts_before or not self._active
        (self._known if is_whole else self._for_now)[key] = found
        if not self._active:
            self._for_now.clear()
        return found

    def _count(self, number: int) -> None:
        self._n_looks += number
        if self._n_looks > _MAX_LOOKS:
            raise TooComplexError

    def paths(self, node: ast.expr, scope: Scope) -> Iterator[str]:
        """Names of the symbols that the expression may stand for."""
        return (value.path for value in self.values(node, scope) if isinstance(value, Symbol))

    def texts(self, node: ast.expr, scope: Scope) -> Iterator[str]:
        """Constant texts that the expression may stand for."""
        for constant in self._constants(node, scope):
            if isinstance(constant.value, str):
                yield constant.value

    def bound_to(self, name: ast.Name, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        """The expressions that a name is bound to, where it is looked up."""
        here: Scope | None = scope
        while here is not None and name.id not in here.bindings:
            here = here.parent
        for binding in here.bindings[name.id] if here is not None else ():
            if isinstance(binding.target, ast.expr):
                yield binding.target, binding.scope

    def _constants(self, node: ast.expr, scope: Scope) -> list[Constant]:
        return [value for value in self.values(node, scope) if isinstance(value, Constant)]

    def _look(self, node: ast.expr, scope: Scope) -> Iterator[Value]:
        match node:
            case ast.Name(id=name):
                yield from self._look_up(name, scope, line=node.lineno)
            case ast.Constant(value=str() | bytes() | int() as value):
                yield Constant(value)
            case ast.Attribute(value=base, attr=name):
                yield from self._attribute(base, name, scope)
            case ast.Subscript(value=base, slice=index):
                yield from self._subscript(base, index, scope)
            case ast.Call():
                yield from self._call(node, scope)
            case ast.Lambda():
                yield Function(node)
            case ast.BinOp() | ast.JoinedStr():
                yield from self._combined(node, scope)
            case _:
                for part in stand_ins(node):
                    yield from self.values(part, scope)

    def _combined(self, node: ast.BinOp | ast.JoinedStr, scope: Scope) -> Iterator[Value]:
        match node:
            case ast.JoinedStr(values=parts):
                inner = [getattr(part, "value", part) for part in parts]
                pieces = [
                    [part] if isinstance(part, str) else list(self.texts(part, scope))
                    for part in inner
                ]
                yield from joined(Constant(""), [list(map(Constant, piece)) for piece in pieces])
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.values(left, scope), self.values(right, scope)
                yield from (value for value in first | second if not isinstance(value, Constant))
                for one, two in product(first, second):
                    if isinstance(one, Constant) and isinstance(two, Constant):
                        yield from added(one, two)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                parts = right.elts if isinstance(right, ast.Tuple) else [right]
                chosen = [self._constants(part, scope) for part in parts]
                for template in self._constants(left, scope):
                    yield from formatted(template, chosen)
            case ast.BinOp(left=left, op=ast.Div()):
                # `Path(…) / "name"` is a path too.
                yield from map(Symbol, self.paths(left, scope))

    def _look_up(self, name: str, scope: Scope, *, line: int) -> Iterator[Value]:
        here: Scope | None = scope
        while here is not None:
            if name in here.bindings and (here is scope or not here.is_class):
                self._count(len(here.bindings[name]))
                for binding in here.bindings[name]:
                    yield from self._bound(binding)
                if here.is_class or not is_shadowed(name, here, scope, line=line):
                    yield Symbol(canonical(name))
                return
            here = here.parent
        for module in scope.module.stars:
            yield Symbol(canonical(f"{module}.{name}"))
        yield Symbol(canonical(name))

    def _bound(self, binding: Binding) -> Iterator[Value]:
        match binding.target:
            case Symbol(path):
                yield Symbol(canonical(path))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield Function(binding.target)
            case Parameter():
                yield from self._handed_over(binding.target)
            case ast.expr():
                yield from self.values(binding.target, binding.scope)
            case None:
                pass

    def _handed_over(self, parameter: Parameter) -> Iterator[Value]:
        """Default of a parameter, and what the calls of a function of this name hand over."""
        around = self.program.defined_in[parameter.function]
        called_as = getattr(parameter.function, "name", "")
        if parameter.default is not None:
            yield from self.values(parameter.default, around)
        calls = self._calls.get(called_as, ())
        self._count(len(calls))
        for call, scope in calls:
            for argument in arguments_for(parameter, call, is_method=around.is_class):
                yield from self.values(argument, scope)

    def _attribute(self, base: ast.expr, name: str, scope: Scope) -> Iterator[Value]:
        for path in list(self.paths(base, scope)):
            yield Symbol(canonical(f"{path}.{name}"))
        # What was put on an object that cannot be followed (`self.run = os.system`).
        put = self.program.attributes.get(name, ())
        self._count(len(put))
        for binding in put:
            yield from self._bound(binding)

    def _subscript(self, base: ast.expr, index: ast.expr, scope: Scope) -> Iterator[Value]:
        keys = list(self.texts(index, scope))
        for value in self.values(base, scope):
            if isinstance(value, Constant):
                yield from sliced(value, index)
                continue
            yield value
            if isinstance(value, Symbol):
                for key in keys:
                    yield from self._item(value.path, key, scope)

    def _item(self, path: str, key: str, scope: Scope) -> Iterator[Value]:
        if path == "sys.modules":
            yield Symbol(canonical(key))
        elif path == "globals()":
            yield from self._look_up(key, scope.module, line=1 << 30)
        else:
            yield Symbol(canonical(f"{path}.{key}"))

    def _call(self, node: ast.Call, scope: Scope) -> Iterator[Value]:
        if isinstance(node.func, ast.Attribute):
            yield from self._method(node.func.value, node.func.attr, node.args, scope)
        for function in self.values(node.func, scope):
            if isinstance(function, Function):
                yield from self._returned(function.node)
            elif isinstance(function, Symbol):
                yield from self._called(function.path, node, scope)

    def _method(
        self, owner: ast.expr, name: str, arguments: list[ast.expr], scope: Scope
    ) -> Iterator[Value]:
        """A method of a constant on constants: `"metsys".replace(…)`, `"".join([…])`."""
        parts = arguments
        if name == "join" and arguments and isinstance(arguments[0], ast.List | ast.Tuple):
            parts = arguments[0].elts
        for constant in self._constants(owner, scope)[:4]:
            chosen = [self._constants(part, scope) for part in parts]
            if name == "join":
                yield from joined(constant, chosen)
            else:
                yield from method_result(constant, name, chosen)

    def _returned(self, function: FunctionNode) -> Iterator[Value]:
        inner = self.program.scopes[function]
        results = [function.body] if isinstance(function, ast.Lambda) else self._returns[inner]
        for result in results:
            yield from self.values(result, inner)

    def _called(self, path: str, node: ast.Call, scope: Scope) -> Iterator[Value]:
        arguments = node.args
        if path in PASS_ON:
            for part in (*arguments, *(keyword.value for keyword in node.keywords)):
                yield from self.values(part, scope)
        elif path in NAMESPACES:
            yield from self.values(arguments[0], scope) if arguments else [Symbol("globals()")]
        elif path in IMPORTERS and arguments:
            for name in list(self.texts(arguments[0], scope)) or [COMPUTED]:
                whole = name if path == "importlib.import_module" else name.partition(".")[0]
                yield Symbol(canonical(whole))
        elif path == "os.path.join":
            yield from path_joined([self._constants(part, scope) for part in arguments])
        else:
            yield from self._chosen_by_name(path, arguments, scope)
            yield from self._made(path, arguments, scope)

    def _chosen_by_name(
        self, path: str, arguments: list[ast.expr], scope: Scope
    ) -> Iterator[Value]:
        """What functions find that are told a name: `getattr(os, "x")`, `sys.modules.get("x")`."""
        owner, _, method = path.rpartition(".")
        match arguments:
            case [] if method in {"items", "values"} and owner in RISKY_NAMESPACES:
                yield Symbol(f"{owner}.{COMPUTED}")
            case [name] if path in LOCATORS:
                for text in self.texts(name, scope):
                    yield Symbol(canonical(text.replace(":", ".")))
            case [base, name, *_] if path in GET_ATTRIBUTE:
                for text in list(self.texts(name, scope)) or [COMPUTED]:
                    yield from self._attribute(base, text, scope)
            case [function, names, *start] if path in {"map", "functools.reduce"}:
                yield from self._mapped(function, names, start, scope)
            case [name, *_] if method in LOOK_UPS:
                for text in self.texts(name, scope):
                    yield from self._item(owner, text, scope)

    def _mapped(
        self, function: ast.expr, names: ast.expr, start: list[ast.expr], scope: Scope
    ) -> Iterator[Value]:
        """`map(__import__, names)` and `functools.reduce(getattr, names, start)`."""
        functions = set(self.paths(function, scope))
        for name in list(self.texts(names, scope)) or [COMPUTED]:
            if functions & IMPORTERS:
                yield Symbol(canonical(name))
            elif "getattr" in functions and start:
                yield from self._attribute(start[0], name, scope)

    def _made(self, path: str, arguments: list[ast.expr], scope: Scope) -> Iterator[Value]:
        """What calling something outside the program returns."""
        if path in GETTERS and arguments:
            yield from (Symbol(f"{GETTER}{name}") for name in self.texts(arguments[0], scope))
        elif path.startswith(GETTER) and arguments:
            yield from self._attribute(arguments[0], path.removeprefix(GETTER), scope)
        else:
            yield Symbol(f"{path}()")
            for argument in arguments[:1]:
                for constant in self._constants(argument, scope):
                    yield from decoded(path, constant)
