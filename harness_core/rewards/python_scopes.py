"""Who binds a name in a Python program: scopes and bindings, read off the tree and never run.

Order of execution is ignored: a name stands for everything that its scope ever binds to it.
"""

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness_core.rewards.python_symbols import Symbol

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; what it stands for depends on the calls."""

    function: FunctionNode
    name: str
    position: int | None
    """Place among positional arguments, None for one that is only named or collects the rest."""
    default: ast.expr | None


@dataclass(frozen=True, slots=True)
class Binding:
    """One thing that a name is bound to; None where nothing is known of it."""

    target: "ast.expr | FunctionNode | Symbol | Parameter | None"
    scope: "Scope"
    line: int
    is_certain: bool
    """Whether it is bound whenever its scope's code runs, not only on some branch."""


@dataclass(eq=False, slots=True)
class Scope:
    """One module, class or function."""

    parent: "Scope | None" = None
    is_class: bool = False
    is_comprehension: bool = False
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    elsewhere: dict[str, "Scope"] = field(default_factory=dict)
    """Names declared `global` or `nonlocal` here, and where they live."""
    stars: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)

    @property
    def module(self) -> "Scope":
        """The scope of the whole program."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass(frozen=True, slots=True)
class Program:
    """All nodes of a program with the scope they are looked up in, and all bindings."""

    module: Scope
    nodes: list[tuple[ast.AST, Scope]]
    attributes: dict[str, list[Binding]]
    """What is ever assigned to an attribute of this name, on whatever object."""
    scopes: dict[FunctionNode, Scope]
    defined_in: dict[FunctionNode, Scope]


_BRANCHES: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.Match)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def read_program(tree: ast.Module) -> Program:
    """Collect scopes and bindings; without recursion, so that no nesting is too deep."""
    module = Scope()
    program = Program(
        module=module, nodes=[], attributes=defaultdict(list), scopes={}, defined_in={}
    )
    stack: list[tuple[ast.AST, Scope, bool]] = [(tree, module, True)]
    while stack:
        node, scope, certain = stack.pop()
        program.nodes.append((node, scope))
        _bind(program, node, scope, certain=certain)
        stack.extend(reversed(list(_children(program, node, scope, certain=certain))))
    return program


def arguments_for(parameter: Parameter, call: ast.Call, *, is_method: bool) -> Iterator[ast.expr]:
    """What a call of the function hands over for a parameter."""
    if parameter.position is not None:
        place = parameter.position - is_method
        if 0 <= place < len(call.args):
            yield call.args[place]
    for keyword in call.keywords:
        if keyword.arg == parameter.name:
            yield keyword.value


def stand_ins(node: ast.expr) -> Iterator[ast.expr]:
    """Expressions that this one may turn out to be, or hold."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            yield from parts
        case ast.Dict(values=parts) | ast.BoolOp(values=parts):
            yield from parts
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.NamedExpr(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
            yield inner
        case ast.ListComp(elt=inner) | ast.SetComp(elt=inner) | ast.GeneratorExp(elt=inner):
            yield inner
        case _:
            pass


def is_shadowed(name: str, home: Scope, scope: Scope, *, line: int) -> bool:
    """Whether a builtin of this name is out of reach where the name is looked up."""
    if home.parent is not None or not hasattr(builtins, name):
        return True
    certain = [binding.line for binding in home.bindings[name] if binding.is_certain]
    if not certain or name in home.deleted:
        return False
    return scope is not home or line > min(certain)


def _children(
    program: Program, node: ast.AST, scope: Scope, *, certain: bool
) -> Iterator[tuple[ast.AST, Scope, bool]]:
    if isinstance(node, FunctionNode):
        inner = program.scopes[node]
        body = {id(item) for item in (node.body if isinstance(node.body, list) else [node.body])}
        for child in ast.iter_child_nodes(node):
            # Defaults, decorators and annotations belong to the scope around.
            in_body = id(child) in body
            yield child, inner if in_body else scope, True if in_body else certain
    elif isinstance(node, ast.ClassDef):
        inner = Scope(parent=scope, is_class=True)
        statements = {id(item) for item in node.body}
        for child in ast.iter_child_nodes(node):
            yield child, inner if id(child) in statements else scope, certain
    elif isinstance(node, _COMPREHENSIONS):
        inner = Scope(parent=scope, is_comprehension=True)
        for child in ast.iter_child_nodes(node):
            yield child, inner, certain
    else:
        inside = certain and not isinstance(node, _BRANCHES)
        for child in ast.iter_child_nodes(node):
            yield child, scope, inside


def _bind(program: Program, node: ast.AST, scope: Scope, *, certain: bool) -> None:
    match node:
        case ast.Import() | ast.ImportFrom():
            _bind_imports(node, scope, certain=certain)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            _bind_function(program, node, scope, certain=certain)
        case ast.ClassDef(name=name):
            _put(scope, name, None, scope, node.lineno, certain=certain)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            _put(scope, name, None, scope, node.lineno, certain=False)
        case ast.Match():
            _bind_captures(node, scope)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            home = scope.module if isinstance(node, ast.Global) else scope.parent or scope
            scope.elsewhere.update(dict.fromkeys(names, home))
        case ast.Delete(targets=targets):
            scope.deleted |= {item.id for item in targets if isinstance(item, ast.Name)}
        case _:
            _bind_assigned(program, node, scope, certain=certain)


def _bind_captures(node: ast.Match, scope: Scope) -> None:
    """A name in a pattern stands for the subject or a part of it."""
    for part in (part for one in node.cases for part in ast.walk(one.pattern)):
        if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name is not None:
            _put(scope, part.name, node.subject, scope, part.lineno, certain=False)


def _bind_assigned(program: Program, node: ast.AST, scope: Scope, *, certain: bool) -> None:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _bind_target(program, target, value, scope, certain=certain)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _bind_target(program, target, value, scope, certain=certain)
        case (
            ast.AugAssign(target=target, value=value)
            | ast.For(target=target, iter=value)
            | ast.AsyncFor(target=target, iter=value)
            | ast.comprehension(target=target, iter=value)
            | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
        ):
            _bind_target(program, target, value, scope, certain=False)
        case ast.NamedExpr(target=target, value=value):
            home = scope
            while home.is_comprehension and home.parent is not None:
                home = home.parent
            _put(home, target.id, value, scope, target.lineno, certain=False)
        case _:
            pass


def _bind_imports(node: ast.Import | ast.ImportFrom, scope: Scope, *, certain: bool) -> None:
    for alias in node.names:
        if isinstance(node, ast.Import):
            # `import a.b` binds `a`; `import a.b as c` binds the whole of it.
            name, path = (
                (alias.asname, alias.name)
                if alias.asname
                else (alias.name.partition(".")[0], alias.name.partition(".")[0])
            )
        elif alias.name == "*":
            scope.stars.append(node.module or "")
            continue
        else:
            name, path = alias.asname or alias.name, f"{node.module or ''}.{alias.name}"
        _put(scope, name, Symbol(path), scope, node.lineno, certain=certain)


def _bind_function(program: Program, node: FunctionNode, scope: Scope, *, certain: bool) -> None:
    inner = Scope(parent=scope)
    program.scopes[node] = inner
    program.defined_in[node] = scope
    if not isinstance(node, ast.Lambda):
        _put(scope, node.name, node, scope, node.lineno, certain=certain)
    for parameter in _parameters(node):
        _put(inner, parameter.name, parameter, inner, node.lineno, certain=True)


def _parameters(node: FunctionNode) -> Iterator[Parameter]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    n_without = len(positional) - len(arguments.defaults)
    for place, item in enumerate(positional):
        default = arguments.defaults[place - n_without] if place >= n_without else None
        yield Parameter(node, item.arg, place, default)
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(node, item.arg, None, default)
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            yield Parameter(node, rest.arg, None, None)


def _bind_target(
    program: Program, target: ast.expr, value: ast.expr, scope: Scope, *, certain: bool
) -> None:
    match target:
        case ast.Name(id=name):
            _put(scope, name, value, scope, target.lineno, certain=certain)
            if scope.is_class:
                program.attributes[name].append(Binding(value, scope, target.lineno, certain))
        case ast.Attribute(attr=name):
            program.attributes[name].append(Binding(value, scope, target.lineno, certain))
        case ast.Subscript(value=ast.Name(id=name)):
            # A container stands for all of its elements.
            _put(scope, name, value, scope, target.lineno, certain=False)
        case ast.Starred(value=inner):
            _bind_target(program, inner, value, scope, certain=certain)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for item, part in zip(targets, _parts(value, len(targets)), strict=True):
                _bind_target(program, item, part, scope, certain=certain)
        case _:
            pass


def _parts(value: ast.expr, number: int) -> Sequence[ast.expr]:
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if len(parts) == number:
            is_starred = any(isinstance(part, ast.Starred) for part in parts)
            return [value] * number if is_starred else parts
        case _:
            return [value] * number


def _put(
    scope: Scope,
    name: str,
    target: "ast.expr | FunctionNode | Symbol | Parameter | None",
    seen_from: Scope,
    line: int,
    *,
    certain: bool,
) -> None:
    home = scope.elsewhere.get(name, scope)
    home.bindings[name].append(Binding(target, seen_from, line, certain and home is scope))
