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
_GIVES_ONCE = words_of("iter zip map filter enumerate reversed count cycle repeat chain islice accumulate starmap tee")
"""What these give is used up by whoever goes through it, and so tells how often that was."""
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
        stores = _stores(node.func.attr) or (node.func.attr in _KEEPERS and root_name(node.func) == "self")
        if stores and _outlives(file, node.func):
            yield node, "cache", f"{ast.unparse(node.func)} in {function.name}"
    elif last_name(node.func) == "next" and node.args and _outlives(file, node.args[0]):
        yield node, "cache", f"{ast.unparse(node)} in {function.name}"


def handed_stores(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """`@kept.append` and `map(kept.append, ...)` store without a call that says so."""
    if not isinstance(node, ast.Attribute) or node.attr not in STORES or not isinstance(node.ctx, ast.Load):
        return
    user = file.parents[node]
    called = isinstance(user, ast.Call) and user.func is node
    if not called and file.path(node).split(".")[0] not in {origin.split(".")[0] for origin in file.origins}:
        yield node, "cache", f"{ast.unparse(node)}, handed on"


def held_iterators(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """`CALLS = iter(range(9))`: what is used up while it is gone through is kept between calls."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
        return
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    kept = file.function_of(node) is None or any(isinstance(target, ast.Attribute) for target in targets)
    made = node.value
    gives = isinstance(made, ast.Call) and (last_name(made) in _GIVES_ONCE or last_name(made) in _generators(file))
    if kept and (gives or isinstance(made, ast.GeneratorExp)):
        yield node, "cache", f"{ast.unparse(targets[0])}, which is used up,"


def _generators(file: PythonFile) -> set[str]:
    """Names of the file's functions that yield."""
    yields = (node for node in file.nodes if isinstance(node, ast.Yield | ast.YieldFrom))
    return {around.name for node in yields if (around := file.function_of(node)) is not None}


def _stores(method: str) -> bool:
    """Whether a method changes its object: by a container's name for it, or by PyTorch's underscore."""
    return method in STORES or (method.endswith("_") and not method.startswith("_"))


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
