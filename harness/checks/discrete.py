"""Integers and masks: what an argument shows in all draws of its file, and other values that show the same.

Only the file knows which integers are legal, so nothing leaves the range that it showed, order and distinctness are
kept, and whether the reference takes a variation is for its caller to try. All functions work on `base_of` a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

Kind = Literal[
    "values", "flags", "triangle", "prefix", "suffix", "one_hot", "positions", "distinct", "ascending", "full", "fixed"
]
Way = Literal[
    "moved", "redrawn", "repeated", "reversed", "nudged", "reflected", "respread", "recut", "flipped", "set",
    "cleared", "lowered", "few", "renewed", "rows set", "rows cleared",
]  # fmt: skip

LOOKED_AT = 1 << 20
"""Elements, in whole rows, that tell a kind; one long row is looked at as a whole."""
PREFIX = 1 << 12
"""Elements of a long row that mostly tell at once that it repeats values."""
BLOCK = (1 << 20) + 7
"""Numbers drawn before they repeat: drawing 16 million takes a tenth of a second."""
FLIPPED = 1 / 8
FEW = 16


@dataclass(frozen=True)
class Shown:
    """What a tensor shows in every draw. `low` and `high` hold for each slice along `axis`, and broadcast to it.

    `step` is how much more than its predecessor an element at least is, where it is "ascending".
    """

    kind: Kind
    axis: int
    low: torch.Tensor
    high: torch.Tensor
    step: int = 0

    @property
    def ways(self) -> tuple[Way, ...]:
        """Variations to try, as trials take turns at them."""
        ways = WAYS[self.kind]
        return ways if self.low.numel() > 1 else tuple(way for way in ways if way not in BY_ROWS)

    @property
    def timed(self) -> tuple[Way, ...]:
        """Variations for timed calls, the one preferred first: as cheap as a copy or two."""
        return TIMED[self.kind]


WAYS: dict[Kind, tuple[Way, ...]] = {
    "values": ("moved", "redrawn", "repeated"),
    "flags": ("flipped", "moved", "cleared", "set", "rows cleared", "rows set"),
    "triangle": ("flipped", "cleared", "set", "few", "rows cleared", "rows set"),
    "prefix": ("recut", "flipped", "cleared", "set", "rows cleared", "rows set"),
    "suffix": ("recut", "flipped", "cleared", "set", "rows cleared", "rows set"),
    "one_hot": ("moved", "reversed"),
    "positions": ("moved", "reversed"),
    "distinct": ("moved", "reversed"),
    "ascending": ("nudged", "reflected", "respread"),
    "full": ("lowered",),
    "fixed": (),
}
TIMED: dict[Kind, tuple[Way, ...]] = {
    "values": ("renewed", "moved", "redrawn"),
    "flags": ("renewed", "moved", "few"),
    "triangle": ("few",),
    "prefix": ("recut", "few"),
    "suffix": ("recut", "few"),
    "one_hot": ("moved",),
    "positions": ("moved",),
    "distinct": ("moved",),
    "ascending": ("nudged",),
    "full": ("lowered",),
    "fixed": (),
}
BY_ROWS: frozenset[Way] = frozenset({"rows set", "rows cleared"})
"""Nothing of a row is hidden, or all of it. Not in timed calls: what they find is like what the file shows. Of a single
row nothing would be left."""
SWAPPED: frozenset[Kind] = frozenset({"values", "flags", "one_hot", "positions", "distinct"})
"""Kinds whose slices may change places."""


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """The elements that are there: of what is expanded one along that axis, and one axis at least."""
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and extent > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor if tensor.ndim else tensor.view(1)


def show(draws: Sequence[torch.Tensor]) -> Shown:
    """What draws of one integer or bool tensor, all of one shape, have in common."""
    bases = [base_of(draw) for draw in draws]
    kind = _kind(bases)
    by_rows = kind in ("one_hot", "positions", "distinct", "ascending", "prefix", "suffix")
    shape = bases[0].shape
    axis = len(shape) - 1 if by_rows else max(range(len(shape)), key=lambda each: shape[each])
    lowest = torch.stack([_whole(base).amin(axis, keepdim=True) for base in bases]).amin(0)
    highest = torch.stack([_whole(base).amax(axis, keepdim=True) for base in bases]).amax(0)
    step = int(kind == "ascending" and all(bool((_steps(base) > 0).all()) for base in bases))
    return Shown(kind, axis, lowest, highest, step)


def _kind(bases: Sequence[torch.Tensor]) -> Kind:
    low, high = min(int(base.min()) for base in bases), max(int(base.max()) for base in bases)
    if low == high:
        return _kind_of_one_value(bases[0].dtype, low)
    tests = _TESTS_OF_FLAGS if (low, high) == (0, 1) else _TESTS_OF_NUMBERS
    found = (kind for kind, test in tests if all(map(test, bases)))
    return next(found, "flags" if (low, high) == (0, 1) and bases[0].numel() > 1 else "values")


def _kind_of_one_value(dtype: torch.dtype, value: int) -> Kind:
    """A mask that hides nothing, lengths that are all full. What is 0 everywhere is no mask but where it is bool."""
    if dtype == torch.bool or value == 1:
        return "flags"
    return "full" if value > 1 else "fixed"


def _is_triangle(base: torch.Tensor) -> bool:
    if base.ndim < 2 or base.shape[-1] != base.shape[-2] or base.shape[-1] < 2:
        return False
    ones = torch.ones(base.shape[-2:], dtype=torch.bool, device=base.device)
    shapes = [ones.tril(), ones.tril(-1), ones.triu(), ones.triu(1)]
    return any(bool((base.bool() == shape).all()) for shape in shapes)


def _is_one_hot(base: torch.Tensor) -> bool:
    rows = _rows(base)
    return rows.shape[-1] > 2 and bool((rows.long().sum(-1) == 1).all())


def _is_prefix(base: torch.Tensor) -> bool:
    return bool((_steps(base) <= 0).all())


def _is_suffix(base: torch.Tensor) -> bool:
    return bool((_steps(base) >= 0).all())


def _is_positions(base: torch.Tensor) -> bool:
    steps = _steps(base)
    return steps.numel() > 1 and (bool((steps == 1).all()) or bool((steps == -1).all()))


def _is_distinct(base: torch.Tensor) -> bool:
    rows = _rows(base)
    few = rows[:, :PREFIX]
    return rows.shape[-1] > 2 and _repeats_nothing(few) and (few.shape == rows.shape or _repeats_nothing(rows))


def _is_ascending(base: torch.Tensor) -> bool:
    return base.shape[-1] > 2 and bool((_steps(base) >= 0).all())


_TESTS_OF_FLAGS: tuple[tuple[Kind, Callable[[torch.Tensor], bool]], ...] = (
    ("triangle", _is_triangle),
    ("one_hot", _is_one_hot),
    ("prefix", _is_prefix),
    ("suffix", _is_suffix),
)
_TESTS_OF_NUMBERS: tuple[tuple[Kind, Callable[[torch.Tensor], bool]], ...] = (
    ("positions", _is_positions),
    ("ascending", _is_ascending),
    ("distinct", _is_distinct),
)


def _whole(base: torch.Tensor) -> torch.Tensor:
    """Bool has no arithmetic."""
    return base.byte() if base.dtype == torch.bool else base


def _rows(base: torch.Tensor) -> torch.Tensor:
    """Some rows along the last axis, evenly spread, as a matrix."""
    rows = base.reshape(-1, base.shape[-1])
    return rows[:: max(1, base.numel() // LOOKED_AT)]


def _steps(base: torch.Tensor) -> torch.Tensor:
    return _rows(base).long().diff(dim=-1)


def _repeats_nothing(rows: torch.Tensor) -> bool:
    return bool((rows.long().sort(-1).values.diff(dim=-1) > 0).all())


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
    if shown.kind == "flags":
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
    """Moved, and a few of another value: what follows from the values in whatever order is another one, too."""
    return _renew_few(_moved(given, shown, generator), shown, generator)


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


def _few(given: torch.Tensor, shown: Shown, generator: torch.Generator) -> torch.Tensor:
    flags = given.bool().clone(memory_format=torch.contiguous_format)
    flat = flags.view(-1)
    count = max(1, min(FEW, flat.numel() // 8))
    places = torch.randint(flat.numel(), (count,), generator=generator, device=generator.device)
    flat[places] = ~flat[places]
    return flags


_VARIATIONS: dict[Way, Callable[[torch.Tensor, Shown, torch.Generator], torch.Tensor]] = {
    "moved": _moved, "redrawn": _redrawn, "repeated": _repeated, "reversed": _reversed, "nudged": _nudged,
    "reflected": _reflected, "respread": _respread, "recut": _recut, "flipped": _flipped, "set": _set,
    "cleared": _cleared, "lowered": _lowered, "few": _few,
    "renewed": _renewed, "rows set": _rows_set, "rows cleared": _rows_cleared,
}  # fmt: skip
