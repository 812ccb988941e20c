"""A parsed Python file: where names come from, what encloses what."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from harness.screen.rules import words_of

# -- The one place that knows where a Python file spells a name: what binds one, what reaches an attribute ------------

# `ROLES` holds every field of Python's syntax tree that is an identifier. A Python whose tree has another one is not
# understood, and its file is refused; `tests/harness/screen/test_python_identifiers.py` tells of it first.


Role = Literal["name", "binds", "reaches", "imports", "declares", "says"]

ROLES: dict[tuple[str, str], Role] = {
    ("Name", "id"): "name",
    ("FunctionDef", "name"): "binds",
    ("AsyncFunctionDef", "name"): "binds",
    ("ClassDef", "name"): "binds",
    ("arg", "arg"): "binds",
    ("ExceptHandler", "name"): "binds",
    ("MatchAs", "name"): "binds",
    ("MatchStar", "name"): "binds",
    ("MatchMapping", "rest"): "binds",
    ("TypeVar", "name"): "binds",
    ("ParamSpec", "name"): "binds",
    ("TypeVarTuple", "name"): "binds",
    ("Attribute", "attr"): "reaches",
    ("MatchClass", "kwd_attrs"): "reaches",
    ("ImportFrom", "module"): "imports",
    ("alias", "name"): "imports",
    ("alias", "asname"): "imports",
    ("Global", "names"): "declares",
    ("Nonlocal", "names"): "declares",
    ("keyword", "arg"): "says",
}
"""What an identifier does there: "name" binds or uses, as its context says; "says" is the name of an argument."""

NODES = words_of("""
    Module Expr Assign AnnAssign AugAssign Delete Pass Return Raise Assert If For AsyncFor While Break Continue With
    AsyncWith Try TryStar Import ImportFrom Global Nonlocal FunctionDef AsyncFunctionDef ClassDef Match TypeAlias
    BoolOp BinOp UnaryOp Compare NamedExpr Lambda IfExp Dict Set List Tuple ListComp SetComp DictComp GeneratorExp
    Await Yield YieldFrom Call FormattedValue JoinedStr Constant Attribute Subscript Starred Name Slice
    And Or Add Sub Mult MatMult Div FloorDiv Mod Pow LShift RShift BitAnd BitOr BitXor Invert Not UAdd USub
    Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn Load Store Del
    MatchValue MatchSingleton MatchSequence MatchMapping MatchClass MatchStar MatchAs MatchOr match_case
    ExceptHandler arg arguments alias keyword comprehension withitem TypeIgnore TypeVar ParamSpec TypeVarTuple
    """)
"""What a tree may consist of. What a later Python adds is refused until it is thought about."""

_REACHING = re.compile(r"\{[^{}:!]*[.\[]|:[^{}]*\{")
"""In a format's text: a field with more than a name, or one inside another."""
_INTERPRETER = (
    types.FrameType, types.CodeType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType,
    types.TracebackType,
)  # fmt: skip
INTERNALS = frozenset(
    name for each in _INTERPRETER for name in dir(each) if name.split("_")[0] in ("f", "co", "gi", "cr", "ag", "tb")
)
"""Attributes without underscores in front that lead into the interpreter: `gi_frame`, `f_builtins` and their like."""


def named(node: ast.AST, role: Role) -> Iterator[str]:
    """The identifiers of a node itself that play a role."""
    for (kind, part), played in ROLES.items():
        if played == role and type(node).__name__ == kind:
            said = getattr(node, part)
            yield from said if isinstance(said, list) else filter(None, [said])


def bound(node: ast.AST) -> Iterator[str]:
    """The names that a node itself binds, or unbinds."""
    yield from named(node, "binds")
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Import):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)


def formats(node: ast.AST) -> bool:
    """Whether a node is a string's `format` whose text reaches attributes or items, or is not written out."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("format", "format_map"):
        return False
    text = node.value.value if isinstance(node.value, ast.Constant) else None
    return not isinstance(text, str) or _REACHING.search(text) is not None


class _Plain(ast.NodeTransformer):
    """`getattr(a, "b")` is `a.b`, and with a default `a.b or default`: what is reached by a literal is an attribute."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The attribute that a call of getattr stands for; any other call as it is."""
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1):
            return node
        name = node.args[1]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)) or node.keywords:
            return node
        reached = ast.copy_location(ast.Attribute(value=node.args[0], attr=name.value, ctx=ast.Load()), node)
        if not node.args[2:]:
            return reached
        return ast.copy_location(ast.BoolOp(op=ast.Or(), values=[reached, *node.args[2:]]), node)


def plainly(tree: ast.Module) -> ast.Module:
    """The tree with every attribute written as one, however it is reached."""
    plain: ast.Module = _Plain().visit(tree)
    return plain


# -- Where a Python file binds its names, and which binding a use of one refers to: what a name means depends on bo ---


Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Binding(NamedTuple):
    """What gives a name its meaning, and in which scope: a module, class, function, lambda or comprehension."""

    scope: ast.AST
    node: ast.AST


class Scopes:
    """The bindings of a file whose nodes have these parents."""

    def __init__(self, nodes: list[ast.AST], parents: dict[ast.AST, ast.AST]) -> None:
        self._parents = parents
        self.bindings: dict[str, list[Binding]] = {}
        for node in nodes:
            for name in bound(node):
                self.bindings.setdefault(name, []).append(Binding(self._binds_in(node), node))

    def scope_of(self, node: ast.AST) -> ast.AST:
        """The scope in which a node's names are looked up first: a function's decorators and defaults are outside."""
        child = node
        while child in self._parents:
            parent = self._parents[child]
            if isinstance(parent, Function):
                inside = child is not parent.args and child is not parent.returns and child not in parent.decorator_list
            elif isinstance(parent, ast.Lambda):
                inside = child is parent.body
            elif isinstance(parent, ast.ClassDef):
                inside = child not in (*parent.decorator_list, *parent.bases, *parent.keywords)
            else:
                inside = isinstance(parent, _Comprehension | ast.Module)
            if inside:
                return parent
            child = parent
        return child

    def meaning(self, name: ast.Name | str, at: ast.AST | None = None) -> list[Binding]:
        """The bindings in the scope that a use refers to; none for names of Python itself."""
        start = name if isinstance(name, ast.Name) else at
        known = self.bindings.get(name.id if isinstance(name, ast.Name) else name, [])
        if not known or start is None:
            return []
        first = scope = self.scope_of(start)
        while True:
            here = [binding for binding in known if binding.scope is scope]
            if here and (scope is first or not isinstance(scope, ast.ClassDef)):
                return here
            if scope not in self._parents:
                return []
            scope = self.scope_of(scope)

    def is_local(self, name: str, at: ast.AST) -> bool:
        """Whether a name belongs to the function, lambda or comprehension around `at`, not to the file or Python."""
        found = self.meaning(name, at)
        return bool(found) and not isinstance(found[0].scope, ast.Module | ast.ClassDef)

    def only(self, name: str) -> ast.AST | None:
        """The one node that binds a name anywhere in the file; None where there are more or none."""
        found = self.bindings.get(name, [])
        return found[0].node if len(found) == 1 else None

    def _binds_in(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.arg):
            return self._parents[self._parents[node]]
        scope = self.scope_of(node)
        if isinstance(self._parents.get(node), ast.NamedExpr):
            while isinstance(scope, _Comprehension):
                scope = self.scope_of(scope)
        return scope


# -- A parsed Python file: where names come from, what encloses what --------------------------------------------------


EXTENSION_MAKER = "load_inline"


@dataclass
class PythonFile:
    """A file's tree with its nodes' parents and the origins of its names. `imported` maps "F" to what it stands for.

    `state` are the state_dict names of the buffers that the task's forward writes.
    """

    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)
    state: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.tree = plainly(self.tree)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imported.update(imported_names(node))
        self.scopes = Scopes(self.nodes, self.parents)
        assigns = [node for node in self.nodes if isinstance(node, ast.Assign)]
        for _ in range(3):  # an alias of an alias of an alias
            for assign in assigns:
                self._alias(assign)

    def _alias(self, assign: ast.Assign) -> None:
        if isinstance(assign.value, ast.Name | ast.Attribute):
            path = self.path(assign.value)
            for target in assign.targets:
                if isinstance(target, ast.Name) and path.split(".")[0] in {p.split(".")[0] for p in self.origins}:
                    self.imported[target.id] = path

    @property
    def origins(self) -> frozenset[str]:
        """Everything that names were imported from."""
        return frozenset(self.imported.values())

    def path(self, node: ast.expr) -> str:
        """The dotted name that an expression stands for, with renamed imports undone; "" where it is no name."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.path(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function around a node."""
        return next((outer for outer in self.enclosing(node) if isinstance(outer, Function)), None)

    def on_device(self, node: ast.AST) -> bool:
        """Whether a node is in a function that triton compiles, and in nothing else."""
        return any(outer in self.kernels for outer in self.enclosing(node))

    @cached_property
    def kernels(self) -> frozenset[ast.AST]:
        """The functions that triton compiles."""
        functions = (node for node in self.nodes if isinstance(node, Function))
        return frozenset(each for each in functions if any(map(self._compiles, each.decorator_list)))

    def _compiles(self, mark: ast.expr) -> bool:
        maker = mark.func if isinstance(mark, ast.Call) else mark
        root = root_name(maker)
        bound = [binding.node for binding in self.scopes.bindings.get(root, [])]
        imported = bool(bound) and all(isinstance(node, ast.Import | ast.ImportFrom) for node in bound)
        return imported and self.path(maker) == "triton.jit"

    @cached_property
    def extensions(self) -> frozenset[str]:
        """Paths that hold a compiled extension: the results of load_inline and what they were assigned to."""
        found: set[str] = set()
        others: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                held = self.makes_extension(node.value) or self.path(node.value) in found
                (found if held else others).update(map(self._holder, node.targets))
        return frozenset(found - others - {""})

    def _holder(self, target: ast.expr) -> str:
        """The path of a target of which nothing else can be meant."""
        if isinstance(target, ast.Name) and self.scopes.only(target.id) is not target:
            return ""
        return self.path(target)

    def makes_extension(self, node: ast.AST) -> bool:
        """Whether a node is a call of load_inline, however that was imported."""
        return isinstance(node, ast.Call) and self.path(node.func).rsplit(".", 1)[-1] == EXTENSION_MAKER

    @cached_property
    def submodules(self) -> dict[str, frozenset[str]]:
        """`self.x` to the names of what its value was made with, in `self.x = nn.Sequential(nn.Softmax(1))`."""
        made: dict[str, frozenset[str]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                makers = frozenset(last_name(c.func) for c in ast.walk(node.value) if isinstance(c, ast.Call))
                made.update({self.path(target): makers for target in node.targets if isinstance(target, ast.Attribute)})
        return made


def imported_names(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Local name to dotted origin. A relative import keeps its dots."""
    if isinstance(node, ast.Import):
        return {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names}
    start = "." * node.level + (node.module or "")
    return {a.asname or a.name: f"{start}.{a.name}" for a in node.names}


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`, of a call's function, or ""."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def root_name(node: ast.expr) -> str:
    """`a` of `a.b[0].c()`, or ""."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
