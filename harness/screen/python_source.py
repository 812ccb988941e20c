"""The screen of a foreign Python file with `ModelNew`: its syntax tree against rules, nothing is run.

It tells intent early and in words; what it misses meets the same walls and checks as any kernel. Arithmetic signs are
no calls: a module may add and divide tensors, as it may call PyTorch for what its task is not about.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from harness.nouns.refusal import Refusal
from harness.screen.inline_kernels import refuse_inline
from harness.screen.operators import plain
from harness.screen.python_file import (
    EXTENSION_MAKER,
    INTERNALS,
    NODES,
    Function,
    PythonFile,
    bound,
    formats,
    imported_names,
    last_name,
    named,
    root_name,
)
from harness.screen.python_rules import (
    ADVICE,
    ALLOWED_MODULES,
    ATTRIBUTES,
    MODULE_PATHS,
    MODULES,
    NAMES,
    NARROW,
    PATHS,
    PATHS_ALLOWED,
    STORES,
    Finding,
    assignments,
    defaults,
    handed_stores,
    held_iterators,
    mutations,
)
from harness.screen.rules import words_of
from harness.screen.source import MAX_CHARACTERS

ENTRY = "ModelNew"
_WALKS = words_of("children named_children modules named_modules get_submodule apply")
_HOOK = re.compile(r"register_\w*hook")
_DUNDERS = frozenset({"__init__", "__call__", "__repr__", "__name__", "__doc__", "__version__", "__len__", "__main__"})
_LAZY_METHODS = frozenset({"__torch_function__", "__torch_dispatch__", "__tensor_unflatten__"})
_NARROW_TASKS = frozenset({"float16", "bfloat16"})

Rule = Callable[[PythonFile, ast.AST], Iterator[Finding]]


def screen_python(
    source: str, operators: frozenset[str], allowances: frozenset[str], state: frozenset[str] = frozenset()
) -> Refusal | None:
    """Why a file may not run, or None. `operators` are the plain names of what its task computes with.

    `allowances` are the dtypes of the task's tensors and the precision, `state` the names of what its forward writes.
    The first offence by its line is told.
    """
    if len(source) > MAX_CHARACTERS:
        return Refusal(kind="size", message=f"The source has {len(source)} characters, more than {MAX_CHARACTERS}.")
    try:
        file = PythonFile(ast.parse(source), state=state)
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
    if node.id in NAMES and not _is_own(file, node):
        yield node, NAMES[node.id], node.id
    elif node.id == "Model" and not (_in_reference(file, node) and _is_supers(file.parents[node])):
        yield node, "reference", node.id
    elif node.id.startswith("__") and node.id not in _DUNDERS:
        yield node, "introspection", node.id
    elif node.id == "getattr":
        yield node, "dynamic", "getattr with a name that is no literal"
    elif node.id == "type" and not _asks_type(node, file.parents[node]):
        yield node, "introspection", "type for something else than to ask for one"


def _is_own(file: PythonFile, name: ast.Name) -> bool:
    """Whether the file certainly means something of its own by a built-in function's name.

    A function's local name is never the built-in one; a file's may be, before it is given or where it never is.
    """
    found = file.scopes.meaning(name)
    if not found or not isinstance(found[0].scope, ast.Module):
        return bool(found) and not isinstance(found[0].scope, ast.ClassDef)
    if any(isinstance(getattr(binding.node, "ctx", None), ast.Del) for binding in found):
        return False
    return any(_comes_before(file, _statement(file, binding.node), name) for binding in found)


def _is_supers(user: ast.AST) -> bool:
    return isinstance(user, ast.Call) and last_name(user.func) == "super"


def _statement(file: PythonFile, node: ast.AST) -> ast.AST:
    return node if isinstance(node, ast.stmt) else file.parents[node]


def _comes_before(file: PythonFile, statement: ast.AST, name: ast.Name) -> bool:
    """Whether a statement stands before the one that a name is in, in the same block: then it has run."""
    if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assign):
        return False
    parent, around = file.parents[statement], {name, *file.enclosing(name)}
    blocks = [getattr(parent, field, []) for field in ("body", "orelse")]
    block = next((block for block in blocks if statement in block), [])
    return any(later in around for later in block[block.index(statement) + 1 :]) if block else False


def _asks_type(name: ast.Name, user: ast.AST) -> bool:
    """`type(x)` and the annotation `type[X]`; with more arguments it makes a class that no rule reads."""
    if isinstance(user, ast.Subscript):
        return user.value is name
    if not isinstance(user, ast.Call) or user.keywords or user.func is not name:
        return False
    return len(user.args) == 1 and not isinstance(user.args[0], ast.Starred)


def _bindings(_: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """Names that Python itself gives a meaning to, and those by which a pattern would reach into it."""
    for name in bound(node):
        special = name.startswith("__") and name.endswith("__") and name not in _DUNDERS
        if name in INTERNALS or (special and not isinstance(node, Function)):  # `_methods` has words of its own
            yield node, "introspection", f"{name}, given a meaning"


def _patterns(_: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """`case A(b=c)` and `"{0.b}".format(a)` reach `b`, where no rule would follow it."""
    if formats(node):
        yield node, "dynamic", "format, by which attributes are reached,"
    if not isinstance(node, ast.Attribute):
        for name in named(node, "reaches"):
            yield node, "dynamic", f"{name}, reached by a pattern"


def _new_syntax(_: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if type(node).__name__ not in NODES:
        yield node, "dynamic", f"{type(node).__name__}, which this screen does not know,"


def _attributes(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.Attribute | ast.Name):
        return
    path = file.path(node)
    name = path.rsplit(".", 1)[-1] if path else last_name(node) if isinstance(node, ast.Attribute) else ""
    if kind := _kind_of(file, path):
        yield node, kind, path
    elif name == EXTENSION_MAKER and not _is_called(file, node):
        yield node, "dynamic", f"{name}, which may only be called"
    elif isinstance(node, ast.Attribute) and not file.on_device(node):
        yield from _reached(node, path, name)


def _reached(node: ast.Attribute, path: str, name: str) -> Iterator[Finding]:
    if name in ATTRIBUTES:
        yield node, ATTRIBUTES[name], name
    elif _HOOK.fullmatch(name):
        yield node, "patch", name
    elif path.startswith("functools.") and path != "functools.partial":
        yield node, "cache", path
    elif name in INTERNALS or (name.startswith("__") and name not in _DUNDERS):
        yield node, "introspection", name
    elif name.startswith("_") and name not in _DUNDERS and not path.startswith("self."):
        yield node, "introspection", f"{path or name}, which is private"


def _kind_of(file: PythonFile, path: str) -> str:
    kind = _path_kind(path)
    return _pivot(file, path) or kind if kind in ("", "loading") else kind


def _pivot(file: PythonFile, path: str) -> str:
    """The kind of a refused module that is reached through another one: `torch.os`."""
    root, *rest = path.split(".")
    if root not in {origin.split(".")[0] for origin in file.origins}:
        return ""
    return next((MODULES[part] for part in rest if part in MODULES), "")


def _modules(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """A module is followed by a name, or given one of its own: what is handed around is not followed."""
    if not isinstance(node, ast.Name | ast.Attribute) or (path := file.path(node)) not in MODULE_PATHS:
        return
    if path.split(".")[0] not in {origin.split(".")[0] for origin in file.origins}:
        return
    stores = not isinstance(node.ctx, ast.Load)
    root = node if isinstance(node, ast.Name) else None
    if stores or (root is not None and file.scopes.is_local(root.id, root) and not _is_alias(file, root)):
        return
    user = file.parents[node]
    if not isinstance(user, ast.Attribute) and not _names_once(file, user):
        yield node, "dynamic", f"{path} as a value"


def _is_alias(file: PythonFile, name: ast.Name) -> bool:
    kinds = (ast.Import, ast.ImportFrom, ast.Assign)
    return any(isinstance(_statement(file, binding.node), kinds) for binding in file.scopes.meaning(name))


def _names_once(file: PythonFile, user: ast.AST) -> bool:
    """Whether a statement gives a module a name that means nothing else in the file."""
    if not isinstance(user, ast.Assign) or not isinstance(user.value, ast.Name | ast.Attribute):
        return False
    plain = all(isinstance(target, ast.Name) and file.scopes.only(target.id) is target for target in user.targets)
    return plain and not isinstance(file.scopes.scope_of(user), ast.ClassDef)


def _rebindings(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """An imported name that means something else elsewhere in the file, outside of functions."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return
    for name, origin in imported_names(node).items():
        for binding in file.scopes.bindings.get(name, []):
            if isinstance(binding.node, ast.Import | ast.ImportFrom):
                other = imported_names(binding.node)[name] != origin
            else:
                other = isinstance(binding.scope, ast.Module | ast.ClassDef)
            if other:
                yield binding.node, "dynamic", f"{name}, which is imported and given another meaning,"


def _compiled(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """The Python behind a kernel of triton's runs on the host: `kernel.fn(x)`."""
    if file.kernels and isinstance(node, ast.Attribute) and node.attr == "fn" and file.path(node) != "self.fn":
        yield node, "operator", f"{file.path(node) or node.attr}, a kernel's own Python,"


def _is_called(file: PythonFile, node: ast.AST) -> bool:
    parent = file.parents[node]
    return isinstance(parent, ast.Call) and parent.func is node


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


def _addresses(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """An address may be handed to a kernel, and nothing else."""
    if not isinstance(node, ast.Attribute) or node.attr != "data_ptr" or file.on_device(node):
        return
    call = file.parents[node]
    user = file.parents.get(call)
    handed = isinstance(call, ast.Call) and isinstance(user, ast.Call) and user.func is not call
    if not handed or (isinstance(user, ast.Call) and last_name(user.func) in STORES):
        yield node, "cache", "data_ptr() for something else than a kernel's argument"


def _narrow(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Attribute) and node.attr in NARROW and root_name(node) not in file.extensions:
        yield node, "precision", node.attr


def _hands_back(operators: frozenset[str]) -> Rule:
    """Every mention of an operator of the task, but for modules that are made in __init__ and never called."""

    def rule(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
        if _in_reference(file, node) or (file.on_device(node) and not _is_torchs(file, node)):
            return
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult) and "matmul" in operators:
            yield node, "operator", "@"
        elif name := _walks_over_modules(file, node):
            yield node, "operator", name
        elif isinstance(node, ast.Attribute) and (name := _used_module(file, node, operators)):
            yield node, "operator", f"{file.path(node)}, made with {name}"
        elif isinstance(node, ast.Attribute | ast.Name) and _is_operator(file, node, operators):
            yield node, "operator", file.path(node) or last_name(node)

    return rule


def _is_torchs(file: PythonFile, node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and file.path(node).startswith("torch.")


def _walks_over_modules(file: PythonFile, node: ast.AST) -> str:
    """`self.children()` and the like give what was made in __init__ without naming it."""
    if not isinstance(node, ast.Attribute) or node.attr not in _WALKS or root_name(node) != "self":
        return ""
    function = file.function_of(node)
    return f"self.{node.attr}" if function and function.name != "__init__" else ""


def _in_reference(file: PythonFile, node: ast.AST) -> bool:
    """Whether a node stands in a method of a copy of the reference; that nobody uses it is another rule."""
    outer = [node, *file.enclosing(node)]
    if len(outer) < 4 or not isinstance(outer[-1], ast.Module):
        return False
    inside, method, reference = outer[-4:-1]
    if not isinstance(reference, ast.ClassDef) or reference.name != "Model" or reference.decorator_list:
        return False
    return isinstance(method, Function) and not method.decorator_list and inside in method.body


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
    _bindings,
    _patterns,
    _new_syntax,
    _attributes,
    _tries,
    _classes,
    _methods,
    _modules,
    _rebindings,
    _compiled,
    assignments,
    mutations,
    handed_stores,
    held_iterators,
    defaults,
    _addresses,
)
