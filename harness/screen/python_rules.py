"""What a foreign Python file may not import, name or reach, as data."""

from __future__ import annotations

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
