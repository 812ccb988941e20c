"""Inputs that a kernel tuned to the file's own samples would get wrong.

The file's values give shape, type and structure; a distribution replaces the values of floating-point tensors. Integer
and bool tensors (labels, indices, masks) keep what the file gave, because only the file knows what is legal there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from harness.task import OpClass

Block = Callable[[torch.Size, torch.Generator], torch.Tensor]

BLOCK = (1 << 20) + 7
"""Numbers drawn before they repeat. A prime, so that rows do not; drawing 16 million anew costs a third of a trial."""


def _tile(full: torch.Tensor, block: torch.Tensor) -> None:
    """Write the block again and again until `full`, which is contiguous, is."""
    flat = full.view(-1)
    whole, rest = divmod(flat.numel(), block.numel())
    flat[: whole * block.numel()].view(whole, block.numel()).copy_(block.expand(whole, -1))
    flat[whole * block.numel() :] = block[:rest]


def _uniform_block(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Uniform numbers of [0, 1), up to a block of them."""
    return torch.rand(min(shape.numel(), BLOCK), generator=generator, device=generator.device, dtype=torch.float32)


def _normal(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(min(shape.numel(), BLOCK), generator=generator, device=generator.device, dtype=torch.float32)


def _uniform(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _uniform_block(shape, generator).mul_(2).sub_(1)


def _wide(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Signed, magnitudes log-uniform over 1e-3..1e3: every branch of an activation, every exponent in between.

    Signs by chance: were every second one negative, the lanes of an honest sum would hold numbers of one sign each and
    cancel at the very end.
    """
    signed = _uniform(shape, generator)
    return signed.abs().mul_(6 * math.log(10)).sub_(3 * math.log(10)).exp_().copysign_(signed)


def _tiny(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).mul_(1e-5)


def _zeros(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return torch.zeros(min(shape.numel(), BLOCK), device=generator.device)


DISTRIBUTIONS: dict[str, Block] = {
    "normal": _normal, "uniform": _uniform, "wide": _wide, "tiny": _tiny, "zeros": _zeros, "special": _normal,
}  # fmt: skip
STIRRED = "stirred"
ORDER = ("given", "wide", "special", "normal", "uniform", "tiny", "zeros", STIRRED)
"""The trials of one verdict, the cheapest refutations of a wrong kernel first; the file's own values twice, first as
they are and last as they are timed."""
PLANTED = 16
"""Elements that a stirred input may hold against its file's habits."""


def draw(
    distribution: str,
    given: torch.Tensor,
    generator: torch.Generator,
    op_class: OpClass,
    place: torch.Tensor | None = None,
) -> torch.Tensor:
    """Values of one distribution in the shape, type and structure of `given`, on the generator's device.

    A contiguous `place` of that shape and type is written to and may be what is returned: large tensors are not copied.
    """
    if distribution in ("given", STIRRED) or not given.is_floating_point():
        return given
    if place is None or not place.is_contiguous():
        place = torch.empty(given.shape, dtype=given.dtype, device=generator.device)
    drawn = place
    _tile(drawn, DISTRIBUTIONS[distribution](given.shape, generator))
    if distribution == "special":
        _sprinkle(drawn, generator, op_class)
    return _with_structure(drawn, given)


def specials(dtype: torch.dtype, op_class: OpClass) -> list[float]:
    """The values among normal ones in a "special" trial: those on which results of such operations are defined.

    Sums of the largest numbers overflow or not by their order, which is nobody's mistake: only pointwise operations see
    them. Convolutions and the like may be computed in transformed spaces, where an infinity spreads: they see none.
    """
    facts = torch.finfo(dtype)
    small = [-0.0, facts.smallest_normal, -facts.smallest_normal / 4, facts.smallest_normal * facts.eps]
    infinite = [math.inf, -math.inf, math.nan]
    extreme = [facts.max, facts.min]
    return {
        "elementwise": infinite + small + extreme, "reduction": infinite + small, "gemm": infinite + small,
        "other": small,
    }[op_class]  # fmt: skip


def _sprinkle(drawn: torch.Tensor, generator: torch.Generator, op_class: OpClass) -> None:
    """Put special values in a few places, the last element among them: elsewhere rows and sums must stay clean."""
    flat, kinds = drawn.view(-1), specials(drawn.dtype, op_class)
    count = min(64, flat.numel() // 2) if op_class == "elementwise" else min(40, flat.numel() // 64)
    device = generator.device
    places = torch.randint(flat.numel(), (max(1, count),), generator=generator, device=device)
    places[0] = flat.numel() - 1
    turn = int(torch.randint(len(kinds), (1,), generator=generator, device=device))
    values = torch.tensor([kinds[(turn + i) % len(kinds)] for i in range(places.numel())], dtype=torch.float64)
    flat[places] = values.to(dtype=drawn.dtype, device=device)


CORNER = 64


def _with_structure(drawn: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Triangles stay triangles and symmetric matrices symmetric: there the structure is the task's promise."""
    if not _is_square(given):
        return drawn
    if _is_upper(given):
        drawn = drawn.triu()
    if _is_upper(given.mT):
        drawn = drawn.tril()
    if _is_symmetric(given):
        drawn = drawn.triu() + drawn.triu(1).mT
    return drawn


def _is_square(given: torch.Tensor) -> bool:
    return given.ndim > 1 and given.shape[-1] == given.shape[-2]


def _is_upper(given: torch.Tensor) -> bool:
    """Nothing below the diagonal? A corner says no at once for a dense matrix, where the whole would take 0.1 s."""
    corner = min(CORNER, given.shape[-1] // 2)
    return not (given[..., -corner:, :corner].any() or given.tril(-1).any())


def _is_symmetric(given: torch.Tensor) -> bool:
    edge = min(CORNER, given.shape[-1])
    return torch.equal(given[..., :edge, :], given[..., :, :edge].mT) and torch.equal(given, given.mT)


class Stirring:
    """Other values in each element of what a file gave, again and again at the price of a copy.

    No result for the values before, whole or in part, is of use for the new ones. Zeros stay zeros and magnitudes do
    not grow, so that what a forward accepts it goes on to accept; `plant` breaks the second rule in a few places.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._factors = {
            torch.float32: torch.rand(2 * BLOCK, generator=generator, device=generator.device).mul_(0.5).add_(0.5)
        }

    def stir(self, given: torch.Tensor, place: torch.Tensor | None = None, *, plant: bool = False) -> torch.Tensor:
        """`given` with each element times a factor of [0.5, 1), in another order of factors each time.

        With `plant` a few elements are 1 to 4 times as large and of either sign: who guesses from a sample that all
        are positive, sorted or in a range is wrong. A contiguous `place` of that shape and type is written to and may
        be what is returned.
        """
        if place is None or not (place.is_contiguous() and given.is_contiguous()):
            place, given = torch.empty(given.shape, dtype=given.dtype, device=given.device), given.contiguous()
        flat, old = place.view(-1), given.view(-1)
        start, length = int(self._draw(BLOCK, 1)), min(BLOCK, given.numel())
        factors = self._block(given.dtype)[start : start + length]
        whole = old.numel() // length * length
        torch.mul(old[:whole].view(-1, length), factors, out=flat[:whole].view(-1, length))
        torch.mul(old[whole:], factors[: old.numel() - whole], out=flat[whole:])
        if plant:
            self._plant(flat, old)
        return place.triu() + place.triu(1).mT if _is_square(given) and _is_symmetric(given) else place

    def _plant(self, flat: torch.Tensor, given: torch.Tensor) -> None:
        at = self._draw(flat.numel(), min(PLANTED, max(1, flat.numel() // PLANTED)))
        factors = torch.rand(at.numel(), generator=self._generator, device=at.device).mul_(3).add_(1)
        factors[self._draw(2, at.numel()).bool()] *= -1
        flat[at] = given[at] * factors.to(given.dtype) + 0.0  # a zero stays one without a sign

    def _block(self, dtype: torch.dtype) -> torch.Tensor:
        if dtype not in self._factors:
            self._factors[dtype] = self._factors[torch.float32].to(dtype)
        return self._factors[dtype]

    def _draw(self, below: int, count: int) -> torch.Tensor:
        return torch.randint(below, (count,), generator=self._generator, device=self._generator.device)


def jitter(parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Weights of another training step: each value times 0.5..1.5, so that signs, zeros and positivity survive."""
    if not parameter.is_floating_point():
        return parameter
    factor = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
    _tile(factor, _uniform_block(parameter.shape, generator).add_(0.5))
    return parameter * factor
