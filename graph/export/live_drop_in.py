"""A run's drop-in in the process that asks for it: as a module of its own, or in the place of a module's forward.

torch is the caller's here: `model_new.py` imports it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.nouns.errors import UserError


def load_drop_in(file: Path) -> Any:
    """`model_new.py` as a module of this process, once for each text of it."""
    text = file.read_bytes()
    name = f"cutegen_drop_in_{hashlib.sha256(str(file).encode() + text).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def own_module(file: Path, fallback: str) -> Any:
    """The drop-in as the task constructs it, in evaluation mode, on the kernel's device."""
    drop_in = load_drop_in(file)
    given = drop_in.reference.get_init_inputs() if hasattr(drop_in.reference, "get_init_inputs") else ()
    made = drop_in.ModelNew(*given).eval().to(drop_in.KERNEL.device)
    made.kernel_fallback = fallback
    return made


def patched(file: Path, module: Any, fallback: str) -> Any:
    """The module itself, whose forward is the kernel's from now on, with its own forward as the reference.

    Weights, buffers, hooks and everything else stay what they are. Raises `UserError` where it has not the weights that
    the kernel was made for.
    """
    drop_in = load_drop_in(file)
    _require_weights(drop_in, module)
    base: Any = getattr(type(module), "kernel_reference", type(module))
    module.__class__ = _class(drop_in, file, base)
    module.kernel_fallback = fallback
    if hasattr(drop_in.KERNEL, "adopt"):  # not in a drop-in of an older version
        drop_in.KERNEL.adopt(module)
    return module


def _require_weights(drop_in: Any, module: Any) -> None:
    held = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    arguments = drop_in.KERNEL.workloads[0].arguments
    for path, spec in zip(drop_in.KERNEL.parameters, arguments[-len(drop_in.KERNEL.parameters) :], strict=False):
        found = held.get(".".join(path))
        pairs = (2,) if getattr(spec, "pairs", False) else ()
        if found is None or (*found.shape, *pairs) != spec.shape:
            raise UserError(
                f"The kernel was made for a weight {'.'.join(path)} of shape {spec.shape}, which this "
                f"{type(module).__name__} has not.",
                "Give the module that was optimized, or call module() without one.",
            )


@lru_cache(maxsize=64)
def _class(drop_in: Any, file: Path, base: Any) -> type:
    """The module's class with the kernel's forward before its own."""
    parameters = list(inspect.signature(drop_in.Forward.forward).parameters.values())[1:]
    places = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    names = {each.name for each in parameters}
    needed = {each.name for each in parameters if each.default is inspect.Parameter.empty}

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = {*places[: len(args)], *kwargs}
        if len(args) > len(places) or not needed <= named <= names:
            said = f"the kernel was made for a call with {', '.join(places)} and no other arguments"
            drop_in.KERNEL.tell(self, drop_in.runtime.Unfit("argument", said))
            return base.forward(self, *args, **kwargs)
        return drop_in.Forward.forward(self, *args, **kwargs)

    def reduce(self: Any, _protocol: Any) -> tuple[Any, ...]:
        plain = base.__new__(base)
        plain.__dict__.update({name: kept for name, kept in self.__dict__.items() if name != "kernel_fallback"})
        return patched, (file, plain, self.kernel_fallback)

    own = {"forward": forward, "__reduce_ex__": reduce, "__module__": base.__module__, "kernel_reference": base}
    return type(base.__name__, (drop_in.Forward, base), own)
