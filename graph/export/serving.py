"""Which sizes a drop-in's kernel is called with beside the declared ones: those between sizes that it was judged at.

A kernel of several workloads was called by the judge with sizes that nobody declared, too. What these signatures have
in common is a rule: each extent and stride is a whole number, or follows from sizes of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod

from harness.nouns.batches import ServedBatches
from harness.nouns.task import Signature, Task, TensorSpec
from harness.nouns.verdict import Verdict

_FACTORS = 3
"""Sizes that are multiplied to one stride."""

Values = tuple[int, ...]
"""Of one extent or stride, in each of the signatures."""


@dataclass(frozen=True)
class Extent:
    """`times` the product of these sizes, and `plus` more."""

    times: int
    of: tuple[int, ...]
    plus: int = 0

    def __str__(self) -> str:
        return f"Extent({self.times}, {self.of}, {self.plus})"


Number = int | Extent


@dataclass(frozen=True)
class Size:
    """A size by where it is seen first, and the least and largest one that the judge tried."""

    name: str
    axis: int
    low: int
    high: int


@dataclass(frozen=True)
class View:
    """Where an output lies within an argument."""

    of: str
    strides: tuple[Number, ...]
    offset: Number
    detached: bool


@dataclass(frozen=True)
class Tensor:
    """A tensor whose numbers may follow from sizes."""

    name: str
    shape: tuple[Number, ...]
    strides: tuple[Number, ...]
    dtype: str
    view: View | None = None


@dataclass(frozen=True)
class Served:
    """The sizes, and the tensors among the arguments and the outputs, by their places."""

    sizes: tuple[Size, ...]
    arguments: Mapping[int, Tensor]
    outputs: tuple[Tensor, ...]


class _NoRuleError(Exception):
    """A number that follows from no size."""


def served_by(task: Task, verdict: Verdict | None) -> Task:
    """The task as a kernel's drop-in is for it: what the judge found it right at beside its own batch is held out."""
    return task.serving(verdict.served.workloads) if verdict and verdict.served else task


def checkable(task: Task, verdict: Verdict) -> Verdict:
    """The verdict; its batches only where a call's sizes can be held against a rule, without which none are served."""
    found = verdict.served
    if not found or not found.workloads:
        return verdict
    larger = tuple(each for each in found.workloads if each.variant.batch != 1)  # PyTorch lays out anew what is one row
    for each in (found.workloads, larger):
        if each and served(task.serving(each)):
            return verdict.model_copy(update={"served": found.model_copy(update={"workloads": each})})
    why = "its results' shapes and strides follow from the batch by no rule that a call could check"
    return verdict.model_copy(update={"served": ServedBatches(own=found.own, refused=why)})


def served(task: Task) -> Served | None:
    """The rule; None where no size differs, none was held out, or the signatures have none in common.

    PyTorch lays out anew what has an extent of 1: where that breaks the rule, 1 is not served.
    """
    first, own = task.signature, task.workloads[0].variant.arguments
    declared, held = ([each for each in group if _kinds(each.signature) == _kinds(first)]
                      for group in (task.workloads, task.held_out))  # fmt: skip
    larger = [
        each for each in held if not any(value == 1 != own[name] for name, value in each.variant.arguments.items())
    ]
    for some in (held, larger):
        cases = [each.signature for each in (*declared, *some)]
        if not some or any(each.parameters != first.parameters for each in cases):
            return None
        with suppress(_NoRuleError):
            return _rule(cases)
    return None


def _kinds(signature: Signature) -> list[object]:
    return [(each.dtype, len(each.shape)) if isinstance(each, TensorSpec) else each for each in signature.arguments]


def _rule(cases: Sequence[Signature]) -> Served | None:
    seen = {values: (name, axis) for name, axis, values in reversed([*_differing(cases)])}
    known: dict[Values, int] = {}
    for values in sorted(seen):  # the smaller first: a multiple of another is no size of its own
        if _follows(values, known) is None:
            known[values] = len(known)
    if not known:
        return None
    taken = [(*each.inputs, *each.parameters) for each in cases]
    arguments = {
        place: _tensor([each for each in column if isinstance(each, TensorSpec)], known)
        for place, column in enumerate(zip(*taken, strict=True)) if isinstance(column[0], TensorSpec)
    }  # fmt: skip
    outputs = tuple(_tensor(column, known) for column in zip(*(each.outputs for each in cases), strict=True))
    sizes = tuple(Size(*seen[values], min(values), max(values)) for values in known)
    return Served(sizes, arguments, outputs)


def _differing(cases: Sequence[Signature]) -> Iterator[tuple[str, int, Values]]:
    """The inputs' extents that are not the same everywhere."""
    for column in zip(*(each.inputs for each in cases), strict=True):
        shapes = [each.shape for each in column if isinstance(each, TensorSpec)]
        for axis, values in enumerate(zip(*shapes, strict=True)):
            if len({*values}) > 1:
                yield column[0].name, axis, values


def _tensor(column: Sequence[TensorSpec], known: Mapping[Values, int]) -> Tensor:
    def numbers(kind: str) -> tuple[Number, ...]:
        return tuple(_number(values, known) for values in zip(*(getattr(each, kind) for each in column), strict=True))

    first = column[0]
    return Tensor(first.name, numbers("shape"), numbers("strides"), first.dtype, _view(column, known))


def _view(column: Sequence[TensorSpec], known: Mapping[Values, int]) -> View | None:
    """The rule of one that is a view everywhere; none where it is one at some sizes."""
    found = [each.view for each in column if each.view]
    if not found:
        return None
    if len(found) < len(column) or len({(each.of, each.detached) for each in found}) > 1:
        raise _NoRuleError
    strides = tuple(_number(values, known) for values in zip(*(each.strides for each in found), strict=True))
    return View(found[0].of, strides, _number(tuple(each.offset for each in found), known), found[0].detached)


def _number(values: Values, known: Mapping[Values, int]) -> Number:
    if len({*values}) == 1:
        return values[0]
    found = Extent(1, (known[values],)) if values in known else _follows(values, known)
    if found is None:
        raise _NoRuleError
    return found


def _follows(values: Values, known: Mapping[Values, int]) -> Extent | None:
    """What the values are of known sizes."""
    for count in range(1, _FACTORS + 1):
        for chosen in combinations_with_replacement(known, count):
            made = [prod(each) for each in zip(*chosen, strict=True)]
            times = values[0] // made[0]
            if times and all(value == times * each for value, each in zip(values, made, strict=True)):
                return Extent(times, tuple(known[each] for each in chosen))
    for have, number in known.items():
        plus = {value - each for value, each in zip(values, have, strict=True)}
        if len(plus) == 1:
            return Extent(1, (number,), plus.pop())
    return None
