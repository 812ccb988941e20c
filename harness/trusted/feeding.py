"""Which special inputs the first wrong element of an output is made of, by what the reference does with them.

The reference says it, not a rule: with ordinary numbers in the place of all special ones, those that change the element
when they are put back feed it. Groups that change nothing are left out whole, so a few dozen runs find the first ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import torch

from harness.checks.families import FAMILIES
from harness.checks.float8 import widened
from harness.nouns.errors import UserError
from harness.nouns.task import TensorSpec
from harness.nouns.verdict import Trial
from harness.trusted.bench import Bench

NAMED = 4
"""So many are told."""
RUNS, WITHIN_S = 200, 3.0
"""Of the reference: where a forward takes long, nothing is said."""
ORDINARY = 0.75


class _Special(NamedTuple):
    """One element of an input: which input, where, and what stands there."""

    place: int
    name: str
    at: tuple[int, ...]
    value: float


def fed_by(bench: Bench, slot: int, trial: Trial, output: int) -> str:
    """The special inputs that feed an output's first wrong element, as the end of a sentence.

    Empty where the trial has none. Those found are told where the forward takes long or refuses ordinary numbers.
    """
    bad = trial.outputs[output].first_bad
    if not FAMILIES[trial.distribution].puts or bad is None:
        return ""
    bench.arguments.fill(slot, trial.seed, trial.distribution, trial.mild)
    given = bench.arguments.inputs(slot)
    names = [spec.name for spec in bench.signature.inputs if isinstance(spec, TensorSpec)]
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    if len(names) != len(tensors):
        return ""
    special = [each for held in zip(range(len(names)), names, tensors, strict=True) for each in _special(*held)]
    feeding: list[_Special] = []
    with suppress(UserError, TimeoutError):
        changes = _probe(bench, slot, output, bad.index, special)
        feeding.extend(islice(_feeding(special, changes), NAMED + 1))
    return _said(feeding)


def _special(place: int, name: str, values: torch.Tensor) -> Iterator[_Special]:
    if not values.is_floating_point():
        return
    tiny, most = torch.finfo(values.dtype).smallest_normal, torch.finfo(values.dtype).max
    values = widened(values)
    zeros = (values == 0) & values.signbit()
    huge = values.abs() >= most
    denormal = (values != 0) & (values.abs() < tiny)
    for index in (~values.isfinite() | zeros | huge | denormal).nonzero().tolist():
        yield _Special(place, name, tuple(index), float(values[tuple(index)]))


def _probe(
    bench: Bench, slot: int, output: int, index: tuple[int, ...], special: Sequence[_Special]
) -> Callable[[Sequence[_Special]], bool]:
    """Whether the element changes when these are special, and all others ordinary. Raises what `fed_by` catches."""
    until, left = time.monotonic() + WITHIN_S, iter(range(RUNS))

    def element(shown: Sequence[_Special]) -> float:
        if next(left, None) is None or time.monotonic() > until:
            raise TimeoutError
        given = [value.clone() if isinstance(value, torch.Tensor) else value for value in bench.arguments.inputs(slot)]
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        for each in special:
            tensors[each.place][each.at] = ORDINARY
        for each in shown:
            tensors[each.place][each.at] = each.value
        return float(bench.reference.run(given, bench.arguments.replicas[slot])[output][index])

    plain = element(())
    return lambda shown: not _alike(element(shown), plain)


def _alike(one: float, other: float) -> bool:
    return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (
        math.isnan(one) and math.isnan(other)
    )


def _feeding(special: Sequence[_Special], changes: Callable[[Sequence[_Special]], bool]) -> Iterator[_Special]:
    """Those that change the element by themselves."""
    if not special or not changes(special):
        return
    if len(special) == 1:
        yield special[0]
        return
    half = len(special) // 2
    yield from _feeding(special[:half], changes)
    yield from _feeding(special[half:], changes)


def _said(feeding: Sequence[_Special]) -> str:
    if not feeding:
        return ""
    named = ", ".join(f"{each.name}{list(each.at)} = {each.value:.9g}" for each in feeding[:NAMED])
    return f", made of {named}{' and more' if len(feeding) > NAMED else ''}"
