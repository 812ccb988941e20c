"""The workloads that a task file declares, and one that it does not.

A file may define `WORKLOADS`, a list of dicts, or `get_workloads()` that returns one. A dict holds keyword arguments of
`get_inputs` and `get_init_inputs` (each gets those that it has parameters for) and, besides, `name` and `dtype`.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from harness.nouns.frozen import LONGEST_NAME
from harness.nouns.task import Variant

FUNCTIONS = ("get_inputs", "get_init_inputs")


class BadWorkloadError(Exception):
    """A declaration that cannot be used; the message says why."""


def declared_variants(module: ModuleType) -> tuple[Variant, ...]:
    """Those of the file, in order; the plain one where it declares none. Raises `BadWorkloadError`."""
    entries = _entries(module)
    if not entries:
        return (Variant(),)
    variants = tuple(_variant(module, position, entry) for position, entry in enumerate(entries))
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        raise BadWorkloadError(f"two workloads are called {max(names, key=names.count)!r}")
    return variants


def arguments_of(function: Callable[..., Any], variant: Variant) -> dict[str, Any]:
    """Those of a variant's arguments that the function has parameters for."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(variant.arguments)
    known = {parameter.name for parameter in parameters}
    return {name: value for name, value in variant.arguments.items() if name in known}


def held_out_variant(variants: Sequence[Variant], seed: int) -> Variant | None:
    """Odd sizes between those that the file declares; None where no whole number differs between its workloads.

    A file with several workloads asks for one kernel that takes them all, so for sizes in between as well.
    """
    first = variants[0]
    drawn = random.Random(seed)
    changed = {
        name: _odd_between(values, drawn) for name in first.arguments if (values := _whole_numbers(variants, name))
    }
    if not changed:
        return None
    return Variant(name="held out", arguments=first.arguments | changed, dtype=first.dtype)


def _whole_numbers(variants: Sequence[Variant], name: str) -> set[int]:
    """The different values of one argument, where all are whole numbers and at least two differ."""
    values = {variant.arguments.get(name) for variant in variants}
    whole = {value for value in values if isinstance(value, int) and not isinstance(value, bool)}
    return whole if len(whole) == len(values) > 1 else set()


def _odd_between(values: set[int], drawn: random.Random) -> int:
    low, high = min(values), max(values)
    chosen = drawn.randint(low, min(high, 2 * low)) | 1
    while chosen in values:
        chosen += 2
    return chosen


def _entries(module: ModuleType) -> list[Mapping[str, Any]]:
    given = getattr(module, "WORKLOADS", None)
    if given is None and callable(getattr(module, "get_workloads", None)):
        given = module.get_workloads()
    if given is None:
        return []
    if not isinstance(given, list | tuple) or not given or not all(isinstance(entry, Mapping) for entry in given):
        raise BadWorkloadError("its workloads are not a list of dicts with at least one in it")
    return list(given)


def _variant(module: ModuleType, position: int, entry: Mapping[str, Any]) -> Variant:
    arguments = {name: value for name, value in entry.items() if name not in ("name", "dtype")}
    try:
        variant = Variant(
            name=entry.get("name") or _label(position, arguments), arguments=arguments, dtype=entry.get("dtype")
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise BadWorkloadError(
            f"workload {position}: {'.'.join(map(str, problem['loc'][:2]))}: {problem['msg']}"
        ) from error
    functions = [getattr(module, name) for name in FUNCTIONS if callable(getattr(module, name, None))]
    taken = {name for function in functions for name in arguments_of(function, variant)}
    if unknown := sorted(set(arguments) - taken):
        raise BadWorkloadError(f"workload {position}: neither get_inputs nor get_init_inputs takes {unknown[0]!r}")
    return variant


def _label(position: int, arguments: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in arguments.items())[:LONGEST_NAME] or f"workload {position}"
