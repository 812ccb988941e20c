"""Every tensor that a task's model can come to in its forward, wherever its file keeps it."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch

TASK_MODULE = "cutegen_task"
"""The name under which a task file is executed: its functions are read for the file's globals, others' are not."""


def tensors_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters, buffers, and what attributes, containers, closures, bound methods and the file's globals hold.

    Each once, in no order that means anything.
    """
    found: list[torch.Tensor] = []
    seen: dict[int, Any] = {}  # keeps what it names, so that no number is given twice
    waiting: list[Any] = [model]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, types.ModuleType | str | bytes | int | float):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, torch.Tensor):
            found.append(thing)
        else:
            waiting.extend(_held_by(thing))
    return found


def _held_by(thing: Any) -> Iterable[Any]:
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return thing
    if isinstance(thing, types.FunctionType):
        return _held_by_function(thing)
    if isinstance(thing, types.MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, functools.partial):
        return (thing.func, thing.args, thing.keywords)
    if isinstance(thing, staticmethod | classmethod):
        return (thing.__func__,)
    if isinstance(thing, property):
        return (thing.fget,)
    if isinstance(thing, type):
        return (*vars(thing).values(), *thing.__bases__) if thing.__module__ == TASK_MODULE else ()
    return (type(thing), *getattr(thing, "__dict__", {}).values())


def _held_by_function(function: types.FunctionType) -> Iterator[Any]:
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell that nothing was put into yet
            continue
    if function.__globals__.get("__name__") == TASK_MODULE:
        names = _names(function.__code__)
        yield from (value for name, value in function.__globals__.items() if name in names)


def _names(code: types.CodeType) -> set[str]:
    """All names that a function's code, and that of the functions within it, may look up."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))
