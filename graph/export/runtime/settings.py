"""What a module computes with beside its tensors: its parts, their settings, their hooks. A kernel has them fixed.

Callers change them all the same: `net.scale = 2`, another activation, a wrapped layer, a hook on an inner one.
"""

from __future__ import annotations

import dis
import hashlib
import operator
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

Said = dict[str, dict[str, Any]]
"""By a part's name what it is and what it is set to, as values that are copied and pickled with the module."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OF_EVERY_MODULE = frozenset(torch.nn.Module().__dict__) | {"_compiled_call_impl", "exported_program"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_NO_SETTINGS = (torch.nn.Module, torch.Tensor, type)


class Held:
    """One module as it was when it was looked at: some steps in C tell whether it still is, half a microsecond a part.

    Of each container its length, and of each place that counts the very object that is there.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        inner = list(module.modules())
        parts = [each.__dict__ for each in inner]
        hooks = [each[name] for each in parts[1:] for name in _HOOKS]
        within = [value for each in parts for name, value in each.items() if name not in _OF_EVERY_MODULE]
        values = [own for each in within if (own := each if type(each) in (list, dict) else _own(each))]
        counted = [*(each._modules for each in inner), *hooks, *values]
        places: list[tuple[Any, Any]] = [
            (each, name) for each in parts for name in each if name not in _OF_EVERY_MODULE or name == "training"
        ]
        places += [(each, key) for each in counted for key in (range(len(each)) if type(each) is list else each)]
        self._empty = [each for each in counted if not each]
        self._containers = [*parts, *filter(None, counted)]
        self._lengths = list(map(len, self._containers))
        self._holders, self._keys = [each for each, _ in places], [key for _, key in places]
        self._values = [each[key] for each, key in places]
        self._tensors = [value for value in within if isinstance(value, torch.Tensor)]
        self._versions = list(map(_version, self._tensors))

    def stands(self) -> bool:
        """Whether nothing was set, replaced or hooked since."""
        try:
            same = all(map(operator.is_, map(operator.getitem, self._holders, self._keys), self._values))
        except LookupError:
            return False
        same = same and not any(self._empty) and list(map(len, self._containers)) == self._lengths
        return same and (not self._tensors or list(map(_version, self._tensors)) == self._versions)


def described(module: torch.nn.Module) -> Said:
    """A module's parts by name, with settings and numbers of hooks; the outermost one's class and hooks are its own."""
    return {name: _part(each, outermost=each is module) for name, each in module.named_modules()}


def changed(then: Said, now: Said) -> str:
    """What is not as it was, as a phrase; empty where all is. What was not there and is no part says nothing."""
    for name in then.keys() | now.keys():
        if name not in then or name not in now:
            return f"{name} is {'no longer' if name in then else 'now'} a part of the module"
        for key, value in then[name].items():
            if key not in now[name] or now[name][key] != value:
                return f"{f'{name}.{key}' if name else key} has changed"
    return ""


def _part(module: torch.nn.Module, *, outermost: bool) -> dict[str, Any]:
    kind: Any = type(module)
    written = _written(kind)
    said = {
        name: _plain(value)
        for name, value in module.__dict__.items()
        if name not in _OF_EVERY_MODULE and name not in written and not name.startswith("kernel_") and name != "forward"
    }
    if not outermost:
        said["class"] = type(module).__qualname__
        said["hooks"] = sum(len(module.__dict__[name]) for name in _HOOKS)
        said["forward"] = "forward" in module.__dict__
    return said


@cache
def _written(kind: type) -> frozenset[str]:
    """What the forward itself leaves in attributes: no setting."""
    return frozenset(name for each in kind.__mro__ for name in _stored(each.__dict__.get("forward")))


def _stored(function: Any) -> Iterator[str]:
    if code := getattr(function, "__code__", None):
        yield from (each.argval for each in dis.get_instructions(code) if each.opname == "STORE_ATTR")


def _plain(value: Any, *, deep: bool = True) -> Any:
    """A value that compares by what it is: a tensor's digest, a function's code, an object's own values."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(map(repr, value)))
    if isinstance(value, dict):
        return tuple((_plain(key), _plain(kept)) for key, kept in value.items())
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), str(value.dtype), _digest(value))
    if code := getattr(value, "__code__", None):
        return (value.__qualname__, code.co_code, repr(code.co_consts), repr(code.co_names))
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    own = (_own(value) or {}) if deep else {}
    return (name, tuple((key, _plain(kept, deep=False)) for key, kept in own.items()))


def _own(value: Any) -> dict[str, Any] | None:
    """The values of an object that is no module, no tensor and no function, as configurations have them."""
    if isinstance(value, _NO_SETTINGS) or hasattr(value, "__code__"):
        return None
    return getattr(value, "__dict__", None)


def _digest(tensor: torch.Tensor) -> str:
    """Of what a tensor holds; of one without memory, or of a kind without bytes, nothing."""
    try:
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return hashlib.sha256(flat.numpy().tobytes()).hexdigest()
    except (RuntimeError, TypeError, NotImplementedError):
        return ""


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
