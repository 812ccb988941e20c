"""Where a Python file binds its names, and which binding a use of one refers to: what a name means depends on both."""

from __future__ import annotations

import ast
from typing import NamedTuple

from harness.screen.python_identifiers import bound

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
