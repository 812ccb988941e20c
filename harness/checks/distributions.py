"""Inputs that a kernel tuned to the file's own samples would get wrong.

The file's values give shape, type and structure; a distribution replaces the values of floating-point tensors. Integer
and bool tensors (labels, indices, masks) keep what the file gave, because only the file knows what is legal there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Draw = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=generator, dtype=torch.float32, device=generator.device)


def _wide(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Signed, magnitudes log-uniform over 1e-3..1e3: every branch of an activation, every exponent in between."""
    drawn = torch.rand(like.shape, generator=generator, dtype=torch.float32, device=generator.device)
    drawn.mul_(6 * math.log(10)).sub_(3 * math.log(10)).exp_()
    drawn.reshape(-1)[1::2].neg_()  # every other one: signs drawn at random would cost as much as all the rest
    return drawn


def _tiny(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _normal(like, generator).mul_(1e-5)


def _zeros(like: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return torch.zeros(like.shape, device=like.device)


DISTRIBUTIONS: dict[str, Draw] = {"normal": _normal, "wide": _wide, "tiny": _tiny, "zeros": _zeros}
ORDER = ("given", "wide", "normal", "tiny", "zeros", "given")
"""The trials of one verdict, the cheapest refutations of a wrong kernel first; the file's own twice, first and last."""


def draw(distribution: str, given: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values of one distribution in the shape, type and structure of `given`."""
    if distribution == "given" or not given.is_floating_point():
        return given
    drawn = DISTRIBUTIONS[distribution](given, generator).to(given.dtype)
    return _with_structure(drawn, given)


def _with_structure(drawn: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Triangles stay triangles and symmetric matrices symmetric: there the structure is the task's promise."""
    if given.ndim < 2 or given.shape[-1] != given.shape[-2] or given.shape[-1] < 2:
        return drawn
    if not given.tril(-1).any():
        drawn = drawn.triu()
    if not given.triu(1).any():
        drawn = drawn.tril()
    if torch.equal(given, given.mT):
        drawn = drawn.triu() + drawn.triu(1).mT
    return drawn


def jitter(parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Weights of another training step: each value times 0.5..1.5, so that signs, zeros and positivity survive."""
    if not parameter.is_floating_point():
        return parameter
    factor = torch.rand(parameter.shape, generator=generator, dtype=torch.float32, device=generator.device).add_(0.5)
    return parameter * factor.to(parameter.dtype)
