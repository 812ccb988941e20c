"""Integers and masks: what an argument shows in all draws of its file, and how it may vary.

What draws show may be chance: distinct numbers repeat, constant ones move, lengths shrink, and values next to the range
are planted (`harness.checks.variations`), where the reference takes that. Whether it does is for the caller to try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

Kind = Literal[
    "values",
    "flags",
    "triangle",
    "prefix",
    "suffix",
    "one_hot",
    "positions",
    "distinct",
    "ascending",
    "full",
    "ones",
    "fixed",
]
Way = Literal[
    "moved", "redrawn", "repeated", "reversed", "nudged", "reflected", "respread", "recut", "flipped", "set",
    "cleared", "lowered", "few", "renewed", "rows set", "rows cleared", "doubled", "merged", "shortened", "emptied",
    "raised", "counted", "due", "switched", "planted", "alone", "placed", "saturated", "apart",
]  # fmt: skip

LOOKED_AT = 1 << 20
"""Elements, in whole rows, that tell a kind; one long row is looked at as a whole."""
PREFIX = 1 << 12
"""Elements of a long row that mostly tell at once that it repeats values."""

ALIKE = 1 / 8
"""Ends that differ by no more than this share of the whole range are the same but for chance."""


@dataclass(frozen=True)
class Shown:
    """What a tensor shows in every draw. `low` and `high` hold for each slice along `axis`, and broadcast to it.

    `step` is how much more than its predecessor an element at least is, where it is "ascending". `extras` are values
    outside of the range that may be planted. What names places of a table has the table's `extent`; `apart` if no
    two may be the same. `reach` are the ends of what its type holds, as far as callers use that. A counter counts up to
    its `turn`. What is `loose` need not ascend. One is `beside` another that it is compared with by their difference.
    """

    kind: Kind
    axis: int
    low: torch.Tensor
    high: torch.Tensor
    step: int = 0
    extras: tuple[int, ...] = ()
    extent: int = 0
    apart: bool = False
    reach: tuple[int, int] | None = None
    turn: int = 0
    loose: bool = False
    beside: bool = False

    @property
    def ways(self) -> tuple[Way, ...]:
        """Variations to try, as trials take turns at them."""
        more: tuple[tuple[Way, bool], ...] = (
            ("placed", bool(self.extent)),
            ("redrawn", self.loose and self.kind == "ascending"),
            ("apart", self.beside),
            ("saturated", bool(self.reach)),
            ("alone", self.kind == "values" or bool(self.extent)),
            ("planted", bool(self.extras)),
        )
        usual = [way for way in WAYS[self.kind] if way not in COUNTED or not self.extent]
        ways = [*usual, *(way for way, shown in more if shown)]
        return tuple(ways) if self.low.numel() > 1 else tuple(way for way in ways if way not in BY_ROWS)

    @property
    def uniform(self) -> bool:
        """Whether all slices have about one range."""
        ends = [end.long() for end in (self.low, self.high)]
        span = int(ends[1].max()) - int(ends[0].min())
        return all(int(end.max()) - int(end.min()) <= span * ALIKE for end in ends)

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
    "one_hot": ("moved", "reversed", "flipped", "cleared", "rows cleared"),
    "positions": ("moved", "reversed", "doubled"),
    "distinct": ("moved", "reversed", "doubled"),
    "ascending": ("nudged", "reflected", "respread", "merged"),
    "full": ("lowered", "shortened", "emptied"),
    "ones": ("flipped", "cleared", "rows cleared", "raised", "counted", "due"),
    "fixed": ("switched", "raised", "counted", "due"),
}
EQUALS: dict[Kind, frozenset[Way]] = {
    "one_hot": frozenset({"flipped", "cleared", "rows cleared"}),
    "positions": frozenset({"doubled"}),
    "distinct": frozenset({"doubled"}),
    "ascending": frozenset({"merged"}),
}
"""Variations that make equals of what is not equal in the file."""
BEYOND: frozenset[Way] = frozenset({"raised", "counted", "due", "switched", "saturated"})
"""Variations that leave the range that the file shows."""
COUNTED: frozenset[Way] = frozenset({"counted", "due"})
COMPARED = 16
"""Numbers that a module compares an argument with, of which each is tried on the reference."""
MANY = 5040
"""A counter long after its start: what 1 to 10 and 12, 14, 15, 16 divide, so that whatever comes round is due."""
FAR = 1 << 40
"""What keys and hashes of 64 bits reach, on either side of zero."""
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
    "ones": ("renewed", "few", "raised"),
    "fixed": ("few",),
}
BY_ROWS: frozenset[Way] = frozenset({"rows set", "rows cleared"})
"""Nothing of a row is hidden, or all of it. Not in timed calls: what they find is like what the file shows. Of a single
row nothing would be left."""


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """The elements that are there: of what is expanded one along that axis, and one axis at least."""
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and extent > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor if tensor.ndim else tensor.view(1)


def show(draws: Sequence[torch.Tensor], *, mask: bool = True) -> Shown:
    """What draws of one integer or bool tensor, all of one shape, have in common.

    Ones and zeros that are no `mask` are numbers that happen to be small, as codes of weights are.
    """
    bases = [base_of(draw) for draw in draws]
    kind = _kind(bases)
    if not mask and bases[0].dtype != torch.bool and kind in _MASKS:
        kind = "values"
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
    """A mask that hides nothing, lengths that are all full. What is 0 everywhere is no mask but where it is bool; what
    is 1 everywhere may be one, a length, or the number of a step."""
    if dtype == torch.bool:
        return "flags"
    return "ones" if value == 1 else "full" if value > 1 else "fixed"


def candidates(
    shown: Shown, dtype: torch.dtype, own: Iterable[int], compared: Iterable[int] = (), *, beyond: bool
) -> tuple[int, ...]:
    """Values that might be legal and are rare or missing in what a tensor shows: those that the module has `compared`
    it with, and outside of its range 0, 1, the next one `beyond`, and the module's `own`.

    Whoever indexes with what is shown may do so with 0 and 1 where that is not above it. What is compared may be no
    index, and is tried only where those `beyond` are.
    """
    if shown.kind not in ("values", "positions", "distinct", "full", "fixed"):
        return ()
    low, high = int(shown.low.min()), int(shown.high.max())
    tried = [*own, *(value for value in (0, 1) if value <= high), *([high + 1] if beyond else [])]
    limits = torch.iinfo(dtype)
    rare = [v for v in tried if not low <= v <= high] + [*sorted(compared)][:COMPARED] * beyond
    return tuple(dict.fromkeys(v for v in rare if limits.min <= v <= limits.max))


def reach_of(shown: Shown, dtype: torch.dtype, *, computed: bool) -> tuple[int, int] | None:
    """What numbers of 8 and 16 bits hold: samples, pixels and codes take all of it. Those of 64 bits only `FAR`, where
    they are `computed` with; those of 32 bits stay in the file's range, since products of theirs wrap around."""
    if shown.kind != "values":
        return None
    if dtype in (torch.uint8, torch.int8, torch.int16):
        return torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return (-FAR, FAR) if dtype == torch.int64 and computed else None


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
_MASKS = ("flags", *(kind for kind, _ in _TESTS_OF_FLAGS))
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
