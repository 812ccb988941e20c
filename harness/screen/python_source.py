"""The screen of a foreign Python file with `ModelNew`: its syntax tree against rules, nothing is run.

It tells intent early and in words; what it misses meets the same walls and checks as any kernel. Arithmetic signs are
no calls: a module may add and divide tensors, as it may call PyTorch for what its task is not about.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from harness.screen.inline_kernels import refuse_inline
from harness.screen.operators import plain
from harness.screen.python_file import EXTENSION_MAKER, Function, PythonFile, imported_names, last_name, root_name
from harness.screen.python_rules import (
    ADVICE,
    ALLOWED_MODULES,
    ATTRIBUTES,
    MODULES,
    NAMES,
    NARROW,
    PATHS,
    PATHS_ALLOWED,
)
from harness.screen.refusal import Refusal
from harness.screen.rules import words_of
from harness.screen.source import MAX_CHARACTERS

ENTRY = "ModelNew"
_DUNDERS = frozenset({"__init__", "__call__", "__repr__", "__name__", "__doc__", "__version__", "__len__", "__main__"})
_LAZY_METHODS = frozenset({"__torch_function__", "__torch_dispatch__", "__tensor_unflatten__"})
_STORES = words_of("append setdefault update add pop insert extend clear popitem appendleft get")
_NARROW_TASKS = frozenset({"float16", "bfloat16"})

Finding = tuple[ast.AST, str, str]
"""Where, of what kind, and the words that offend."""
Rule = Callable[[PythonFile, ast.AST], Iterator[Finding]]


def screen_python(source: str, operators: frozenset[str], allowances: frozenset[str]) -> Refusal | None:
    """Why a file may not run, or None. `operators` are the plain names of what its task computes with.

    `allowances` are the dtypes of the task's tensors and the precision. The first offence by its line is told.
    """
    if len(source) > MAX_CHARACTERS:
        return Refusal(kind="size", message=f"The source has {len(source)} characters, more than {MAX_CHARACTERS}.")
    try:
        file = PythonFile(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError) as error:
        return Refusal(kind="unreadable", message=f"This is no Python: {error}.")
    if not any(isinstance(node, ast.ClassDef) and node.name == ENTRY for node in file.tree.body):
        return Refusal(kind="entry", message=f"There is no class {ENTRY} in the file.")
    rules = [*_RULES, _hands_back(operators), *([] if allowances & _NARROW_TASKS else [_narrow])]
    found = [finding for rule in rules for node in file.nodes for finding in rule(file, node)]
    refusals = [_refusal(*finding) for finding in found]
    refusals += refuse_inline(file, operators, allowances)
    return min(refusals, key=lambda refusal: refusal.line or 0, default=None)


def _refusal(node: ast.AST, kind: str, words: str) -> Refusal:
    return Refusal(kind=kind, line=getattr(node, "lineno", 1), message=f"{words}: {ADVICE[kind]}")


def _imports(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.ImportFrom) and (node.level or node.names[0].name == "*"):
        yield node, "import", f"from {'.' * node.level}{node.module or ''} import {node.names[0].name}"
        return
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        top = module.split(".")[0]
        if top in MODULES:
            yield node, MODULES[top], f"import {module}"
        elif module not in ALLOWED_MODULES:
            yield node, _path_kind(module) or "import", f"import {module}"
    for origin in imported_names(node).values():
        if kind := _path_kind(origin):
            yield node, kind, origin
        elif origin.startswith("functools.") and origin != "functools.partial":
            yield node, "cache", origin


def _path_kind(path: str) -> str:
    if path.startswith(PATHS_ALLOWED):
        return ""
    return next((kind for start, kind in PATHS.items() if path.startswith(start)), "")


def _names(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    if node.id in NAMES and node.id not in file.globals:
        yield node, NAMES[node.id], node.id
    elif node.id == "Model":
        yield node, "reference", node.id
    elif node.id.startswith("__") and node.id not in _DUNDERS:
        yield node, "introspection", node.id
    elif node.id == "getattr" and not _plain_getattr(node, file.parents[node]):
        yield node, "dynamic", "getattr with a name that is no literal"


def _plain_getattr(name: ast.Name, call: ast.AST) -> bool:
    if not isinstance(call, ast.Call) or call.func is not name or len(call.args) < 2:
        return False
    return isinstance(call.args[1], ast.Constant)


def _attributes(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.Attribute | ast.Call | ast.Name):
        return
    path = file.path(node)
    name = path.rsplit(".", 1)[-1] if path else last_name(node) if isinstance(node, ast.Attribute) else ""
    if kind := _path_kind(path) or _pivot(file, path):
        yield node, kind, path
    elif name == EXTENSION_MAKER and not _is_called(file, node):
        yield node, "dynamic", f"{name}, which may only be called"
    elif isinstance(node, ast.Name) or file.on_device(node):
        return
    elif name in ATTRIBUTES:
        yield node, ATTRIBUTES[name], name
    elif path.startswith("functools.") and path != "functools.partial":
        yield node, "cache", path
    elif name.startswith("__") and name not in _DUNDERS:
        yield node, "introspection", name
    elif name.startswith("_") and name not in _DUNDERS and not path.startswith("self."):
        yield node, "introspection", f"{path or name}, which is private"


def _pivot(file: PythonFile, path: str) -> str:
    """The kind of a refused module that is reached through another one: `torch.os`."""
    root, *rest = path.split(".")
    if root not in {origin.split(".")[0] for origin in file.origins}:
        return ""
    return next((MODULES[part] for part in rest if part in MODULES), "")


def _is_called(file: PythonFile, node: ast.AST) -> bool:
    parent = file.parents[node]
    return isinstance(node, ast.Call) or (isinstance(parent, ast.Call) and parent.func is node)


def _tries(_: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Try | ast.TryStar):
        yield node, "fallback", "try"


def _classes(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.ClassDef):
        return
    bases = [file.path(base) for base in node.bases]
    for base in bases:
        if base.rsplit(".", 1)[-1] in ("Tensor", "Parameter", "UntypedStorage"):
            yield node, "lazy", f"class {node.name}({base})"
    if node.name == ENTRY and bases != ["torch.nn.Module"]:
        yield node, "reference", f"class {ENTRY}({', '.join(bases)}), which must be an nn.Module"
    for keyword in node.keywords:
        yield keyword.value, "introspection", f"class {node.name}({keyword.arg}=...)"


def _methods(_: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, Function):
        return
    if node.name in _LAZY_METHODS:
        yield node, "lazy", node.name
    elif node.name.startswith("__") and node.name not in _DUNDERS:
        yield node, "introspection", f"def {node.name}"
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if isinstance(default, ast.Dict | ast.List | ast.Set | ast.Call):
            yield default, "cache", f"a default of {node.name} that can be changed"


def _assignments(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """What a store goes into: other people's objects never, one's own outside of __init__ neither."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        yield node, "cache", f"{type(node).__name__.lower()} {', '.join(node.names)}"
    if not isinstance(node, ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Load):
        return
    root, function = root_name(node), file.function_of(node)
    if file.on_device(node):
        return
    local = function is not None and root not in file.globals
    if root == "self" or (isinstance(node, ast.Subscript) and root in file.globals and function):
        if function and function.name != "__init__":
            yield node, "cache", f"a store into {ast.unparse(node)} in {function.name}"
    elif isinstance(node, ast.Attribute) and not local and root != "ctx":
        yield node, "patch", f"a store into {ast.unparse(node)}"


def _mutations(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """`cache.setdefault(...)`, `self.seen.append(...)` while running."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _STORES:
        return
    function, root = file.function_of(node), root_name(node.func)
    if function and function.name != "__init__" and (root == "self" or root in file.globals):
        yield node, "cache", f"{ast.unparse(node.func)} in {function.name}"


def _addresses(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """An address may be handed to a kernel, and nothing else."""
    if not isinstance(node, ast.Attribute) or node.attr != "data_ptr" or file.on_device(node):
        return
    call = file.parents[node]
    user = file.parents.get(call)
    handed = isinstance(call, ast.Call) and isinstance(user, ast.Call) and user.func is not call
    if not handed or (isinstance(user, ast.Call) and last_name(user.func) in _STORES):
        yield node, "cache", "data_ptr() for something else than a kernel's argument"


def _narrow(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Attribute) and node.attr in NARROW and root_name(node) not in file.extensions:
        yield node, "precision", node.attr


def _hands_back(operators: frozenset[str]) -> Rule:
    """Every mention of an operator of the task, but for modules that are made in __init__ and never called."""

    def rule(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
        if file.on_device(node) or _in_reference(file, node):
            return
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult) and "matmul" in operators:
            yield node, "operator", "@"
        elif isinstance(node, ast.Attribute) and (name := _used_module(file, node, operators)):
            yield node, "operator", f"{file.path(node)}, made with {name}"
        elif isinstance(node, ast.Call) and plain(file.path(node).rsplit(".", 1)[-1]) in operators:
            yield node, "operator", f"getattr({file.path(node)})"
        elif isinstance(node, ast.Attribute | ast.Name) and _is_operator(file, node, operators):
            yield node, "operator", file.path(node) or last_name(node)

    return rule


def _in_reference(file: PythonFile, node: ast.AST) -> bool:
    """Whether a node stands in a copy of the reference; that nobody uses it is another rule."""
    return any(isinstance(outer, ast.ClassDef) and outer.name == "Model" for outer in file.enclosing(node))


def _used_module(file: PythonFile, node: ast.Attribute, operators: frozenset[str]) -> str:
    """With what operator `self.x` was made, where more of it is used than its parameters and settings."""
    if not isinstance(node.ctx, ast.Load):
        return ""
    parent = file.parents[node]
    if isinstance(parent, ast.Attribute) and parent.attr not in ("forward", "__call__"):
        return ""
    made = file.submodules.get(file.path(node), frozenset())
    return next((name for name in sorted(made) if plain(name) in operators), "")


def _is_operator(file: PythonFile, node: ast.Attribute | ast.Name, operators: frozenset[str]) -> bool:
    if not isinstance(node.ctx, ast.Load):
        return False
    path = file.path(node)
    name = path.rsplit(".", 1)[-1] if path else last_name(node)
    if plain(name) not in operators or path.startswith(("triton.", "math.")):
        return False
    if isinstance(node, ast.Name):
        return path.startswith("torch.")
    owner = file.path(node.value)
    if owner in file.extensions or owner == "self":
        return False
    return not (name[0].isupper() and _made_in_init(file, node))


def _made_in_init(file: PythonFile, node: ast.AST) -> bool:
    """Whether a constructor's result goes straight into `self.x` in __init__, where its uses can be followed."""
    function = file.function_of(node)
    statement = next((outer for outer in file.enclosing(node) if isinstance(outer, ast.stmt)), None)
    kept = isinstance(statement, ast.Assign) and all(isinstance(t, ast.Attribute) for t in statement.targets)
    return kept and function is not None and function.name == "__init__"


_RULES: tuple[Rule, ...] = (
    _imports,
    _names,
    _attributes,
    _tries,
    _classes,
    _methods,
    _assignments,
    _mutations,
    _addresses,
)
