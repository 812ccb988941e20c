"""An oracle for one result: the float64 oracle, with what a last bit decides as that result has it.

Found by least squares over all outputs together: each decision changes them in a way of its own. What no decision
explains stays an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from harness.checks.errors import floor_of, scale_of
from harness.trusted.undecided import Tensors, Undecided

ROUNDS = 12
"""Of linear equations: shares have ends, and decisions that lie behind each other change the results together."""
PATIENCE = 3
"""Rounds after which one that does not halve the largest error is the last."""
STEPS = 12
"""Of conjugate gradients in a round: most decisions change elements of their own."""
SOLVED = 1e-16
"""Of the first slope squared: what is left is rounding."""
PROBE = 2.0**-10
"""How far shares are moved to see what a direction changes."""

Distance = Callable[[Tensors], torch.Tensor]


def explained(function: Undecided, got: Sequence[torch.Tensor]) -> Tensors:
    """The results in float64 by those decisions that come nearest to what somebody got."""
    if function.sides:
        _forget_what_changes_nothing(function)
    distance = _distance(function.own, got)
    best, least = function.own, _largest(distance(function.own))
    shares = function.even() if function.sides else torch.zeros(0)
    enough = max(floor_of(each.dtype) for each in got)
    before = math.inf
    for turn in range(ROUNDS if function.sides else 0):
        if least <= enough or (turn > PATIENCE and least > before / 2):
            break
        before = least
        shares = (shares + _step(function, distance, shares)).clamp(0, 1)
        for tried in (shares.round(), shares):
            with torch.no_grad():
                found = function(tried)
            if (error := _largest(distance(found))) < least:
                best, least = found, error
    return [each.detach() for each in best]


def _distance(exact: Tensors, got: Sequence[torch.Tensor]) -> Distance:
    """What results are off by, scaled, in one row; whole numbers and what is not finite count for nothing."""
    weights = []
    for own, other in zip(exact, got, strict=True):
        counted = torch.isfinite(own) & torch.isfinite(other) & own.is_floating_point()
        weights.append(torch.where(counted, 1 / (own.double().abs() + scale_of(own)), 0.0))
    wanted = [*map(_finite, got)]

    def distance(found: Tensors) -> torch.Tensor:
        triples = zip(found, wanted, weights, strict=True)
        return torch.cat([((_finite(each) - want) * weight).reshape(-1) for each, want, weight in triples])

    return distance


def _step(function: Undecided, distance: Distance, at: torch.Tensor) -> torch.Tensor:
    """By how much the shares are to move: conjugate gradients on the results' linear change.

    Those that are at an end already, and would go on, stay.
    """
    here = at.detach().requires_grad_()
    with torch.enable_grad():
        error = distance(function(here))

    slope = torch.autograd.grad(error, here, -error.detach(), retain_graph=True)[0]
    free = ~(((at <= 0) & (slope < 0)) | ((at >= 1) & (slope > 0)))

    def back(value: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(error, here, value, retain_graph=True)[0] * free

    def ahead(direction: torch.Tensor) -> torch.Tensor:
        size = PROBE / float(direction.abs().max())
        with torch.no_grad():
            return (distance(function(at + size * direction)) - error).div_(size)

    moved, left = torch.zeros_like(at), -error.detach()
    direction = slope = slope * free
    first = 0.0
    for _ in range(STEPS):
        steep = float(slope.square().sum())
        first = first or steep
        if steep <= SOLVED * first:
            break
        change = ahead(direction)
        length = steep / float(change.square().sum())
        moved, left = moved + length * direction, left - length * change
        slope = back(left)
        direction = slope + float(slope.square().sum()) / steep * direction
    return moved


def _forget_what_changes_nothing(function: Undecided) -> None:
    """A decision that only says which of several zeros is taken."""
    here = function.even().requires_grad_()
    generator = torch.Generator(here.device).manual_seed(2)
    with torch.enable_grad():
        found = [_finite(each) for each in function(here) if each.requires_grad]
        drawn = (torch.rand(each.shape, generator=generator, dtype=each.dtype, device=each.device) for each in found)
        probe = sum(torch.vdot(each.reshape(-1), draw.reshape(-1)) for each, draw in zip(found, drawn, strict=True))
    slope = torch.autograd.grad(probe, here)[0] if isinstance(probe, torch.Tensor) else torch.zeros_like(here)
    function.keep(slope != 0)


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double().nan_to_num(0.0, 0.0, 0.0)


def _largest(errors: torch.Tensor) -> float:
    return float(errors.abs().max())
