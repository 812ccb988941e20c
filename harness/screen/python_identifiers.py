"""The one place that knows where a Python file spells a name: what binds one, what reaches an attribute.

`ROLES` holds every field of Python's syntax tree that is an identifier. A Python whose tree has another one is not
understood, and its file is refused; `tests/harness/screen/test_python_identifiers.py` tells of it first.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from typing import Literal

from harness.screen.rules import words_of

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
    for (kind, field), played in ROLES.items():
        if played == role and type(node).__name__ == kind:
            said = getattr(node, field)
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
