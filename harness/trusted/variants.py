"""The workloads that a task file declares, and some that it does not.

A file may define `WORKLOADS`, a list of dicts, or `get_workloads()` that returns one. A dict holds keyword arguments of
`get_inputs` and `get_init_inputs` (each gets those that it has parameters for) and, besides, `name` and `dtype`.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from harness.nouns.frozen import LONGEST_NAME
from harness.nouns.task import Variant

FUNCTIONS = ("get_inputs", "get_init_inputs")
FURTHEST = 8
"""Times the largest declared one a size is held out."""
MOST_FAR = 3
"""Sizes of which each is far out once, and 1 once."""


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


def held_out_variants(variants: Sequence[Variant], seed: int) -> Iterator[tuple[Variant, ...]]:
    """Sizes that the file does not declare; none where no whole number differs between its workloads.

    A file with several workloads asks for one kernel that takes them all, so for any sizes: odd ones close to the
    smallest, some over all that is declared, some below that, each far above it, and each as 1. Of each several, the
    one preferred first, for some may be too large.
    """
    drawn, first = random.Random(seed), variants[0]
    known = {name: values for name in first.arguments if (values := _whole_numbers(variants, name))}
    if not known:
        return
    near = {name: _odd_between(values, drawn) for name, values in known.items()}
    over = {name: _other_than(values, min(values), max(values), drawn) for name, values in known.items()}
    below = {name: _other_than(set(), 1, max(1, min(values) // 2), drawn) for name, values in known.items()}
    sizes = {"held out": [near], "over all": [over], "below all": [below]}
    for name in [*known][:MOST_FAR]:
        ends = ((most * max(known[name]) // 2, most * max(known[name])) for most in (FURTHEST, 4, 2))
        if min(known[name]) > 1:
            sizes[f"one {name}"] = [near | {name: 1}]
        sizes[f"above {name}"] = [near | {name: drawn.randint(*each) | 1} for each in ends]
    for name, each in sizes.items():
        yield tuple(Variant(name=name, arguments=first.arguments | chosen, dtype=first.dtype) for chosen in each)


def variant_apart(variants: Sequence[Variant]) -> Variant | None:
    """Sizes in other proportions, where some have the same proportion in all workloads; None where none have.

    A kernel's author cannot tell such sizes apart. Each becomes its smallest declared value times a prime of its own,
    so that what divides that value divides the new one.
    """
    known = {name: values for name in variants[0].arguments if (values := _whole_numbers(variants, name))}
    columns = [[variant.arguments[name] for variant in variants] for name in known]
    if all(len({one / other for one, other in zip(*pair, strict=True) if other}) > 1  # type: ignore[operator]
           for pair in combinations(columns, 2)):  # fmt: skip
        return None
    sizes = {name: min(values) * prime for (name, values), prime in zip(known.items(), (2, 3, 5, 7, 11), strict=False)}
    return Variant(name="apart", arguments=variants[0].arguments | sizes, dtype=variants[0].dtype)


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


def _other_than(values: set[int], low: int, high: int, drawn: random.Random) -> int:
    """One of a range, small ones as likely as large ones."""
    chosen = round(low * (high / max(1, low)) ** drawn.random()) if low > 0 else drawn.randint(low, high)
    while chosen in values:
        chosen += 1
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
    for name, value in arguments.items():
        if not isinstance(value, bool | int | float | str):
            raise BadWorkloadError(f"workload {position}: {name} is a {type(value).__name__}, not a number or string")
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
