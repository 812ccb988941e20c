"""Weights as training could have left them, whatever they are at initialisation.

What is zero or one there (biases, running means, a factor that begins at nothing) is so in every sample that a file
gives; a kernel that never reads it would be right on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from harness.checks.families import below, uniform_block
from harness.checks.stirring import BLOCK, NO_STRUCTURE, TOUCHED, exchange_few, tile
from harness.checks.structure import Structure

_GLANCE = 4096
FAR = 1 / 8
"""The share of a weight's elements that are `OCTAVES` or less away from the file's where it is asked for: a slope that
begins at 0.25 may pass 1."""
OCTAVES = 4.0
TINY = 1 / 100
"""A weight whose largest element is below this share of what is put where zeros were is one that training makes grow:
scales of residual branches begin at 1e-6 to 1e-4. Usual draws of matrices reach that size, and so do those of biases
behind up to 10,000 inputs."""
_MASKS = ({0.0, 1.0}, {0.0, -math.inf}, {1.0, -math.inf})


@dataclass(frozen=True)
class Habit:
    """What a weight shows at initialisation. `zero`: nothing, or the identity. `alike`: that, or one value.

    `tiny`: its largest magnitude, where that is far below what a trained weight has; else 0.
    """

    zero: bool = False
    alike: bool = False
    tiny: float = 0.0
    sparse: bool = False
    mask: bool = False
    structure: Structure = NO_STRUCTURE

    @classmethod
    def of(cls, given: torch.Tensor, *, buffer: bool) -> Habit:
        """The habit of a floating-point weight. Only buffers are masks; an identity is a beginning."""
        low, high = (float(end) for end in given.aminmax())
        zero = low == high == 0 or _is_identity(given)
        structure = Structure.of(given)
        if buffer and not zero and _is_mask(given):
            return cls(mask=True, structure=structure)
        return cls(
            zero=zero,
            alike=zero or low == high,
            tiny=largest if 0 < (largest := max(-low, high)) < TINY * _size_of_a_zero(given) else 0.0,
            sparse=not zero and not bool(given.all()),
            structure=structure,
        )


class Trained:
    """Other values of each weight, drawn again and again.

    `weights` are the file's own, by their names. `keeps_sign` are those whose signs must stay; where `tame` is set the
    reference has no results on anything but the file's own values times factors. Of those that begin `tiny`
    `keeps_size` have to stay so; of those that show a structure `keeps_structure` have to keep it. While `probed`,
    single numbers that may be negative are, of several one is at any time, and all that may grow have grown.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], buffers: Iterable[str]) -> None:
        self._weights, held = weights, set(buffers)
        self.habits = {
            name: Habit.of(weight, buffer=name in held)
            for name, weight in weights.items()
            if weight.is_floating_point() and weight.numel()
        }
        self.keeps_sign: set[str] = set()
        self.keeps_size: set[str] = set()
        self.keeps_structure: set[str] = set()
        self.tame = self.probed = False

    @property
    def signed(self) -> tuple[str, ...]:
        """Names of the weights that have signs, which may be other ones: parameters and buffers alike, but no masks."""
        return tuple(name for name, habit in self.habits.items() if not habit.mask)

    @property
    def tiny(self) -> tuple[str, ...]:
        """Names of the weights that begin far below the size of trained ones, but not at zero."""
        return tuple(name for name, habit in self.habits.items() if habit.tiny)

    @property
    def structured(self) -> tuple[str, ...]:
        """Names of the weights that begin as triangles, symmetric or diagonal, masks among them."""
        return tuple(name for name, habit in self.habits.items() if habit.structure.shaped)

    def turns(self, name: str) -> bool:
        """Whether a weight's signs are other ones in each draw, and in each timed call."""
        return name in self.signed and not self.tame and name not in self.keeps_sign

    def draw(
        self, name: str, generator: torch.Generator, *, far: bool = False, partly: bool = False, timed: bool = False
    ) -> torch.Tensor:
        """A weight's values of another training run; integers, and whatever has no elements, as they are.

        With `far` some elements are up to 16 times as large, the largest of several all of that. With `partly`
        training has not reached the first of those that began alike, or the last, in every second draw. What begins
        tiny is as large as a trained weight where `timed`, and in half of the other draws; else of a size between.
        Triangles and symmetry stay where `timed`, as the file shows them. Of what is sparse every second other draw
        is not.
        """
        given, habit = self._weights[name], self.habits.get(name)
        if habit is None:
            return given
        structure = self._structure(name, timed=timed)
        if habit.mask:
            return given if self.tame or structure.shaped else _shuffled(given, generator)
        moved = _factors(given, generator).mul_(given)
        if self.tame:
            return moved
        if habit.zero and not structure.shaped:
            moved = _factors(given, generator).mul_(_size_of_a_zero(given))
        elif habit.sparse and not structure.shaped:
            moved = self._sparse(moved, generator, timed=timed)
        if habit.tiny and name not in self.keeps_size:
            share = 1.0 if timed or self.probed else _share_of_growth(generator)
            moved = moved.div_(habit.tiny**share).mul_(_size_of_a_zero(given) ** share)
        if far:
            moved = moved.mul_(_growth(moved, generator))
        if self.turns(name):
            moved = moved.mul_(_signs(given, generator, one_negative=self.probed or given.numel() > 1))
        if partly and habit.alike and given.numel() > 1:
            _hold_back(moved, given, generator)
        return structure.keep(moved)

    def _structure(self, name: str, *, timed: bool) -> Structure:
        """What a draw keeps of what a weight shows. An identity is a beginning, in timed calls, too."""
        habit = self.habits[name]
        return habit.structure if name in self.keeps_structure or (timed and not habit.zero) else NO_STRUCTURE

    def _sparse(self, moved: torch.Tensor, generator: torch.Generator, *, timed: bool) -> torch.Tensor:
        """With its zeros elsewhere, or in every second draw with none."""
        if not timed and (self.probed or below(2, generator)):
            filling = _factors(moved, generator).mul_(_size_of_a_zero(moved))
            return torch.where(moved == 0, filling, moved)
        return moved.view(-1).roll(below(moved.numel(), generator)).view(moved.shape)

    def elsewhere(self, name: str, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Drawn values of a weight with its zeros in other places, or its mask's columns; others as they are."""
        habit = self._patterned(name)
        if habit is None:
            return drawn
        if habit.mask:
            return drawn.roll(1 + below(drawn.shape[-1] - 1, generator), -1)
        return drawn.reshape(-1).roll(1 + below(drawn.numel() - 1, generator)).view(drawn.shape)

    def exchange(self, name: str, view: torch.Tensor) -> None:
        """The same in a few places alone, in place. Each row of a mask shows as many as before."""
        habit = self._patterned(name)
        if habit and habit.mask:
            rows = view.shape[:-1]
            count = max(1, min(TOUCHED, rows.numel() // 8))
            at = tuple(torch.randint(extent, (count,), device=view.device) for extent in rows)
            view[at] = view[at].roll(1, -1)
        elif habit:
            exchange_few(view)

    def _patterned(self, name: str) -> Habit | None:
        """What is known of a weight whose zeros may be anywhere; None for others."""
        habit = self.habits.get(name)
        if self.tame or habit is None or not habit.structure.empty:
            return None
        return habit if habit.sparse or habit.mask else None


def _size_of_a_zero(given: torch.Tensor) -> float:
    """Of a matrix such that its products with vectors keep their size, about; else 1."""
    return 1.0 if given.ndim < 2 else 1.0 / math.sqrt(max(1, given.numel() // given.shape[0]))


def _factors(given: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers of [0.5, 1.5), across 1."""
    factor = torch.empty(given.shape, dtype=given.dtype, device=generator.device)
    tile(factor, uniform_block(min(given.numel(), BLOCK), generator).add_(0.5))
    return factor


def _share_of_growth(generator: torch.Generator) -> float:
    """All of it in half of the draws, else a share of its octaves: no size between is one that no draw has."""
    return min(1.0, 2.0 * float(uniform_block(1, generator)))


def _growth(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """1 in most places, in some others up to 2**`OCTAVES`: so much where the largest of several lies, for a table of
    usual gates ends far below that in every draw. A single number stays as it is in some."""
    growth = torch.empty(drawn.shape, dtype=drawn.dtype, device=generator.device)
    count = min(drawn.numel(), BLOCK)
    octaves = uniform_block(count, generator).mul_(OCTAVES)
    chosen = uniform_block(count, generator) < FAR
    chosen[below(count, generator)] |= bool(below(2, generator))
    tile(growth, octaves.mul_(chosen).exp2_())
    if count > 1:
        growth.view(-1)[drawn.reshape(-1)[:count].abs().argmax()] = 2.0**OCTAVES
    return growth


def _hold_back(moved: torch.Tensor, given: torch.Tensor, generator: torch.Generator) -> None:
    """Give up to a half of the elements, at the beginning or at the end, what they were at first; in every second draw.

    So many stay at zero or one where an activation never lets a gradient through.
    """
    turn, count = below(4, generator), below(given.numel() // 2 + 1, generator)
    if count and turn < 2:
        part = slice(count) if turn else slice(-count, None)
        moved.view(-1)[part] = given.reshape(-1)[part]


def _signs(given: torch.Tensor, generator: torch.Generator, *, one_negative: bool) -> torch.Tensor:
    sign = torch.empty(given.shape, dtype=given.dtype, device=generator.device)
    tile(sign, uniform_block(min(given.numel(), BLOCK), generator).sub_(0.4).sign_())
    if one_negative:
        sign.view(-1)[below(given.numel(), generator)] = -1.0
    return sign


def _shuffled(mask: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A mask with other places in each row, as many as before."""
    order = torch.randperm(mask.shape[-1], generator=generator, device=generator.device)
    return mask[..., order]


def _is_mask(given: torch.Tensor) -> bool:
    if given.ndim < 2 or not _values(given.reshape(-1)[:_GLANCE]) <= {0.0, 1.0, -math.inf}:
        return False
    return _values(given) in _MASKS


def _values(given: torch.Tensor) -> set[float]:
    return set(torch.unique(given).tolist())


def _is_identity(given: torch.Tensor) -> bool:
    square = given.ndim > 1 and given.shape[-1] == given.shape[-2]
    return square and bool((given == torch.eye(given.shape[-1], dtype=given.dtype, device=given.device)).all())
