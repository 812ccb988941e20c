"""Numbers among the forward's inputs: which other values it takes, and which a call is given.

What a file gives is one value. A kernel may take it for fixed only where the forward takes no other one with outputs of
the same shapes: the task's description finds that out, and the judge tries what it found on real inputs once more.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor

from harness.checks.emptiness import all_finite
from harness.nouns.errors import UserError
from harness.nouns.task import ScalarSpec, Signature
from harness.trusted.link import Numbers
from harness.trusted.reference import Reference, Value

STEPS = 64
"""Different values of a number with a fraction while timed."""
DIGITS = 8
"""Bits of a number between two that are taken: float32 and bfloat16 hold it, and differences of such, exactly. Who
casts longer ones to float32 first would be off by more than PyTorch, which computes with numbers in float64."""
ASIDE = 0.25
"""The share of timed calls whose whole numbers and flags are not the file's own: the work may depend on them."""


def candidates(value: Value) -> list[float]:
    """Values to try beside a number's own: neighbours, its double, its negative, zero, the other bool."""
    if isinstance(value, torch.Tensor):
        return []
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        wanted: list[float] = [value + 1, value - 1, 0, -value, 2 * value]
    else:
        wanted = [_step(value, 1), 0.0, -value, 2 * value, 4 * value + 1, value / 8]
    return [other for other in dict.fromkeys(wanted) if other != value]


def is_free(value: Value, taken: Sequence[float]) -> bool:
    """Whether the forward may be called with any number: with every one that was tried, or between two with a fraction.

    A temperature of zero is none, which says nothing of others.
    """
    if isinstance(value, float):
        return {_step(value, 1), 2 * value} - {value} <= set(taken)
    return len(taken) == len(candidates(value))


def others_taken(reference: Reference, inputs: Sequence[Value], outputs: Sequence[torch.Tensor]) -> list[list[float]]:
    """For each input the other numbers that the forward takes in its place; none for a tensor.

    Taken is what gives outputs of the same shapes and types, as finite as those of the file's own number. Of tensors
    that have no values shapes and types have to do.
    """
    known = not any(isinstance(output, FakeTensor) for output in outputs)
    expected = [(output.shape, output.dtype) for output in outputs]
    finite = known and all_finite(outputs)

    def taken(position: int, other: Value) -> bool:
        try:
            results = reference.run([*inputs[:position], other, *inputs[position + 1 :]])
        except UserError:
            return False
        alike = [(result.shape, result.dtype) for result in results] == expected
        return alike and (not finite or all_finite(results))

    return [[other for other in candidates(value) if taken(position, other)] for position, value in enumerate(inputs)]


def slot_numbers(signature: Signature, slot: int) -> Numbers:
    """Scalar inputs of a slot: the file's own in slot 0, other values elsewhere where they have a fraction."""
    specs = (spec for spec in signature.inputs if isinstance(spec, ScalarSpec))
    return {spec.name: _step(spec.value, slot % STEPS) if _varies(spec) else spec.value for spec in specs}


class ScalarArguments:
    """The numbers that calls of one bench are given. Until `settle` each slot keeps those it began with."""

    def __init__(self, signature: Signature, numbers: Sequence[Numbers]) -> None:
        self._first = [dict(each) for each in numbers]
        self._specs = [spec for spec in signature.inputs if isinstance(spec, ScalarSpec)]
        self._turns: list[Numbers] = [{}]
        self._whose_turn: dict[str, int] = {}

    def settle(self, takes: Callable[[Numbers], bool]) -> None:
        """Try on real inputs what the task's description found: all numbers at once, else one by one.

        A zero is tried alone: it may hide what the others do.
        """
        numbers = {spec.name: [each for each in spec.others if each or each is False] for spec in self._specs}
        wanted = [
            {name: values[turn % len(values)] for name, values in numbers.items() if values}
            for turn in range(max(map(len, numbers.values()), default=0))
        ]
        wanted += [{spec.name: 0 * spec.value} for spec in self._specs if spec.type != "bool" and 0 in spec.others]
        for together in wanted:
            alone = ({name: other} for name, other in together.items() if len(together) > 1)
            self._turns += [together] if takes(together) else [each for each in alone if takes(each)]

    def for_trial(self, slot: int, distribution: str) -> Numbers:
        """A trial's numbers: the slot's own on the file's own inputs, then others by turns."""
        turn = 0 if distribution == "given" else self._whose_turn.setdefault(distribution, len(self._whose_turn) + 1)
        return self._first[slot] | self._turns[turn % len(self._turns)]

    def for_timed(self, slot: int) -> Numbers:
        """A timed call's numbers: with a fraction new ones each time, in some calls others of all kinds."""
        numbers = self._first[slot] | {spec.name: self._anywhere(spec) for spec in self._specs if _varies(spec)}
        return numbers | (random.choice(self._turns) if random.random() < ASIDE else {})

    def _anywhere(self, spec: ScalarSpec) -> float:
        """A larger multiple of the file's own; in half of the calls a number between any two that were taken.

        Of one sign where zero is not: there may be a pole.
        """
        if random.random() < 0.5:
            return _step(spec.value, random.randrange(STEPS))
        ends = [spec.value, *(turn[spec.name] for turn in self._turns if spec.name in turn)]
        first = random.choice(ends)
        return _short(random.uniform(first, random.choice([end for end in ends if 0 in ends or end * first > 0])))


def _short(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**DIGITS), exponent - DIGITS)


def _varies(spec: ScalarSpec) -> bool:
    return spec.type == "float" and spec.free


def _step(value: float, step: int) -> float:
    return value * (1 + 0.125 * step) + 0.25 * step
