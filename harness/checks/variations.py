"""Other values of the kind that an argument of integers or flags shows. All functions work on `base_of` a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from harness.checks.discrete import MANY, Kind, Shown, Way
from harness.checks.families import below

BLOCK = (1 << 20) + 7
"""Numbers drawn before they repeat: drawing 16 million takes a tenth of a second."""
FLIPPED = 1 / 8
FEW = 16
SHARE = 1 / 4
RAISED = 6
STRETCH = 8
"""Neighbours at one end of a type: sums of theirs leave narrow accumulators."""
SWAPPED: frozenset[Kind] = frozenset({"values", "flags", "ones", "one_hot", "positions", "distinct"})
"""Kinds whose slices may change places."""


def vary(given: torch.Tensor, shown: Shown, way: Way, generator: torch.Generator) -> torch.Tensor:
    """Other values of the kind that `shown` tells, from a base's own, in its shape and type."""
    return _VARIATIONS[way](given, shown, generator).to(given.dtype)


def swap_few(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """A few slices along the axis in each other's places, in place; nothing where the kind does not allow that."""
    extent = given.shape[shown.axis]
    if shown.kind in SWAPPED:
        count = 2 * max(1, min(FEW, extent // 8))
        places = torch.randint(extent, (count,), generator=generator, device=given.device)
        places = torch.unique(places)
        given.index_copy_(shown.axis, places, given.index_select(shown.axis, places.flip(0)))
    return given


def plant_apart(
    given: torch.Tensor, other: torch.Tensor, numbers: Sequence[int], generator: torch.Generator
) -> torch.Tensor:
    """In a few places of the other argument's numbers as much more as the module compares their difference with."""
    values = given.clone(memory_format=torch.contiguous_format)
    for number in numbers:
        at = _some_places(given.shape, generator)
        values[at] = (other[at] + number).to(given.dtype)
    return values


def change_few(given: torch.Tensor, shown: Shown, way: Way, generator: torch.Generator) -> torch.Tensor:
    """A few elements, or rows, as a timed call's variation might have them, in place; all others stay."""
    swap_few(given, shown, generator)
    if way == "renewed":
        return _renew_few(given, shown, generator)
    if way != "moved":
        changed = vary(given, shown, way, generator)
        if way == "few":
            return given.copy_(changed)
        at = _some_places(given.shape[:-1] if way == "recut" else given.shape, generator)
        given[at] = changed[at]
    return given


def _some_places(shape: torch.Size, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Indices of up to `FEW` elements; of a shape without axes none, which is its one element."""
    count = max(1, min(FEW, shape.numel() // 8))
    drawn = torch.randint(shape.numel(), (count,), generator=generator, device=generator.device)
    return torch.unravel_index(drawn, shape) if shape else ()


def _renew_few(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """The other flag, or any value of the range, in a few places."""
    at = _some_places(given.shape, generator)
    if shown.kind in ("flags", "ones"):
        given[at] = (~given[at].bool()).to(given.dtype)
    else:
        low, high = (ends.expand(given.shape)[at] for ends in (shown.low, shown.high))
        given[at] = _between(low, high, low.shape, generator).to(given.dtype)
    return given


def _uniform(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Numbers of [0, 1) in float64, repeating after a block."""
    count = shape.numel()
    block = torch.rand(min(count, BLOCK), generator=generator, device=generator.device, dtype=torch.float64)
    return block.repeat(-(-count // max(1, block.numel())))[:count].view(shape)


def _between(low: torch.Tensor, high: torch.Tensor, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Uniform integers of [low, high], both included."""
    drawn = (_uniform(shape, generator) * (high.double() - low.double() + 1)).floor_().long() + low.long()
    return torch.minimum(drawn, high.long())


def _moved(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Rolled along the axis, and a few swapped: no two calls see the same, if there are more than a few."""
    extent = given.shape[shown.axis]
    places = int(torch.randint(1, max(2, extent), (1,), generator=generator, device=generator.device))
    return swap_few(given.roll(places, shown.axis), shown, generator)


def _renewed(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Moved, and a few of another value: what follows from the values in whatever order is another one, too.

    Where slices have about one range all are rolled as one row, and numbers turned within the range, so that no row is
    one that was there before.
    """
    if not shown.uniform:
        return _renew_few(_moved(given, shown, generator), shown, generator)
    places = 1 + below(given.numel() - 1, generator)
    places += int(places % given.shape[-1] == 0)
    rolled = given.reshape(-1).roll(places).view(given.shape)
    if shown.kind == "values":
        low, high = int(shown.low.min()), int(shown.high.max())
        turned = rolled.long() + below(high - low + 1, generator)
        turned = torch.where(turned > high, turned - (high - low + 1), turned)
        rolled = torch.minimum(torch.maximum(turned, shown.low), shown.high).to(given.dtype)
    return _renew_few(swap_few(rolled, shown, generator), shown, generator)


def _redrawn(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return _between(shown.low, shown.high, given.shape, generator)


def _repeated(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """The lowest, the middle and the highest value alone: collisions, and both ends of the range."""
    low, span = shown.low.long(), shown.high.long() - shown.low.long()
    return low + (_uniform(given.shape, generator) * 3).long() * span // 2


def _reversed(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return given.flip(shown.axis)


def _nudged(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Every second inner element anywhere between its neighbours; the ends of a row stay."""
    values = given.long().clone()
    first = 1 + int(torch.randint(2, (1,), generator=generator, device=generator.device))
    first = min(first, values.shape[-1] - 2)
    inner = values[..., first:-1:2]
    low, high = values[..., first - 1 : -2 : 2] + shown.step, values[..., first + 1 :: 2] - shown.step
    inner.copy_(_between(low, high, inner.shape, generator))
    return values


def _reflected(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Small steps where large ones were; each row between the same ends."""
    values = given.long()
    return values[..., :1] + values[..., -1:] - values.flip(-1)


def _respread(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Anywhere between the row's ends, in order."""
    values, extent = given.long(), given.shape[-1]
    first, last = values[..., :1], values[..., -1:]
    drawn = _between(first, last - shown.step * (extent - 1), given.shape, generator).sort(-1).values
    drawn += shown.step * torch.arange(extent, device=given.device)
    return torch.cat([first, drawn[..., 1:-1], last], -1)


def _recut(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Rows cut off elsewhere, between the shortest and the longest that are there."""
    lengths = given.long().sum(-1, keepdim=True)
    low, high = lengths.min(), lengths.max()
    low = torch.where(low < high, low, torch.clamp(low // 2, min=1))
    drawn = _between(low, high, lengths.shape, generator)
    places = torch.arange(given.shape[-1], device=given.device)
    return places < drawn if shown.kind == "prefix" else places >= given.shape[-1] - drawn


def _chosen(given: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _uniform(given.shape, generator) < FLIPPED


def _flipped(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return given.bool() ^ _chosen(given, generator)


def _set(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return given.bool() | _chosen(given, generator)


def _cleared(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return given.bool() & ~_chosen(given, generator)


def _some_rows(given: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A quarter of the rows along the last axis, one at least."""
    rows = given.shape[:-1].numel()
    chosen = torch.randperm(rows, generator=generator, device=generator.device) < max(1, rows // 4)
    return chosen.view(*given.shape[:-1], 1)


def _rows_set(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Some rows true as a whole: where that hides, nothing of them is left."""
    return given.bool() | _some_rows(given, generator)


def _rows_cleared(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return given.bool() & ~_some_rows(given, generator)


def _lowered(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Between a half of the one value and itself: lengths that are all full, say."""
    return _between((shown.high + 1) // 2, shown.high, given.shape, generator)


def _doubled(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """A quarter of the elements as their neighbour in the row: what was distinct repeats."""
    values = given.long()
    return torch.where(_uniform(given.shape, generator) < SHARE, values.roll(1, -1), values)


def _merged(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """A quarter of the inner elements, one at least, as their predecessors, in order: segments of no length."""
    values, chosen = given.long(), _uniform(given.shape, generator) < SHARE
    chosen[..., 1 + below(given.shape[-1] - 2, generator)] = True
    chosen[..., 0] = chosen[..., -1] = False
    return values.masked_fill(chosen, torch.iinfo(torch.int64).min).cummax(-1).values


def _shortened(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    return _between(torch.ones_like(shown.high), shown.high, given.shape, generator)


def _emptied(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Anywhere from zero, with zeros in a quarter of the places, one at least."""
    drawn, zero = _between(shown.high * 0, shown.high, given.shape, generator), _uniform(given.shape, generator) < SHARE
    zero.view(-1)[below(given.numel(), generator)] = True
    return drawn.masked_fill(zero, 0)


def _raised(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Small numbers above the one value that is there."""
    low = shown.high + 1
    return _between(low, low + RAISED, given.shape, generator)


def _counted(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """As a counter stands where its turn has come, or after `MANY` steps, as far as the type counts."""
    return torch.full_like(given, min(shown.turn or MANY, torch.iinfo(given.dtype).max))


def _due(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """One step before that."""
    return _counted(given, shown, generator) - 1


def _switched(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Zeros and ones."""
    ones = _uniform(given.shape, generator) < 0.5
    ones.view(-1)[below(given.numel(), generator)] = True
    return ones


def _planted(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Each of the extra values in a few places, in one at least."""
    values = given.long().clone(memory_format=torch.contiguous_format)
    for extra in shown.extras:
        values[_some_places(given.shape, generator)] = extra
    return values


def _alone(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """One value throughout: all in one bin, all to one expert. Slices without a value in common have one each."""
    low, high = shown.low.long().max(), shown.high.long().min()
    ends = (low, high) if low <= high else (shown.low.long(), shown.high.long())
    share = below(BLOCK, generator) / BLOCK
    return (ends[0] + (share * (ends[1] - ends[0] + 1)).floor().long()).expand(given.shape)


def _placed(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Anywhere in the table but for an eighth that nothing names; no place twice where that would be ambiguous."""
    if shown.apart:
        places = torch.randperm(shown.extent, generator=generator, device=generator.device)
        return places[: given.numel()].view(given.shape)
    hole = max(shown.extent > 1, shown.extent // 8)
    places = (_uniform(given.shape, generator) * (shown.extent - hole)).long()
    return (places + below(shown.extent, generator)) % shown.extent


def _saturated(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """Anywhere within reach; a quarter at its upper end, a quarter at its lower, in stretches of eight."""
    assert shown.reach is not None
    low, high = (torch.tensor(end, device=given.device) for end in shown.reach)
    drawn = _between(low, high, given.shape, generator)
    at = _uniform(torch.Size([-(-given.numel() // STRETCH)]), generator).repeat_interleave(STRETCH)
    at = at[: given.numel()].view(given.shape)
    return torch.where(at < SHARE, high, torch.where(at > 1 - SHARE, low, drawn))


def _few(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    """The other flag in a few places; of a triangle in each row, but where nothing of its kind would be left there."""
    if shown.kind == "triangle":
        return _one_in_each_row(given.bool(), generator)
    flags = given.bool() if shown.kind != "fixed" else given != 0
    flags = flags.clone(memory_format=torch.contiguous_format)
    flat = flags.view(-1)
    count = max(1, min(FEW, flat.numel() // 8))
    places = torch.randint(flat.numel(), (count,), generator=generator, device=generator.device)
    flat[places] = ~flat[places]
    return flags if shown.kind != "fixed" else torch.where(flags == (given != 0), given.long(), flags.long())


def _one_in_each_row(flags: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    rows, extent = flags.shape[:-1], flags.shape[-1]
    places = torch.randint(extent, (*rows, 1), generator=generator, device=generator.device)
    found, held = flags.gather(-1, places), flags.sum(-1, keepdim=True)
    others = torch.where(found, held, extent - held) > 1
    return flags.scatter(-1, places, found ^ others)


_VARIATIONS: dict[Way, Callable[[torch.Tensor, Shown, torch.Generator], torch.Tensor]] = {
    "moved": _moved, "redrawn": _redrawn, "repeated": _repeated, "reversed": _reversed, "nudged": _nudged,
    "reflected": _reflected, "respread": _respread, "recut": _recut, "flipped": _flipped, "set": _set,
    "cleared": _cleared, "lowered": _lowered, "few": _few,
    "renewed": _renewed, "rows set": _rows_set, "rows cleared": _rows_cleared, "doubled": _doubled, "merged": _merged,
    "shortened": _shortened, "emptied": _emptied, "raised": _raised, "counted": _counted, "due": _due,
    "switched": _switched, "planted": _planted, "alone": _alone, "placed": _placed, "saturated": _saturated,
    "apart": lambda given, shown, generator: given,  # planted by the bench, which has the other argument, too
}  # fmt: skip
