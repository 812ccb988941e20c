"""Taking inputs and results apart into their tensors and numbers, and putting them together again.

A form is plain data, what `harness.nouns.form.Form` is as JSON. The runner of a foreign module has this file and
torch alone.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from operator import attrgetter
from types import ModuleType
from typing import Any

Form = dict[str, Any]

DEEPEST = 32
_CONSTANTS = (bool, int, float, str)


class FormlessError(Exception):
    """A value that no form describes; the message says which type it has, and where it lies."""


def take_apart(value: Any, leaves: tuple[type, ...], home: ModuleType | None) -> tuple[Form, list[Any]]:
    """The form, and what it holds of the types in `leaves`, in order. Raises `FormlessError`.

    `home` is the task file's module, whose classes are told by their names alone.
    """
    found: list[Any] = []
    return _Reader(leaves, home, found).read(value, ()), found


def put_together(form: Form, values: Iterator[Any], home: ModuleType | None) -> Any:
    """A value of this form that holds these values."""
    kind = form["kind"]
    if kind == "value":
        return next(values)
    if kind == "constant":
        return form["constant"]
    parts = [put_together(part, values, home) for part in form["parts"]]
    named = dict(zip(form["keys"], parts, strict=True)) if form["keys"] else {}
    if kind == "object":
        return _class(form["type"], home)(**named)
    plain: Any = named if kind == "dict" else tuple(parts) if kind == "tuple" else parts
    return _class(form["type"], home)(plain) if form["type"] else plain


@dataclasses.dataclass
class _Reader:
    """Walks through one value."""

    leaves: tuple[type, ...]
    home: ModuleType | None
    found: list[Any]

    def read(self, value: Any, path: tuple[str, ...]) -> Form:
        if isinstance(value, self.leaves):
            self.found.append(value)
            return _form("value")
        if value is None or type(value) in _CONSTANTS:
            return _form("constant", constant=value)
        opened = _opened(value) if len(path) < DEEPEST else None
        if opened is None:
            raise FormlessError(f"a {type(value).__name__}{' at ' + '.'.join(path) if path else ''}")
        kind, named, keys, own_class = opened
        form = _form(kind, keys=keys, type=self._name(type(value)) if own_class else "")
        form["parts"] = [self.read(part, (*path, str(key))) for key, part in named]
        return form

    def _name(self, kind: type) -> str:
        """Raises `FormlessError` for a class that is not found again by its name."""
        own = self.home is not None and kind.__module__ == self.home.__name__
        name = f":{kind.__qualname__}" if own else f"{kind.__module__}:{kind.__qualname__}"
        try:
            found = _class(name, self.home)
        except (AttributeError, KeyError):
            found = None
        if getattr(found, "__qualname__", None) != kind.__qualname__:  # another run of the file has another class
            raise FormlessError(f"a {kind.__qualname__}, a class that is not found by its name")
        return name


def _opened(value: Any) -> tuple[str, list[tuple[Any, Any]], list[Any], bool] | None:
    """Kind, labelled parts, keys, and whether its class must be named; None for what no form describes."""
    if dataclasses.is_dataclass(value):  # ahead of dicts: a ModelOutput is both, and its fields tell of None, too
        named = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]
        return "object", named, [name for name, _ in named], True
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return "object", [*zip(value._fields, value, strict=True)], [*value._fields], True
    if isinstance(value, tuple) and hasattr(value, "n_sequence_fields"):  # what torch.max(x, 1) returns
        return "tuple", [*enumerate(value)], [], True
    if type(value) in (tuple, list):
        return type(value).__name__, [*enumerate(value)], [], False
    if isinstance(value, dict) and all(type(key) in (str, int) for key in value):
        return "dict", [*value.items()], [*value], type(value) is not dict
    return None


def _form(kind: str, **parts: Any) -> Form:
    return {"kind": kind, "parts": [], "keys": [], "constant": None, "type": ""} | parts


def _class(name: str, home: ModuleType | None) -> Any:
    module, _, qualified = name.partition(":")
    return attrgetter(qualified)(sys.modules[module] if module else home)
