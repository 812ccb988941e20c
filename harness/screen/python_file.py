"""A parsed Python file: where names come from, what encloses what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from harness.screen.python_identifiers import plainly
from harness.screen.python_scopes import Function, Scopes

EXTENSION_MAKER = "load_inline"


@dataclass
class PythonFile:
    """A file's tree with its nodes' parents and the origins of its names. `imported` maps "F" to what it stands for."""

    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)

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
