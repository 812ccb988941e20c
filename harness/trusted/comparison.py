"""What lies in a slot's outputs against what should: PyTorch's error on those very inputs is the yardstick.

A result that looks wrong by little may be right. Of few elements PyTorch's own error says little, and many elements can
share one error: all of a row that lies around 3, within a hundredth, are off by what its mean is, by chance nothing. So
PyTorch's result is then looked at more often: on other inputs of the kind, and on the same times a factor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import repeat

import torch

from harness.checks.emptiness import all_finite
from harness.checks.errors import (
    FEW,
    FLOOR_EPS,
    MULTIPLE,
    NEAR_MISS,
    Expected,
    Scope,
    allowed,
    compare,
    floor_of,
    is_near_miss,
    likely_error,
    own_error,
)
from harness.checks.families import FAMILIES, SINGLE, SPECIAL, SUBNORMAL
from harness.checks.small_results import with_small_ones, wrong_small_ones
from harness.nouns.errors import UserError
from harness.nouns.task import OpClass
from harness.nouns.verdict import OutputError, Trial
from harness.trusted.bench import Bench
from harness.trusted.noise_estimate import spread_of
from harness.trusted.reference import writable

MORE_DRAWS = 7
"""Of inputs, where an output of few elements looks wrong."""
NEARBY, NEARBY_S, NEARBY_SURELY = 15, 3.0, 3
"""Inputs nearby, where an output looks wrong by little: fewer where that takes longer, but `NEARBY_SURELY`."""
NARROWEST, GOLDEN = 0.125, (math.sqrt(5) - 1) / 2
COARSE = 1 / 32
"""PyTorch's results count as this far off where all there is are subnormals: of a few thousand units, in which each way
to compute rounds another way. Who takes one for zero is off by a third at least."""


def errors_of(
    bench: Bench, slot: int, trial: Trial, results: list[torch.Tensor] | None = None
) -> tuple[OutputError, ...]:
    """What lies in a slot's outputs against the oracle on the trial's inputs, which lie there. Raises `UserError`.

    `results` are the reference's own on them, where they are known.
    """
    expected, errors = compared_nearby(bench, slot, trial.distribution, results)
    bench.influence.see(trial.distribution, expected)
    if any(map(_is_doubtful, errors, expected)):
        draws = more_draws(bench, slot, trial)
        bench.arguments.fill(slot, trial.seed, trial.distribution, trial.mild)  # as it was: calls may be repeated on it
        return tuple(map(compare, bench.memory.outputs(slot), expected, draws))
    return _with_small_ones(bench, slot, trial, expected, errors)


def _with_small_ones(
    bench: Bench, slot: int, trial: Trial, expected: list[Expected], errors: tuple[OutputError, ...]
) -> tuple[OutputError, ...]:
    """The errors with what is wrong by its own size alone, in functions of elements and shares."""
    held = bench.facts.elementwise and FAMILIES[trial.distribution].sized
    if not held or any(e.bad_fraction for e in errors):
        return errors
    inputs, replica = bench.arguments.inputs(slot), bench.arguments.replicas[slot]
    results = [wanted.reference for wanted in expected]
    spreads = cache(lambda: spread_of(lambda given: bench.reference.run(given, replica), inputs, results))
    found = []
    for place, (error, wanted, got) in enumerate(zip(errors, expected, bench.memory.outputs(slot), strict=True)):
        exact = wanted.oracle is not wanted.reference
        if exact and wanted.name in bench.facts.elementwise and got.is_floating_point():
            wrong, off = wrong_small_ones(got, wanted, partial(lambda at: spreads()[at], place))
            error = with_small_ones(error, wrong, off, got, wanted) if wrong.numel() else error
        found.append(error)
    return tuple(found)


def compared_nearby(
    bench: Bench, slot: int, distribution: str, results: list[torch.Tensor] | None = None
) -> tuple[list[Expected], tuple[OutputError, ...]]:
    """What a slot's outputs should be, and how far off they are. Raises `UserError`.

    Near misses are held to PyTorch's error on inputs nearby as well, then to how well the outputs are determined.
    Beside a step an error nearby that is no near miss itself is another decision's, and says nothing.
    """
    expected = expected_of(bench, slot, distribution, results)
    errors = tuple(map(compare, bench.memory.outputs(slot), expected))
    if not any(map(is_near_miss, errors, expected)):
        return expected, errors
    noise = [wanted.noise for wanted in expected]
    most_nearby = [NEAR_MISS * each for each in map(allowed, expected, map(own_error, errors))]
    for likely in likely_nearby(bench, slot, distribution):
        if bench.facts.steps and any(each > most for each, most in zip(likely, most_nearby, strict=True)):
            continue
        noise = [*map(max, noise, likely)]
        pairs = zip(errors, map(allowed, expected, noise), strict=True)
        if all(error.max_scaled <= most for error, most in pairs):
            break
    else:
        if not bench.facts.steps:
            noise = [*map(max, noise, _conditioned(bench, slot, expected))]
    again = expected_of(bench, slot, distribution)  # an oracle is valid until the next one
    expected = [replace(wanted, noise=most) for wanted, most in zip(again, noise, strict=True)]
    return expected, tuple(map(compare, bench.memory.outputs(slot), expected))


def _conditioned(bench: Bench, slot: int, expected: list[Expected]) -> list[float]:
    """How far off PyTorch's outputs count as, so that `FLOOR_EPS` times what a unit in each rounding moves them by is
    right. 0 for outputs that it moves by less than the floor: these are determined, and held to PyTorch's own error.

    Beside an offset of 1000 Welford's running mean is off by some units of that, PyTorch's by one. Both are honest.
    Of 16 bits eight units are a line in the place of exp(); products are held to their order of sums.
    """
    results = [wanted.reference for wanted in expected]
    moved = [0.0] * len(results)
    if bench.facts.op_class != "gemm":
        with suppress(UserError):
            moved = bench.oracle.noise(bench.arguments.inputs(slot), bench.memory.parameters(slot), results, wide=True)
    pairs = zip(moved, results, strict=True)
    return [FLOOR_EPS / MULTIPLE * each if each > floor_of(result.dtype) else 0.0 for each, result in pairs]


def likely_nearby(bench: Bench, slot: int, distribution: str) -> Iterator[list[float]]:
    """How far off PyTorch's outputs are likely to be on a slot's inputs times one factor, and another one.

    What lies close together does so then, too, and what is zero or equal stays so; but each rounding is another one.
    """
    given = bench.arguments.scalable(slot)
    kept = [view.clone() for view in given]
    until = time.monotonic() + NEARBY_S
    for turn in range(1, NEARBY + 1):
        if turn > NEARBY_SURELY and time.monotonic() > until:
            return
        factor = 1 - NARROWEST * (turn * GOLDEN % 1)
        likely: list[float] = []
        with suppress(UserError):
            for view, old in zip(given, kept, strict=True):
                view.copy_(old * factor)
            likely = [*map(likely_error, expected_of(bench, slot, distribution))]
        for view, old in zip(given, kept, strict=True):
            view.copy_(old)
        if likely:
            yield likely


def _is_doubtful(error: OutputError, expected: Expected) -> bool:
    """Is an output wrong, by a number, that has too few elements to say so at once?"""
    few = expected.reference.is_floating_point() and expected.reference.numel() < FEW
    return few and error.bad_fraction > 0 and math.isfinite(error.max_scaled)


def more_draws(bench: Bench, slot: int, trial: Trial, *, few: int = FEW) -> list[list[Expected]]:
    """For each output of `few` elements, what it should be on more inputs of a kind. The slot is filled with those."""
    draws: list[list[Expected]] = [[] for _ in bench.signature.outputs]
    for number in range(MORE_DRAWS):
        bench.arguments.fill(slot, (trial.seed + 104_729 * (number + 1)) % (1 << 31), trial.distribution, trial.mild)
        with suppress(UserError):
            for kept, wanted in zip(draws, expected_of(bench, slot, trial.distribution), strict=True):
                kept += [wanted] * (wanted.reference.numel() < few)
    return draws


def expected_of(
    bench: Bench, slot: int, distribution: str, results: list[torch.Tensor] | None = None
) -> list[Expected]:
    """What a slot's outputs should be, on the inputs that lie there. Raises `UserError`.

    `results` are the reference's own, where they are known.
    """
    inputs, scope = bench.arguments.inputs(slot), scope_of(bench, distribution)
    reference = results or [writable(output) for output in bench.reference.run(inputs, bench.arguments.replicas[slot])]
    weights = bench.memory.parameters(slot)
    exact = bench.oracle.run(inputs, weights, reference)
    noise = [0.0] * len(reference) if exact else bench.oracle.noise(inputs, weights, reference)
    if distribution == SUBNORMAL:
        noise = [max(each, COARSE) for each in noise]
    names = [spec.name for spec in bench.signature.outputs]
    got = bench.memory.outputs(slot)
    further = bench.oracle.further(inputs, weights, got, bench.tolerance) if bench.facts.steps else repeat(None)
    asked = bench.oracle.reached(inputs, weights, len(names)) if exact and scope == "finite" else repeat(None)
    own = bench.arguments.pattern, bench.arguments.weights
    clean = not exact or all_finite(reference)
    shown = repeat(None) if clean else bench.oracle.without_hidden(inputs, weights, own, len(names))
    common = repeat(scope), noise, repeat(bench.tolerance), further, asked, shown
    return list(map(Expected, names, exact or reference, reference, *common))


def scope_of(bench: Bench, distribution: str) -> Scope:
    """What is compared of a family's outputs."""
    if distribution == SINGLE and bench.facts.op_class == "other":
        return "all" if bench.facts.orders else "finite"
    if distribution not in (SPECIAL, SINGLE):
        return "all"
    scopes: dict[OpClass, Scope] = {"gemm": "finite", "reduction": "reduced"}
    return scopes.get(bench.facts.op_class, "defined")
