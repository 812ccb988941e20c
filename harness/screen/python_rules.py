"""What a foreign Python file may not import, name or reach, as data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.screen.operators import MADE_ANEW, plain
from harness.screen.python_file import Function, PythonFile, last_name, root_name
from harness.screen.rules import words_of


def _table(rows: dict[str, str]) -> dict[str, str]:
    """From kind -> names to name -> kind."""
    return {name: kind for kind, names in rows.items() for name in names.split()}


ALLOWED_MODULES = words_of("""
    __future__ abc collections dataclasses enum functools itertools math numbers typing torch torch.nn torch.autograd
    torch.cuda torch.nn.functional torch.utils torch.utils.cpp_extension triton triton.language tvm_ffi tvm_ffi.cpp
    """)

MODULES = _table(
    {
        "process": "os subprocess multiprocessing signal resource pty",
        "thread": "threading concurrent asyncio queue _thread sched",
        "clock": "time datetime timeit",
        "file": "pathlib shutil tempfile io glob socket http urllib requests sqlite3 mmap zipfile",
        "introspection": "inspect gc sys traceback types weakref operator builtins dis ast code warnings atexit",
        "loading": "ctypes cffi importlib imp runpy pkgutil site pip cupy numba pickle marshal dill base64 zlib codecs",
        "random": "random secrets",
        "vendor_library": "numpy scipy cudnn cutlass cublas jax tensorflow xformers flash_attn apex",
        "fallback": "contextlib",
    }
)

# Dotted names by their beginnings, however they were imported or renamed.
PATHS = _table(
    {
        "stream": (
            "torch.cuda.Stream torch.cuda.stream torch.cuda.Event torch.cuda.ExternalStream torch.cuda.set_stream "
            "torch.cuda.CUDAGraph torch.cuda.graph torch.cuda.graphs torch.cuda.make_graphed_callables torch.Stream "
            "torch.Event torch.cuda.graph_pool_handle torch.cuda.streams torch.cuda.default_stream torch.cuda.MemPool"
        ),
        "thread": "torch.multiprocessing torch.distributed torch.futures torch.set_num_threads",
        "file": "torch.load torch.save torch.hub torch.from_file torch.serialization torch.package torch.classes "
        "torch.cuda.gds",
        "compiler": "torch.compile torch.jit torch.fx torch.export torch.compiler torch.cuda.jiterator",
        "operator": "torch.ops torch.library",
        "random": (
            "torch.manual_seed torch.seed torch.random torch.set_rng_state torch.cuda.manual_seed torch.Generator "
            "torch.cuda.manual_seed_all torch.cuda.set_rng_state torch.default_generator"
        ),
        "device_state": (
            "torch.cuda.set_device torch.cuda.memory torch.cuda.set_per_process_memory_fraction torch.cuda.caching "
            "torch.cuda.empty_cache torch.cuda.reset torch.cuda.set_sync_debug_mode torch.use_deterministic_algorithms "
            "torch.backends torch.autograd.set "
            "torch.cuda.cudart torch.utils.deterministic torch.cuda.nvtx torch.profiler torch.autograd.profiler "
            "torch.cuda.tunable torch.set_"
        ),
        "lazy": "torch.overrides torch.utils._python_dispatch torch.utils.dlpack torch.nested torch.sparse",
        "loading": "torch.utils.cpp_extension. tvm_ffi.load tvm_ffi.cpp.load",
        "dynamic": "typing.get_type_hints typing.ForwardRef dataclasses.make_dataclass enum.global_enum",
        "introspection": "torch.testing torch.utils.data torch.nn.modules torch.nn.utils torch.utils.hooks",
    }
)
PATHS_ALLOWED = ("torch.utils.cpp_extension.load_inline", "tvm_ffi.cpp.load_inline")

MODULE_PATHS = ALLOWED_MODULES | {start.rpartition(".")[0] for start in PATHS} | {"torch.linalg", "torch.special"}
"""What is a module as a whole, under which there is something that may not be reached."""

# Built-in functions and other bare names.
NAMES = _table(
    {
        "dynamic": "exec eval compile __import__ globals locals vars dir breakpoint memoryview __builtins__ __loader__",
        "patch": "setattr delattr",
        "cache": "id hash",
        "file": "open input __file__",
        "process": "exit quit",
    }
)

# Attributes of whatever object.
ATTRIBUTES = _table(
    {
        "compiler": "compile",
        "stream": "wait_stream record_stream CUDAGraph make_graphed_callables replay",
        "vendor_library": "numpy __array__ from_numpy to_dlpack from_dlpack",
        "lazy": "as_subclass _make_subclass _make_wrapper_subclass",
        "cache": "untyped_storage storage lru_cache",
        "file": "share_memory_ from_file tofile",
    }
)
NARROW = words_of("half bfloat16 float16 autocast HalfTensor BFloat16Tensor float8_e4m3fn float8_e5m2")

ADVICE = {
    "process": "A module may not start, end or look at processes.",
    "thread": "A module may not start threads or processes of its own.",
    "clock": "A module may not read or set clocks.",
    "file": "A module may not reach files, sockets or the environment.",
    "introspection": "A module may not look at or change the interpreter around it.",
    "loading": "A module may not load code from outside: pass sources to load_inline as literals.",
    "random": "The judge draws the inputs: a module may not touch the random numbers.",
    "vendor_library": "Libraries that compute are not a kernel.",
    "fallback": "What may fail must fail: try/except can hide a fall-back to PyTorch.",
    "stream": "A module runs on the current stream: no streams, events or graphs of its own.",
    "compiler": "Handing the work to PyTorch's compilers is a baseline, not a kernel.",
    "operator": "This hands the work back to PyTorch's own operator.",
    "device_state": "A module may not change the settings of PyTorch or of the device.",
    "lazy": "Outputs are plain tensors: nothing may be computed later than in the call.",
    "dynamic": "Names and code must be written out, not made while running.",
    "patch": "A module may change nothing but itself.",
    "cache": "Nothing may be kept between calls: compute every call from its inputs and weights.",
    "reference": "The reference's module may not be used, copied or subclassed.",
    "precision": "This task is judged in float32 or wider: compute in that.",
    "import": "This module may not be imported: torch, triton, tvm_ffi, math and typing are enough.",
}


# -- Nothing may be kept between calls, and nobody else's objects changed: stores, and calls that store ---------------


STORES = words_of("append setdefault update add pop insert extend clear popitem appendleft get send copy_ set_")
_KEEPERS = words_of("register_buffer register_parameter add_module register_module load_state_dict")
_CONTAINERS = words_of("dict list set defaultdict deque OrderedDict Counter bytearray")
_SWAPS = words_of("set_ resize_ requires_grad_ share_memory_")
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
    elif _outlives(file, node) and function and function.name != "__init__" and not _is_state(file, node):
        yield node, "cache", f"a store into {ast.unparse(node)} in {function.name}"


def mutations(file: PythonFile, node: ast.AST) -> Iterator[Finding]:
    """`cache.setdefault(...)`, `self.seen.append(...)`, `next(counter)` while running."""
    function = file.function_of(node)
    if not isinstance(node, ast.Call) or function is None or function.name == "__init__":
        return
    if isinstance(node.func, ast.Attribute):
        stores = _stores(node.func.attr) or (node.func.attr in _KEEPERS and root_name(node.func) == "self")
        fine = _adds(file, node) or _made_anew(file, node.func.value) or _is_state(file, node)
        if stores and _outlives(file, node.func) and not fine:
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


def _is_state(file: PythonFile, node: ast.expr) -> bool:
    """Whether what is stored into is a buffer that the task's forward writes: before each call the judge sets it anew.

    `self.mean = ...`, `self.mean[0] = ...`, `self.mean.mul_(...).add_(...)`.
    """
    if isinstance(node, ast.Subscript):
        node = node.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in _SWAPS:
        if not (node.func.attr.endswith("_") and _stores(node.func.attr)):
            return False
        node = node.func.value
    path = file.path(node)
    return path.startswith("self.") and any(f".{each}".endswith(path.removeprefix("self")) for each in file.state)


def _adds(file: PythonFile, call: ast.Call) -> bool:
    """Whether this is `torch.add`, which stores nothing but in `out`; a set's `add` does."""
    bound = file.scopes.bindings.get(root_name(call.func), [])
    imported = all(isinstance(each.node, ast.Import | ast.ImportFrom) for each in bound)
    told = any(each.arg in (None, "out") for each in call.keywords)
    return file.path(call.func) == "torch.add" and imported and not told


def _made_anew(file: PythonFile, node: ast.expr) -> bool:
    """Whether this is a result of PyTorch's that shares no memory: what changes it in place keeps nothing."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr.endswith("_"):
        return False
    of_torch = file.path(node.func).rpartition(".")[0] in ("torch", "torch.nn.functional")
    told = any(each.arg in (None, "out", "inplace") for each in node.keywords)
    return (
        of_torch and not told and plain(node.func.attr) in MADE_ANEW and not file.scopes.is_local(root_name(node), node)
    )


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
