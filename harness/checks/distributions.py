"""One family's values in the shape, type and structure of what a file gave.

A family replaces the values of floating-point tensors. Integer and bool tensors (labels, indices, masks) keep what the
file gave, because only the file knows what is legal there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from harness.checks.families import FAMILIES, MASKED, MILDER, Reach, below
from harness.checks.float8 import widened
from harness.checks.stirring import BLOCK, tile
from harness.checks.structure import Structure
from harness.nouns.task import OpClass

MEETINGS = 128
"""Places at which special values of several inputs meet, of 36 pairs."""
TIES, HALVES = 64, tuple(sign * 0.5**power for power in range(1, 7) for sign in (1, -1))
"""Places of pointwise operations' inputs that hold a half of a unit from 1 down to 1/32. Few: the squares of many would
round in one direction."""
SINGLES = 3
"""Special values for each input of a "single special" trial."""
SMALL = 16
"""Of so few elements each may reach most results."""


def draw(
    family: str,
    given: torch.Tensor,
    generator: torch.Generator,
    op_class: OpClass,
    place: torch.Tensor | None = None,
    *,
    mild: int = 0,
    structure: Structure | None = None,
    whole: bool = False,
) -> torch.Tensor:
    """Values of one family in the shape, type and structure of `given`, on the generator's device; float8 in float32.

    `mild` 1 asks for smaller magnitudes and for signs that `given` has; 2 for values in the range of `given`.
    With `whole` some parts are masked as a whole (see `_hide_parts`).
    A contiguous `place` of that shape and type is written to and may be what is returned: large tensors are not copied.
    """
    if FAMILIES[family].block is None or not given.is_floating_point():
        return given
    block, given = _block(family, given, generator, op_class, mild), widened(given)
    if place is None or not place.is_contiguous() or place.dtype != given.dtype:
        place = torch.empty(given.shape, dtype=given.dtype, device=generator.device)
    tile(place, block)
    if family == MASKED:
        _clear_lines(place, generator)
        if whole and not mild:
            _hide_parts(place, generator)
    return (structure or Structure.of(given)).keep(place)


def stretch(among: torch.Tensor, generator: torch.Generator, *, family: str, op_class: OpClass, mild: int = 0) -> None:
    """Put values of one family, as `draw` has them, into stretches at random places of a contiguous tensor.

    They are a sixteenth to a quarter of it, of odd length, so that a few elements of the tensor tell nothing of them.
    """
    flat = among.view(-1)
    block = _block(family, among, generator, op_class, mild)
    length = min(flat.numel(), 1 + 2 * below(4 + min(50, flat.numel() // 64), generator))
    period = (4 + below(12, generator)) * length
    start = below(min(period, flat.numel() - length + 1), generator)
    stretches = flat[start:].unfold(0, length, period)
    stretches.copy_(block[:length].expand_as(stretches))


def _block(family: str, given: torch.Tensor, generator: torch.Generator, op_class: OpClass, mild: int) -> torch.Tensor:
    """A family's numbers: with the file's signs from `mild` 1 on, squeezed into the file's range at `MILDER`."""
    draws = FAMILIES[family].block
    assert draws is not None, family
    block = draws(min(given.numel(), BLOCK), generator, Reach.of(given, op_class, mild))
    if not mild or family == MASKED:
        return block
    given = widened(given)
    finite = given[torch.isfinite(given)]
    low, high = (float(end) for end in finite.aminmax()) if finite.numel() else (-1.0, 1.0)
    if mild < MILDER:
        return block.abs_() if low >= 0 else block.abs_().neg_() if high <= 0 else block
    shrunk = torch.sigmoid(block)
    return shrunk.mul_(high - low).add_(low)


def _hide_parts(drawn: torch.Tensor, generator: torch.Generator) -> None:
    """Nothing but -infinity in one line along each axis, and in all that one place of the first axes holds.

    A part of more than an eighth of the tensor stays: most results have to be finite.
    """
    place = [below(extent, generator) for extent in drawn.shape]
    parts: list[tuple[int | slice, ...]] = [tuple(place[:axes]) for axes in range(1, drawn.ndim - 1)]
    parts += [(*place[:axis], slice(None), *place[axis + 1 :]) for axis in range(drawn.ndim)]
    for at in parts:
        if 8 * drawn[at].numel() <= drawn.numel():
            drawn[at] = -math.inf


def _clear_lines(drawn: torch.Tensor, generator: torch.Generator) -> None:
    """One line along each axis without infinities: nothing is masked as a whole."""
    for axis, extent in enumerate(drawn.shape):
        drawn.select(axis, below(extent, generator)).nan_to_num_(posinf=1.0, neginf=-1.0)


def specials(dtype: torch.dtype, op_class: OpClass, *, multiplies: bool = False) -> list[float]:
    """The values among ordinary ones in a "special" trial: those on which results of such operations are defined.

    Sums of the largest numbers overflow or not by their order, which is nobody's mistake: only pointwise operations see
    them. Convolutions and the like may be computed in transformed spaces, where an infinity spreads: they see none.
    Products of many numbers are held to what is not finite: denormals vanish by their order.
    """
    facts = torch.finfo(dtype)
    small = [-0.0, facts.smallest_normal, -facts.smallest_normal / 4, facts.smallest_normal * facts.eps]
    infinite = [math.inf, -math.inf, math.nan]
    extreme = [facts.max, facts.min]
    if multiplies:
        return [*infinite, -0.0]
    return {
        "elementwise": infinite + small + extreme, "reduction": infinite + small, "gemm": infinite + small,
        "other": small,
    }[op_class]  # fmt: skip


def sprinkle(
    drawn: torch.Tensor, generator: torch.Generator, op_class: OpClass, *, multiplies: bool = False, mild: int = 0
) -> None:
    """Put special values in a few places of a contiguous tensor, drawn at random: elsewhere sums must stay clean.

    How many there are is a matter of chance too, between a half of the most and all. Where a single infinity may
    spread, one whole line along the first axis is NaN: whatever space it is computed in, its own results are NaN. Not
    so where `mild` is above 0, for results may mix those lines; and there are an eighth as many each time: of a few
    rows some must stay clean.
    """
    kinds, device = specials(drawn.dtype, op_class, multiplies=multiplies), generator.device
    flat = drawn.view(-1)
    if op_class == "elementwise":
        at = torch.randint(flat.numel(), (min(TIES, flat.numel() // 16),), generator=generator, device=device)
        flat[at] = flat.new_tensor(HALVES).repeat(len(at))[: len(at)]
    most = min(96, flat.numel() // 2) if op_class == "elementwise" else min(48, flat.numel() // 64)
    most = max(min(most, 2), most >> (3 * mild))
    fewest = max(1, (most + 1) // 2)
    count = fewest + below(most - fewest + 1, generator)
    places = torch.randint(flat.numel(), (count,), generator=generator, device=device)
    turn = below(3 if mild else len(kinds), generator)  # of a few one is not finite, where any may be
    values = torch.tensor([kinds[(turn + i) % len(kinds)] for i in range(count)], dtype=torch.float64)
    flat[places] = _nan_of_each_kind(values.to(dtype=drawn.dtype)).to(device)
    if op_class == "other" and not mild and drawn.ndim > 1 and drawn.shape[0] > 1:
        drawn[below(drawn.shape[0], generator)] = math.nan


def meet(together: Sequence[torch.Tensor], generator: torch.Generator) -> None:
    """Put two special values, zeros and ones in a few places of contiguous tensors of one shape, the same ones in all:
    what comes of an infinity beside another, or of a NaN to the power of zero, no tensor's own special values show.
    """
    count = min(MEETINGS, together[0].numel() // 16)
    places = torch.randint(together[0].numel(), (count,), generator=generator, device=generator.device)
    kinds = together[0].new_tensor([math.inf, -math.inf, math.nan, -0.0, 0.0, 1.0])
    for each in together:
        chosen = torch.randint(len(kinds), (count,), generator=generator, device=generator.device)
        each.view(-1)[places] = kinds[chosen]


def plant_single(drawn: torch.Tensor, generator: torch.Generator, op_class: OpClass) -> None:
    """Put NaN in a few places of a contiguous tensor, within one line along its first axis: the others stay clean.

    For pointwise operations it is a NaN and either infinity. Who looks at some elements finds none of so few, and takes
    the path for ordinary numbers.
    """
    line = drawn[below(drawn.shape[0], generator)] if drawn.ndim > 1 else drawn
    places = torch.randint(line.numel(), (SINGLES,), generator=generator, device=generator.device)
    values = torch.full((SINGLES,), math.nan, dtype=drawn.dtype)
    if op_class == "elementwise":
        values[1:] = values.new_tensor([math.inf, -math.inf])
    line.view(-1)[places] = _nan_of_each_kind(values).to(drawn.device)


def _nan_of_each_kind(values: torch.Tensor) -> torch.Tensor:
    """NaN as arithmetic gives it, and as a literal has it, by turns, in place of those that are there.

    A processor's (0 / 0, infinity - infinity) has its sign set: who orders by bits finds it below all numbers. So have
    every second one, the first among them. A GPU's has ones in all other bits: who rounds by adding to the bits carries
    it over into a zero.
    """
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[torch.finfo(values.dtype).bits // 8]
    literal = torch.tensor([math.nan], dtype=values.dtype).view(bits)
    ends = torch.iinfo(bits)
    kinds = torch.cat([literal | ends.min, literal.new_tensor([ends.max]), literal | ends.min, literal])
    places = values.isnan().nonzero().squeeze(1)
    values[places] = kinds.view(values.dtype)[torch.arange(len(places)) % len(kinds)]
    return values
