"""Nothing may be kept between calls, and nobody else's objects changed: stores, and calls that store."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.screen.python_file import PythonFile, last_name, root_name
from harness.screen.python_scopes import Function
from harness.screen.rules import words_of

STORES = words_of("append setdefault update add pop insert extend clear popitem appendleft get send copy_ set_")
_KEEPERS = words_of("register_buffer register_parameter add_module register_module load_state_dict")
_CONTAINERS = words_of("dict list set defaultdict deque OrderedDict Counter bytearray")
# What a plain tensor may be told anywhere: it changes no value.
_HARMLESS = "requires_grad"

Finding = tuple[ast.AST, str, str]
"""Where, of what kind, and the words that offend."""


def assignments(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """What a store goes into: other people's objects never, one's own outside of __init__ neither."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        yield node, "cache", f"{type(node).__name__.lower()} {', '.join(node.names)}"
    if not isinstance(node, ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Load):
        return
    function, root = file.function_of(node), root_name(node)
    if isinstance(node, ast.Attribute) and _is_others(file, node, root):
        yield node, "patch", f"a store into {ast.unparse(node)}"
    elif _outlives(file, node) and function and function.name != "__init__":
        yield node, "cache", f"a store into {ast.unparse(node)} in {function.name}"


def mutations(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """`cache.setdefault(...)`, `self.seen.append(...)`, `next(counter)` while running."""
    function = file.function_of(node)
    if not isinstance(node, ast.Call) or function is None or function.name == "__init__":
        return
    if isinstance(node.func, ast.Attribute):
        stores = node.func.attr in STORES or (node.func.attr in _KEEPERS and root_name(node.func) == "self")
        if stores and _outlives(file, node.func):
            yield node, "cache", f"{ast.unparse(node.func)} in {function.name}"
    elif last_name(node.func) == "next" and node.args and _outlives(file, node.args[0]):
        yield node, "cache", f"{ast.unparse(node)} in {function.name}"


def defaults(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """A default is made once: one that can be changed is kept between calls."""
    if not isinstance(node, Function | ast.Lambda):
        return
    name = getattr(node, "name", "a lambda")
    for default in filter(None, (*node.args.defaults, *node.args.kw_defaults)):
        if isinstance(default, ast.Dict | ast.List | ast.Set | ast.Call) or _is_container(file, default):
            yield default, "cache", f"a default of {name} that can be changed"


def _is_others(file: PythonFile, node: ast.Attribute, root: str) -> bool:
    """Whether an attribute is that of something global, or of what Python itself names."""
    own_class = last_name(node.value) == "type"
    return file.function_of(node) is None or not (file.scopes.is_local(root, node) or own_class)


def _outlives(file: PythonFile, node: ast.expr) -> bool:
    """Whether what is stored into is there for longer than one call: the module itself, the file's, a factory's."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.attr != _HARMLESS and root_name(node) != "ctx"
    seen = node
    for _ in range(3):  # `k = self.kept` and `k = KEPT` are what they stand for
        root = root_name(seen)
        if root == "self":
            return True
        found = file.scopes.meaning(root, node)
        if not found:
            return False
        aliases = [made for each in found if (made := _value_of(file, each.node)) is not None]
        if not aliases or not isinstance(aliases[0], ast.Name | ast.Attribute | ast.Subscript):
            return _is_wider(file, found[0].scope, node)
        seen = aliases[0]
    return True


def _is_wider(file: PythonFile, scope: ast.AST, node: ast.AST) -> bool:
    """Whether a scope is the file's, or that of a function which makes others: a method's own ends with its call."""
    if not isinstance(scope, Function):
        return not isinstance(scope, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
    is_method = isinstance(file.parents.get(scope), ast.ClassDef) and scope.name != "__init__"
    return scope is not file.function_of(node) and not is_method


def _value_of(file: PythonFile, name: ast.AST) -> ast.expr | None:
    holder = file.parents.get(name)
    return holder.value if isinstance(holder, ast.Assign) else None


def _is_container(file: PythonFile, default: ast.expr) -> bool:
    if not isinstance(default, ast.Name):
        return False
    values = [_value_of(file, each.node) for each in file.scopes.meaning(default)]
    return any(
        isinstance(value, ast.Dict | ast.List | ast.Set)
        or (isinstance(value, ast.Call) and last_name(value) in _CONTAINERS)
        for value in values
    )
