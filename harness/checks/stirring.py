"""Other values in each element of what a file gave, again and again at the price of a copy."""

from __future__ import annotations

import random
from typing import Literal

import torch

from harness.checks.families import Reach, near_one, uniform_block
from harness.checks.float8 import widened
from harness.checks.structure import Structure

BLOCK = (1 << 20) + 7
"""Numbers drawn before they repeat. A prime, so that rows do not; drawing 16 million anew costs a third of a trial."""
PLANTED = 16
"""Elements that a stirred input may hold against its file's habits."""
TOUCHED = 16
SPARSE = 256
"""... but one of so many at most: looks at a small one would see that it changes."""
EDGE = 1 / 1024
GLANCED = 8
"""Places in a row that are looked at for two to be exchanged."""
NO_STRUCTURE = Structure()

Manner = Literal["mixed", "mixed upwards", "planted", "planted upwards", "mixed within", "stirred", "near one", "given"]
MANNERS: tuple[Manner, ...] = ("mixed", "mixed upwards", "planted", "mixed within", "stirred", "given")
"""How timed inputs come about, the most various first: stretches of other families within each row; such stretches of
the file's signs; a few elements of another sign or size; stretches that lie in the file's range the other way round;
other factors alone; or what the file gives, anew each time. The reference must take them."""
PLANTED_BESIDE: dict[Manner, Manner] = {"mixed": "planted", "mixed upwards": "planted upwards"}
"""Who takes such stretches takes what the file shows but for a few elements, too."""


def tile(full: torch.Tensor, block: torch.Tensor) -> None:
    """Write the block again and again until `full`, which is contiguous, is."""
    flat = full.view(-1)
    whole, rest = divmod(flat.numel(), block.numel())
    flat[: whole * block.numel()].view(whole, block.numel()).copy_(block.expand(whole, -1))
    flat[whole * block.numel() :] = block[:rest]


def touch_few(view: torch.Tensor, *, turned: bool = False, extremes: bool = False) -> None:
    """Change a few elements at random places, in place.

    By factors, so that zeros survive, and signs unless every second one is to be `turned`; on the diagonals of square
    matrices, so that triangles and symmetric matrices stay what they are. With `extremes` every second one
    becomes the largest or the least of all, about, by its sign: what is the largest of a row follows from few elements.
    """
    square = view.ndim > 1 and view.shape[-1] == view.shape[-2]
    elements = view.diagonal(dim1=-2, dim2=-1) if square else view if view.ndim else view.view(1)
    count = min(TOUCHED, max(2, elements.numel() // SPARSE))
    places = tuple(torch.randint(extent, (count,), device=view.device) for extent in elements.shape)
    factors = torch.empty(count, device=view.device).uniform_(0.6, 0.9)
    factors[::2] *= -1.0 if turned else 1.0
    changed = elements[places] * factors.to(view.dtype)
    if extremes:
        (low, high), some = view.aminmax(), changed[1::2]
        ends = torch.where(some > 0, high, low) * (1 - EDGE * factors[1::2]).to(view.dtype)
        changed[1::2] = torch.where(ends.isfinite() & (some != 0), ends, some)
    elements[places] = changed


def exchange_few(view: torch.Tensor) -> None:
    """Put a few elements in the places of others of another magnitude: where zeros lie is no longer what it was."""
    glanced = min(64 * TOUCHED, view.numel())
    places = tuple(torch.randint(extent, (glanced,), device=view.device) for extent in view.shape)
    order = view[places].abs().argsort()
    ends = torch.cat([order[:TOUCHED], order[-TOUCHED:]])
    at = tuple(axis[ends] for axis in places)
    view[at] = view[at].flip(0)


def exchange_in_rows(view: torch.Tensor) -> None:
    """Swap, in place, an infinite element with a finite one, or a zero with another number, in each row where a look
    shows both: what follows from their places is another one, and each row has as many as before."""
    glanced = torch.randint(view.shape[-1], (*view.shape[:-1], GLANCED), device=view.device)
    values = view.gather(-1, glanced)
    infinite = values.isinf()
    marked = torch.where(infinite.any(-1, keepdim=True), infinite, values == 0)
    first, second = (flags.byte().argmax(-1, keepdim=True) for flags in (marked, ~marked))
    both = marked.any(-1, keepdim=True) & ~marked.all(-1, keepdim=True)
    second = torch.where(both, second, first)
    here, there = (values.gather(-1, chosen) for chosen in (first, second))
    view.scatter_(-1, glanced.gather(-1, first), there)
    view.scatter_(-1, glanced.gather(-1, second), here)


class Stirring:
    """No result for the values before, whole or in part, is of use for the new ones.

    Only stretches and planted elements leave what the file shows: elsewhere zeros stay zeros, signs stay and magnitudes
    do not grow, so that what a forward accepts it goes on to accept.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self._random = random.Random(int(torch.randint(1 << 62, (1,), generator=generator, device=generator.device)))
        self._numbers = {torch.float32: uniform_block(2 * BLOCK, generator).mul_(0.5).add_(0.5)}
        self._turned: dict[torch.dtype, torch.Tensor] = {}
        self._near: dict[tuple[torch.dtype, int], torch.Tensor] = {}

    def stir(
        self,
        given: torch.Tensor,
        place: torch.Tensor | None = None,
        *,
        manner: Manner = "stirred",
        structure: Structure = NO_STRUCTURE,
        turned: bool = False,
    ) -> torch.Tensor:
        """`given` with each element times a factor of [0.5, 1), in another order of factors each time.

        The factors have either sign where they are to be `turned`.

        With "mixed" stretches of odd length at random places are negated, moved away from zero or enlarged, and as with
        "planted" a few elements are 1 to 4 times as large and of either sign; "mixed upwards" nothing is negated. With
        "mixed within" stretches are mirrored in the range of `given`; with "near one" it keeps no value of it. A
        contiguous `place` of that shape and type is written to and may be what is returned.
        """
        given = widened(given)
        if place is None or not (place.is_contiguous() and given.is_contiguous() and place.dtype == given.dtype):
            place, given = torch.empty(given.shape, dtype=given.dtype, device=given.device), given.contiguous()
        flat, old = place.view(-1), given.view(-1)
        if manner == "near one":
            self._replace(flat, given)
        else:
            self._scale(flat, old, turned=turned)
        if manner in ("mixed", "mixed upwards", "mixed within"):
            self._mix(flat, old, manner)
        if manner in (*PLANTED_BESIDE, *PLANTED_BESIDE.values()):
            self._plant(flat, old, negated=not manner.endswith("upwards"))
        return structure.keep(place)

    def _scale(self, flat: torch.Tensor, old: torch.Tensor, *, turned: bool) -> None:
        length = min(BLOCK, old.numel())
        factors = self._some(length, old.dtype, turned=turned)
        whole = old.numel() // length * length
        torch.mul(old[:whole].view(-1, length), factors, out=flat[:whole].view(-1, length))
        torch.mul(old[whole:], factors[: old.numel() - whole], out=flat[whole:])

    def _replace(self, flat: torch.Tensor, given: torch.Tensor) -> None:
        """Factors of either sign whose products neither overflow nor vanish, other ones each time."""
        reach = Reach.of(given, "reduction", 0)
        key = (given.dtype, reach.terms)
        if key not in self._near:
            self._near[key] = near_one(2 * BLOCK, self.generator, reach).to(given.dtype)
        start, length = self._random.randrange(BLOCK), min(BLOCK, flat.numel())
        tile(flat, self._near[key][start : start + length])

    def _mix(self, flat: torch.Tensor, old: torch.Tensor, manner: Manner) -> None:
        """Stretches of three kinds, a quarter of all elements: negated, away from zero, several times as large.

        "mixed upwards" they keep the sign that the file shows, "mixed within" all are mirrored in its range.
        """
        size = _typical(old)
        for sign, offset, growth in self._foreign(manner):
            length = 2 * self._random.randrange(2, 5 + min(100, flat.numel() // 32)) + 1
            period = 12 * length + 2 * self._random.randrange(length)
            start = self._random.randrange(min(period, flat.numel()))
            if start + length > flat.numel():
                continue
            stretches = flat[start:].unfold(0, length, period)
            stretches.mul_(self._some(length, flat.dtype) * (sign * growth))
            if offset:
                stretches.add_(self._some(length, flat.dtype) * (offset * size))
            if manner == "mixed within":
                low, high = old.aminmax()
                stretches.neg_().add_(low + high).clamp_(low, high)

    def _foreign(self, manner: Manner) -> tuple[tuple[float, float, float], ...]:
        """Of each kind of stretch the sign, the offset in sizes that are typical of the input, the growth."""
        if manner == "mixed within":
            return ((1.0, 0.0, 1.0),) * 3
        negated, away = (-1.0, self._random.choice((-4.0, 4.0))) if manner == "mixed" else (1.0, 4.0)
        return (negated, 0.0, 2.0), (1.0, away, 1.0), (1.0, 0.0, 12.0)

    def _plant(self, flat: torch.Tensor, given: torch.Tensor, *, negated: bool) -> None:
        at = self._draw(flat.numel(), min(PLANTED, max(1, flat.numel() // PLANTED)))
        factors = torch.rand(at.numel(), generator=self.generator, device=at.device).mul_(3).add_(1)
        factors[self._draw(2, at.numel()).bool()] *= -1 if negated else 1
        flat[at] = given[at] * factors.to(given.dtype) + 0.0  # a zero stays one without a sign

    def _some(self, length: int, dtype: torch.dtype, *, turned: bool = False) -> torch.Tensor:
        """Numbers of [0.5, 1), from another place of all that were drawn each time; of either sign where `turned`."""
        held = self._turned if turned else self._numbers
        if dtype not in held:
            numbers = self._numbers[torch.float32]
            signs = uniform_block(2 * BLOCK, self.generator).sub_(0.5) if turned else numbers
            held[dtype] = numbers.copysign(signs).to(dtype)
        start = self._random.randrange(BLOCK)
        return held[dtype][start : start + length]

    def _draw(self, below: int, count: int) -> torch.Tensor:
        return torch.randint(below, (count,), generator=self.generator, device=self.generator.device)


def _typical(given: torch.Tensor) -> torch.Tensor:
    """The mean magnitude of a sample, at least a small number, with the sign of its mean: what is away from zero.

    Not waited for.
    """
    sample = given[:: max(1, given.numel() // 1024)].nan_to_num(posinf=1.0, neginf=-1.0)
    return sample.abs().mean().clamp_(min=1e-3).copysign(sample.mean())
