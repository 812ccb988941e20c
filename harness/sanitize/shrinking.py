"""A task's file with smaller sizes, and a kernel's source for them: what is not small takes a sanitizer minutes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from math import prod
from typing import TypeGuard

from harness.nouns.task import ScalarSpec, Task, TensorSpec, Workload
from harness.tasks.numbers import whole_numbers, with_numbers

BASES = (4096, 2048, 1024, 512, 256)
"""What a size is brought down to, and what is left of it beyond a multiple of `PERIOD`."""
PERIOD = 256
"""Tiles, vectors and blocks that this is a multiple of find the alignment and the tail that they had."""
KEPT = 1024
"""Sizes up to this one stay: as numbers of a source they could as well be threads, tiles or bytes."""
SMALL_FLOPS, SMALL_BYTES = 1_000_000_000, 64 << 20
"""A workload of this size is watched within seconds: compute-sanitizer's racecheck needed more than 30 s for 137 GFLOP
on an H200, and 2 s for a small kernel."""
_MOST_ROWS = 1024
"""A number that is so many times a size, or fewer, follows from it."""

_NUMBER = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"  # nothing in a comment or a string is a size
    r"|(?<![\w.'])(?P<whole>[1-9]\d*(?:'\d+)*)(?P<tail>(?:\.0*)?(?:[uUlLzZ]*|[fF]))(?![\w.'])",
    re.DOTALL,
)


class UnclearError(Exception):
    """A number of the source may be one of several sizes, which become different ones."""


def smaller(size: int, base: int) -> int:
    """The size itself, or `base` and what it has beyond a multiple of `PERIOD`, where that is less."""
    return size if size <= KEPT else min(size, base + size % PERIOD)


def small(workload: Workload) -> bool:
    """Whether it is one that any tool watches within seconds."""
    return workload.flops <= SMALL_FLOPS and workload.bytes_moved <= SMALL_BYTES


def smaller_task(task: Task, base: int, *, leading: bool) -> str | None:
    """The task's source with sizes of about `base`, or None where none of its numbers is a size that becomes smaller.

    All sizes, or those alone that lead an input and that no weight has, as a batch's does.
    """
    sizes = {extent for spec in _tensors(task) for extent in spec.shape}
    if leading:
        first = {spec.shape[0] for work in task.workloads for spec in work.signature.inputs if _has_axes(spec)}
        weights = {extent for work in task.workloads for spec in work.signature.parameters for extent in spec.shape}
        sizes, others = first - weights, sizes - (first - weights)
    else:
        others = set()
    found = {
        place: smaller(value, base)
        for place, value in whole_numbers(task.source)
        if smaller(value, base) < value and value not in others and any(size % value == 0 for size in sizes)
    }
    return with_numbers(task.source, found) if found else None


def fits(task: Task, other: Task) -> bool:
    """Whether both have the same arguments but for their sizes, and some are smaller."""
    mine, theirs = list(_tensors(task)), list(_tensors(other))
    same = [(spec.name, spec.dtype, len(spec.shape)) for spec in mine] == [
        (spec.name, spec.dtype, len(spec.shape)) for spec in theirs
    ]
    return same and mine != theirs and len(task.workloads) == len(other.workloads)


def source_for(source: str, task: Task, other: Task) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A kernel's source of `task` with the numbers of `other`, which `fits`; and those that it held, with the new ones.

    Sizes, strides, and products of neighbouring sizes are told by both tasks' tensors; a multiple of a size follows it.
    Raises `UnclearError`.
    """
    known = _known(task, other)
    changed = {old: new for old, new in _pairs(task, other, lambda spec: spec.shape) if old != new and old > KEPT}
    replaced: dict[int, int] = {}

    def put(found: re.Match[str]) -> str:
        if found["whole"] is None:
            return found[0]
        old = int(found["whole"].replace("'", ""))
        new = _new(old, known, changed)
        if new == old:
            return found[0]
        replaced[old] = new
        return f"{new}{found['tail']}"

    return _NUMBER.sub(put, source), tuple(sorted(replaced.items()))


def _new(old: int, known: dict[int, set[int]], changed: dict[int, int]) -> int:
    """What a number of the source becomes."""
    if found := known.get(old):
        if len(found) > 1:
            raise UnclearError(f"{old} would become {' or '.join(map(str, sorted(found)))}")
        return next(iter(found))
    multiples = {old // size * new for size, new in changed.items() if old % size == 0 and old // size <= _MOST_ROWS}
    return multiples.pop() if len(multiples) == 1 else old


def _known(task: Task, other: Task) -> dict[int, set[int]]:
    known = defaultdict(set)
    for old, new in _pairs(task, other, _quantities):
        known[old].add(new)
    return known


def _quantities(spec: TensorSpec) -> tuple[int, ...]:
    """What of a tensor a source may hold, always in the same order."""
    ends = combinations(range(len(spec.shape) + 1), 2)
    return (*spec.strides, *(prod(spec.shape[first:last]) for first, last in ends))


def _pairs(task: Task, other: Task, quantities: Callable[[TensorSpec], tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    for mine, theirs in zip(_tensors(task), _tensors(other), strict=True):
        yield from zip(quantities(mine), quantities(theirs), strict=True)


def _tensors(task: Task) -> Iterator[TensorSpec]:
    for workload in task.workloads:
        yield from (spec for spec in workload.signature.arguments if isinstance(spec, TensorSpec))


def _has_axes(spec: TensorSpec | ScalarSpec) -> TypeGuard[TensorSpec]:
    return isinstance(spec, TensorSpec) and bool(spec.shape)
