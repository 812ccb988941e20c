"""Decisions that a last bit takes: what they decide on, and which other sides they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from harness.checks.choices import repeated
from harness.checks.float8 import FLOAT8, widened
from harness.trusted.ties.recorder import CHOOSING, ROWS, STEPPING, given_to

Tensors = list[torch.Tensor]
Order = tuple[bool, bool]
"""Of equal numbers, and of NaN among each other: do those with the highest index come first?"""

WINDOWS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d")
CHOICES = CHOOSING | dict.fromkeys((*WINDOWS, "cummax", "cummin"), 1)
"""Operations that choose elements, and which of their results the indices are."""
STEPS = frozenset((*STEPPING, "sgn"))
DRAWS = 16
"""Disturbances that find what else may be chosen, each with its opposite, as drawn and as large as may be: all of them
miss one in 100,000."""
MOST_SIDES = 8
MOST_EQUALS, MOST_NUMBERS = 64, 1 << 21
"""Of elements that may stand in one place of a row, and of all of them."""
MOST_UNITS = 4096.0
"""Of the last place: what is further from a tie is none, however far off PyTorch's operand is."""
EQUAL = 2.0**-40
"""Of float32's numbers none lie closer together, but for equals."""


@dataclass(frozen=True)
class Side:
    """Elements of an operation's result that may be others: where, and which. `size` is how many it has in all.

    Elements of one `unit` are two equals that change places.
    """

    name: str
    size: int
    at: torch.Tensor
    values: torch.Tensor
    unit: torch.Tensor


class Decision(NamedTuple):
    node: torch.fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def first(self) -> int:
        """The place of the operand that rounding is taken to have moved."""
        return next(place for place, each in enumerate(self.args) if has_fraction(each))

    @property
    def operands(self) -> tuple[torch.Tensor, ...]:
        return tuple(filter(has_fraction, self.args))

    @property
    def whole(self) -> bool:
        """Whether all it decides on are whole numbers: what a decision before made is moved by none after it."""
        finite = (each[torch.isfinite(each)] for each in self.operands)
        return all(bool((each == each.round()).all()) for each in finite)

    def moved(self, step: torch.Tensor | float) -> torch.Tensor:
        """What it is where its first operand is moved."""
        first = self.first
        args = (*self.args[:first], self.args[first] + step, *self.args[first + 1 :])
        return decided(self.node, self.node.target(*args, **self.kwargs))  # type: ignore[operator]


class Before(NamedTuple):
    """A decision as it was, how far rounding may have moved its operand, PyTorch's type of that, and the axis that its
    rows lie along."""

    own: torch.Tensor
    shift: torch.Tensor | float
    dtype: torch.dtype
    dim: int | None


def first_of_equals(decision: Decision, own: torch.Tensor, dtype: torch.dtype, order: Order) -> torch.Tensor:
    """The choice of an operation that takes equals of a type in an order of their indices."""
    given = given_to(decision.node.target, decision.args, decision.kwargs)
    operand, dim = operand_of(decision)
    operand, name = operand.to(dtype), name_of(decision.node)
    places = torch.arange(operand.shape[dim], device=operand.device)
    places = places.reshape(*(-1 if axis == dim else 1 for axis in range(operand.ndim))).expand(operand.shape)
    backwards = operand.isnan() & order[1] | ~operand.isnan() & order[0]
    turn = torch.where(backwards, -places, places).argsort(dim=dim, stable=True)
    turned = operand.gather(dim, turn)
    if name in ROWS:
        descending = bool(given["largest"] if name == "topk" else given["descending"])
        found = turned.sort(dim=dim, descending=descending, stable=True)[1].narrow(dim, 0, own.shape[dim])
    elif name in ("argmax", "max", "argmin", "min"):
        found = (turned.argmax if name.endswith("max") else turned.argmin)(dim, keepdim=True)
    else:
        return own
    return turn.gather(dim, found).reshape(own.shape)


def where_right(
    decision: Decision, own: torch.Tensor, other: torch.Tensor, shift: torch.Tensor | float
) -> torch.Tensor:
    """The other result as far as it is within float error of a decision's own, and no row names an element twice."""
    name = name_of(decision.node)
    if name in CHOICES:
        ours, theirs = (values_at(decision, each) for each in (own, other))
        width = shift if isinstance(shift, float) else values_at(decision, own, shift)
        near = (ours == theirs) | ((ours - theirs).abs() <= 2 * width) | (ours.isnan() & theirs.isnan())
        found = torch.where(near.reshape(own.shape), other, own)
        if name not in ROWS:
            return found
        _, dim = operand_of(decision)
        return torch.where(repeated(found, dim).any(dim, keepdim=True), own, found)
    if name in ("eq", "ne"):
        return torch.where((decision.args[0] - decision.args[1]).abs() <= shift, other, own)
    sides = torch.stack([decision.moved(shift), decision.moved(-shift), own])
    return torch.where((other >= sides.amin(0)) & (other <= sides.amax(0)), other, own)


def values_at(decision: Decision, index: torch.Tensor, source: torch.Tensor | None = None) -> torch.Tensor:
    """The elements that indices name, of the decision's operand or of another `source`."""
    operand, dim = operand_of(decision)
    source = operand if source is None else source.reshape(operand.shape)
    name = name_of(decision.node)
    if name in WINDOWS:
        axes = 3 if "3d" in name else 2
        return source.flatten(-axes).gather(-1, index.flatten(-axes)).reshape(index.shape)
    whole = index if index.ndim == operand.ndim else index.reshape(_with(index.shape, operand.ndim, dim))
    return source.gather(dim, whole).reshape(index.shape)


def _with(shape: torch.Size, ndim: int, dim: int) -> tuple[int, ...]:
    """A shape that lacks `dim`, with it."""
    return (*shape[:dim], 1, *shape[dim:]) if len(shape) == ndim - 1 else (1,) * ndim


def operand_of(decision: Decision) -> tuple[torch.Tensor, int]:
    """What is chosen from, and along which of its axes."""
    operand, given = decision.args[0], given_to(decision.node.target, decision.args, decision.kwargs)
    dim = given.get("dim", -1)
    operand = operand.reshape(-1) if dim is None or not operand.ndim else operand
    return operand, (dim or 0) % operand.ndim


def equal_sides(decision: Decision, own: torch.Tensor, shift: torch.Tensor | float) -> list[Side]:
    """Every other element that may stand in a row's place: those as large, or nearly. On each side pairs of them change
    places, on all sides together each with each."""
    operand, dim = operand_of(decision)
    index = own if own.ndim == operand.ndim else own.reshape(_with(own.shape, operand.ndim, dim))
    rows, index = (each.movedim(dim, -1) for each in (operand, index))
    rows = rows.double().nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).contiguous()
    width = 0.0 if isinstance(shift, float) else 2 * shift.reshape(operand.shape).movedim(dim, -1).gather(-1, index)
    ordered, places = rows.sort(dim=-1, stable=True)
    value, place = rows.gather(-1, index), places.argsort(dim=-1).gather(-1, index)
    first = torch.searchsorted(ordered, (value - width).contiguous())
    count = torch.searchsorted(ordered, (value + width).contiguous(), right=True) - first
    extent = rows.shape[-1]
    row = torch.arange(rows.numel() // extent, device=rows.device).reshape(*rows.shape[:-1], 1)
    most = min(int(count.max()), MOST_EQUALS, max(2, MOST_NUMBERS // index.numel()))
    found = []
    for number in range(most if most > 1 else 0):
        partner = first + (number - (place - first)).remainder(count)
        other = torch.where(number < count, places.gather(-1, partner), index)
        pair = (row * extent + torch.minimum(place, partner)) * extent + torch.maximum(place, partner)
        other, pair = (each.movedim(-1, dim).reshape(own.shape) for each in (other, pair))
        found.append(side_of(decision.node.name, own, other, pair if name_of(decision.node) in ROWS else None))
    return found


def side_of(name: str, own: torch.Tensor, other: torch.Tensor, unit: torch.Tensor | None = None) -> Side:
    at = (other != own).reshape(-1).nonzero().squeeze(1)
    return Side(name, own.numel(), at, other.reshape(-1)[at], at if unit is None else unit.reshape(-1)[at])


def drawn_sides(decision: Decision, shift: torch.Tensor | float, generator: torch.Generator) -> Tensors:
    """What else may be chosen in windows that overlap: by operands moved by chance."""
    operand = decision.args[0]
    if not operand.is_floating_point():
        return []
    decision = decision._replace(args=(operand.nan_to_num(1e300, 1e290, -1e290), *decision.args[1:]))
    step = decision.args[0].abs() * EQUAL if isinstance(shift, float) else shift
    step = torch.where(step > 0, step, EQUAL * torch.finfo(torch.float32).tiny).nan_to_num(0.0, 0.0, 0.0)
    step = torch.maximum(step, decision.args[0].abs() * EQUAL)
    drawn = (torch.rand(operand.shape, generator=generator, device=operand.device) * 2 - 1 for _ in range(DRAWS))
    return [decision.moved(step * way) for draw in drawn for way in (draw, -draw, draw.sign(), -draw.sign())]


def distinct(own: torch.Tensor, others: Tensors) -> Tensors:
    """Few tensors that have, among them, every other value of each element."""
    found: Tensors = []
    for other in others:
        new = other != own
        for known in found:
            new &= other != known
        for known in found:
            free = new & (known == own)
            known[free] = other[free]
            new &= ~free
        if new.any() and len(found) < MOST_SIDES:
            found.append(torch.where(new, other, own))
    return found


def decides(node: torch.fx.Node) -> bool:
    name = name_of(node)
    if name in CHOICES:  # the largest of two tensors, or of all elements, is no choice
        return len(node.target._schema.returns) > 1 or CHOICES[name] == 0  # type: ignore[union-attr]
    if name == "_to_copy" and node.kwargs.get("dtype") in FLOAT8:
        return True
    return name in STEPS or (name == "div" and node.kwargs.get("rounding_mode") is not None)


def decided(node: torch.fx.Node, result: Any) -> torch.Tensor:
    """The indices or the flags of a decision's results."""
    return widened(result[CHOICES.get(name_of(node), 0)] if isinstance(result, tuple) else result)


def has_fraction(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def name_of(node: torch.fx.Node) -> str:
    return node.target._opname if isinstance(node.target, torch._ops.OpOverload) else ""
