"""The reference as a module of its own, and whether it is constructed as it was for the kernel."""

from __future__ import annotations

import inspect
import linecache
import sys
import types
from typing import Any


def run_reference(text: str, name: str, file: str) -> types.ModuleType:
    """Execute the reference's file, so that its names and the drop-in's stay apart; tracebacks show its lines."""
    module = types.ModuleType(f"{name}_reference")
    module.__file__ = file
    filename = f"<reference of {file}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    sys.modules[module.__name__] = module
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


def require_same_arguments(reference: types.ModuleType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A kernel is made for one set of constructor arguments: others would change what it has to compute.

    Raises `ValueError` for the first that differs.
    """
    made_for = reference.get_init_inputs() if hasattr(reference, "get_init_inputs") else ()
    constructor = inspect.signature(reference.Model)
    given, expected = constructor.bind(*args, **kwargs), constructor.bind(*made_for)
    given.apply_defaults()
    expected.apply_defaults()
    for name, value in expected.arguments.items():
        other = given.arguments[name]
        if isinstance(value, (bool, int, float, str, type(None), list, tuple)) and _plain(value) != _plain(other):
            raise ValueError(f"the kernel was made for Model({name}={value!r}), not {name}={other!r}")


def _plain(value: Any) -> Any:
    """Lists as tuples, and whatever does not compare by value as its type's name."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
