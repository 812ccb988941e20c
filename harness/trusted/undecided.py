"""Where a last bit decides what a forward or a backward does: comparisons, steps and choices, and both of their sides.

Which element of a window is the largest, and on which side of zero a sum lies, is known to within float error only. A
gradient jumps there from one element to another: by the other decision it is far from PyTorch's, and as right. So the
computation is traced into single operations, and each such decision gets shares: 0 is the float64 oracle's own side, 1
another one. What the results are by any shares can be computed, and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from harness.trusted.facts.tracing import backward_parts
from harness.trusted.observed import CHOOSING, STEPPING, shift_of
from harness.trusted.open_decisions import followed, opened

Tensors = list[torch.Tensor]

CHOICES = {name: place for name, place in CHOOSING.items() if place} | dict.fromkeys(
    ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d", "cummax",
     "cummin"), 1)  # fmt: skip
"""Operations that choose elements, and which of their results the indices are."""
STEPS = frozenset((*STEPPING, "sgn"))
DRAWS = 16
"""Disturbances that find what else may be chosen, each with its opposite, as drawn and as large as may be: all of them
miss one in 100,000."""
MOST_SIDES = 8
MOST_UNITS = 4096.0
"""Of the last place: what is further from a tie is none, however far off PyTorch's operand is."""


@dataclass(frozen=True)
class Side:
    """Elements of an operation's result that may be others: where, and which. `size` is how many it has in all."""

    name: str
    size: int
    at: torch.Tensor
    values: torch.Tensor


class _Decision(NamedTuple):
    node: torch.fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def first(self) -> int:
        """The place of the operand that rounding is taken to have moved."""
        return next(place for place, each in enumerate(self.args) if _has_fraction(each))

    @property
    def operands(self) -> tuple[torch.Tensor, ...]:
        return tuple(filter(_has_fraction, self.args))


class Undecided:
    """A function of tensors in float64, and the decisions in it that rounding may have taken otherwise.

    `rounded` is the same function as PyTorch computes it, of the same operands in their own types. Raises what tracing
    raises; `RuntimeError` where the two are not the same operations.
    """

    def __init__(
        self,
        exact: Callable[..., Tensors], operands: Tensors,
        rounded: Callable[..., Tensors], given: Tensors, tolerance: float,
    ) -> None:  # fmt: skip
        self._module, self._operands = _traced(exact, operands), operands
        self.sides: list[Side] = []
        wide, narrow = _Watched(self._module), _Watched(_traced(rounded, given))
        with torch.no_grad():
            self.own: Tensors = wide.run(*operands)
            narrow.run(*given)
            if [_name(each.node) for each in wide.seen] != [_name(each.node) for each in narrow.seen]:
                raise RuntimeError("in float64 other decisions are taken")
            generator = torch.Generator(operands[0].device).manual_seed(1)
            for ours, theirs in zip(wide.seen, narrow.seen, strict=True):
                shift = shift_of(ours.operands, theirs.operands, tolerance, MOST_UNITS)
                self.sides += [] if shift is None else _sides(ours, shift, generator)

    def __call__(self, shares: torch.Tensor) -> Tensors:
        """The results by the shares of all sides' elements, one after the other."""
        by_name: dict[str, list[tuple[torch.Tensor, ...]]] = {}
        for side, share in zip(self.sides, self._split(shares), strict=True):
            by_name.setdefault(side.name, []).append((side.at, side.values, share))
        return [*_Shared(self._module, by_name).run(*self._operands)]

    def even(self) -> torch.Tensor:
        """The same share for each of an element's sides: where two decisions act together, neither alone does."""
        totals: dict[str, torch.Tensor] = {}
        for side in self.sides:
            total = totals.setdefault(side.name, self._operands[0].new_ones(side.size, dtype=torch.float64))
            total[side.at] += 1
        return torch.cat([1 / totals[side.name][side.at] for side in self.sides])

    def keep(self, which: torch.Tensor) -> None:
        """Forget the sides' other elements."""
        kept = (
            Side(side.name, side.size, side.at[part], side.values[part])
            for side, part in zip(self.sides, self._split(which), strict=True)
        )
        self.sides = [side for side in kept if side.at.numel()]

    def _split(self, shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split_with_sizes(shares, [side.at.numel() for side in self.sides])


def _traced(function: Callable[..., Tensors], operands: Tensors) -> torch.fx.GraphModule:
    """A function as single operations without side effects. Where a rectified number is compared, the one before is:
    it says how far from a tie that was."""
    module = make_fx(functionalize(make_fx(function, decomposition_table=backward_parts())(*operands)))(*operands)
    for node in module.graph.nodes:
        if _name(node) in ("detach", "alias"):
            node.replace_all_uses_with(node.args[0])
    for node in module.graph.nodes:
        source = node.args[0] if _name(node) in ("le", "gt") and node.args[1] == 0 else None
        if isinstance(source, torch.fx.Node) and _name(source) == "relu":
            node.args = (source.args[0], *node.args[1:])
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


class _Watched(torch.fx.Interpreter):
    """Notes the operands of each decision."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.seen: list[_Decision] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        """Called for each operation."""
        name = _name(n)
        if name in CHOICES or name in STEPS or (name == "div" and n.kwargs.get("rounding_mode") is not None):
            decision = _Decision(n, *self.fetch_args_kwargs_from_env(n))
            self.seen += [decision] if decision.operands else []
        return super().run_node(n)


class _Shared(torch.fx.Interpreter):
    """The same with shares of each decision's sides: places, values and shares by the operation's name."""

    def __init__(self, module: torch.fx.GraphModule, sides: dict[str, list[Any]]) -> None:
        super().__init__(module)
        self._sides = sides

    def run_node(self, n: torch.fx.Node) -> Any:
        """Called for each operation."""
        if n.op != "call_function":
            found = super().run_node(n)
            return found.detach() if n.op == "get_attr" else found  # a weight has a history of its own
        result = followed(n.target, _name(n), *self.fetch_args_kwargs_from_env(n))
        if n.name not in self._sides:
            return result
        place = CHOICES.get(_name(n))
        if place is None:
            return opened(result, self._sides[n.name])
        return tuple(opened(each, self._sides[n.name]) if at == place else each for at, each in enumerate(result))


def _sides(decision: _Decision, shift: torch.Tensor, generator: torch.Generator) -> list[Side]:
    """What a decision is where its first operand is moved by so much, or by less."""
    node, args, kwargs = decision
    place, first = CHOICES.get(_name(node)), decision.first

    def moved(step: torch.Tensor) -> torch.Tensor:
        result = node.target(*args[:first], args[first] + step, *args[first + 1 :], **kwargs)  # type: ignore[operator]
        return result if place is None else result[place]  # type: ignore[no-any-return]

    own = moved(torch.zeros_like(shift))
    if _name(node) in ("eq", "ne"):
        others = [own ^ ((args[0] - args[1]).abs() <= shift)]
    elif place is None:
        others = [moved(shift), moved(-shift)]
    else:
        drawn = (torch.rand(shift.shape, generator=generator, device=shift.device) * 2 - 1 for _ in range(DRAWS))
        others = [moved(shift * way) for draw in drawn for way in (draw, -draw, draw.sign(), -draw.sign())]
    found = []
    for other in _distinct(own, others):
        at = (other != own).reshape(-1).nonzero().squeeze(1)
        found.append(Side(node.name, own.numel(), at, other.reshape(-1)[at]))
    return found


def _distinct(own: torch.Tensor, others: Tensors) -> Tensors:
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


def _has_fraction(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _name(node: torch.fx.Node) -> str:
    return node.target._opname if isinstance(node.target, torch._ops.OpOverload) else ""
