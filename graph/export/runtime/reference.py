"""The reference as a module of its own, and whether it is constructed as it was for the kernel."""

from __future__ import annotations

import inspect
import linecache
import sys
import types
from collections.abc import Mapping
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
    """A kernel is made for the constructor arguments of its workloads: others would change what it has to compute.

    Raises `ValueError` for the first that differs, beside the workload that agrees longest.
    """
    constructor = inspect.signature(reference.Model)
    given = _bound(constructor, args, kwargs)
    expected = [_bound(constructor, made_for, {}) for made_for in _made_for(reference)]
    differing = [(name, each) for each in expected if (name := _differing(each, given)) is not None]
    if len(differing) == len(expected):
        name, nearest = max(differing, key=lambda each: list(constructor.parameters).index(each[0]))
        raise ValueError(f"the kernel was made for Model({name}={nearest[name]!r}), not {name}={given[name]!r}")


def constructor_arguments(reference: types.ModuleType, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the reference's file gives its constructor in a workload of these sizes."""
    function = getattr(reference, "get_init_inputs", None)
    if function is None:
        return ()
    parameters = inspect.signature(function).parameters
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    chosen = {key: value for key, value in sizes.items() if key not in ("name", "dtype")}
    return tuple(function(**{key: value for key, value in chosen.items() if takes_any or key in parameters}))


def constructs_one(reference: types.ModuleType) -> bool:
    """Whether all workloads that the file declares construct the model alike."""
    first, *others = _made_for(reference)
    return all(_plain(first) == _plain(each) for each in others)


def _made_for(reference: types.ModuleType) -> list[tuple[Any, ...]]:
    """The constructor's arguments in each workload that the file declares; those of the plain one where it has none."""
    workloads = getattr(reference, "WORKLOADS", None)
    if workloads is None and hasattr(reference, "get_workloads"):
        workloads = reference.get_workloads()
    return [constructor_arguments(reference, each) for each in workloads or [{}]]


def _bound(constructor: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = constructor.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _differing(expected: dict[str, Any], given: dict[str, Any]) -> str | None:
    """The first argument that does not have the value it should; None where all have."""
    compared = (bool, int, float, str, type(None), list, tuple)
    return next(
        (
            name
            for name, value in expected.items()
            if isinstance(value, compared) and _plain(value) != _plain(given[name])
        ),
        None,
    )


def _plain(value: Any) -> Any:
    """Lists as tuples, and whatever does not compare by value as its type's name."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
