"""Where a last bit decides what a forward or a backward does: comparisons, steps and choices, and all of their sides.

Which element of a window is the largest, and on which side of zero a sum lies, is known to within float error only;
which of several equals is chosen nobody says. A gradient jumps there from one element to another: by the other decision
it is far from PyTorch's, and as right. So the computation is traced into single operations. Each decision may be taken
by another of its sides: where that lies within float error of the oracle's own, and no row names an element twice, what
follows is right, whatever that is. To find the sides somebody took, they get shares between 0 (the oracle's own side)
and 1; what the results are by any shares can be computed, and differentiated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from harness.checks.float8 import widened
from harness.trusted.ties.decisions import (
    CHOICES,
    MOST_UNITS,
    Before,
    Decision,
    Order,
    Side,
    Tensors,
    decided,
    decides,
    distinct,
    drawn_sides,
    equal_sides,
    first_of_equals,
    has_fraction,
    name_of,
    operand_of,
    side_of,
    values_at,
    where_right,
)
from harness.trusted.ties.recorder import CHOOSING, ROWS, shift_of
from harness.trusted.ties.sides import Open, followed, opened

Mixed = list[torch.Tensor | Open]


class TieBreaks:
    """A function of tensors in float64, and the decisions in it that may have been taken otherwise.

    `rounded` is the same function as PyTorch computes it, of the same operands in their own types; `parts` are
    decompositions to trace through. Raises what tracing raises; `RuntimeError` where the two are not the same
    operations.
    """

    def __init__(
        self,
        exact: Callable[..., Tensors], operands: Tensors,
        rounded: Callable[..., Tensors], given: Tensors, tolerance: float,
        parts: Mapping[Any, Any],
    ) -> None:  # fmt: skip
        self._module, self._operands = _traced(exact, operands, parts), operands
        self.sides: list[Side] = []
        self._decided: dict[str, Before] = {}
        wide, narrow = _Watched(self._module), _Watched(_traced(rounded, given, parts))
        with torch.no_grad():
            self.own: Tensors = wide.run(*operands)
            narrow.run(*given)
            if [name_of(each.node) for each in wide.seen] != [name_of(each.node) for each in narrow.seen]:
                raise RuntimeError("in float64 other decisions are taken")
            self.orders = any(name_of(each.node) in ROWS for each in wide.seen)
            generator = torch.Generator(operands[0].device).manual_seed(1)
            for ours, theirs in zip(wide.seen, narrow.seen, strict=True):
                self._open(ours, theirs, tolerance, generator)

    def _open(self, ours: Decision, theirs: Decision, tolerance: float, generator: torch.Generator) -> None:
        """The sides of one decision."""
        name, chooses = name_of(ours.node), name_of(ours.node) in CHOICES
        shift: torch.Tensor | float | None = None
        if ours.operands and (chooses or not (ours.whole and theirs.whole)):
            shift = shift_of(ours.operands, theirs.operands, tolerance, MOST_UNITS)
        if shift is None and (not chooses or ours.kwargs.get("stable")):
            return
        shift = 0.0 if shift is None else shift
        own = decided(ours.node, ours.node.target(*ours.args, **ours.kwargs))  # type: ignore[operator]
        self._decided[ours.node.name] = Before(
            own, shift, theirs.args[0].dtype, operand_of(ours)[1] if name in ROWS else None
        )
        if name in CHOOSING:
            self.sides += equal_sides(ours, own, shift)
            return
        if name in CHOICES:
            others = drawn_sides(ours, shift, generator)
        elif name in ("eq", "ne"):
            others = [own ^ ((ours.args[0] - ours.args[1]).abs() <= shift)]
        else:
            others = [ours.moved(shift), ours.moved(-shift)]
        self.sides += [side_of(ours.node.name, own, other) for other in distinct(own, others)]

    def __call__(self, shares: torch.Tensor) -> Mixed:
        """The results by the shares of all sides' elements, one after the other."""
        by_name: dict[str, list[tuple[torch.Tensor, ...]]] = {}
        for side, share in zip(self.sides, self._split(shares), strict=True):
            by_name.setdefault(side.name, []).append((side.at, side.values, share))
        return [*_Shared(self._module, by_name).run(*self._operands)]

    def taken(self, which: torch.Tensor, order: Order | None = None) -> Tensors:
        """The results where decisions are taken by those sides' elements that are set, as far as they are right then.

        `order` says how equals follow each other in rows where no side does.
        """
        with torch.no_grad():
            return [*self._taking(which, order).run(*self._operands)]

    def _taking(self, which: torch.Tensor, order: Order | None) -> _Taken:
        picked: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for side, part in zip(self.sides, self._split(which), strict=True):
            if part.any():
                picked.setdefault(side.name, []).append((side.at[part], side.values[part]))
        return _Taken(self._module, picked, self._decided, order)

    def as_taken(self, which: torch.Tensor, order: Order | None = None) -> torch.Tensor:
        """The sides' elements that are what `taken` takes."""
        found, taken = [], self._values(which, order)
        known = {name: torch.zeros_like(value, dtype=torch.bool).reshape(-1) for name, value in taken.items()}
        for side in self.sides:
            same = (taken[side.name].reshape(-1)[side.at] == side.values) & ~known[side.name][side.at]
            known[side.name][side.at] |= same
            found.append(same)
        return torch.cat(found)

    def twice(self, which: torch.Tensor) -> torch.Tensor:
        """The sides' elements that a row, as it is taken, names in another place: none is there twice."""
        found, taken = [], self._values(which)
        for side in self.sides:
            value, dim = taken[side.name], self._decided[side.name].dim
            if dim is None:
                found.append(torch.zeros_like(side.at, dtype=torch.bool))
                continue
            row = torch.arange(value.numel(), device=value.device).reshape(value.shape).movedim(dim, -1)
            width = row.shape[-1]
            place = row.reshape(-1).argsort()
            rows = value.movedim(dim, -1).reshape(-1, width)
            found.append((rows[place[side.at] // width] == side.values.unsqueeze(1)).any(1))
        return torch.cat(found) & ~which

    def _values(self, which: torch.Tensor, order: Order | None = None) -> dict[str, torch.Tensor]:
        """What each decision is where it is taken by those sides' elements."""
        taking = self._taking(which, order)
        with torch.no_grad():
            taking.run(*self._operands)
        return {name: taking.found.get(name, before.own) for name, before in self._decided.items()}

    def at_places(self, values: torch.Tensor) -> torch.Tensor:
        """For the elements of each side the sum of what all sides of the same decision have there."""
        parts = iter(self._split(values))
        return torch.cat(self._each(lambda _: next(parts)))

    def even(self) -> torch.Tensor:
        """The same share for each of an element's sides: where two decisions act together, neither alone does."""
        return torch.cat([1 / (1 + total) for total in self._each(torch.ones_like)])

    def nearest(self, shares: torch.Tensor, *, together: bool = False) -> torch.Tensor:
        """Which sides' elements have the largest share of what is decided there, those of a unit `together` or not."""
        if together:
            units = self.units
            sums = shares.new_zeros(int(units.max()) + 1).index_add(0, units, shares)
            shares = (sums / units.bincount())[units]
        parts, found = self._split(shares), []
        iterator = iter(parts)
        totals = self._each(lambda at: next(iterator).to(torch.float64))
        tops: dict[str, torch.Tensor] = {}
        for side, part in zip(self.sides, parts, strict=True):
            top = tops.setdefault(side.name, part.new_zeros(side.size))
            top.index_put_((side.at,), torch.maximum(top[side.at], part))
        for side, part, total in zip(self.sides, parts, totals, strict=True):
            found.append((part > 0) & (part >= tops[side.name][side.at]) & (part >= 1 - total))
        return torch.cat(found)

    @property
    def equals(self) -> bool:
        """Whether it chooses among what was given, or is exact, of which nobody takes an element in part."""
        return any(isinstance(self._decided[side.name].shift, float) for side in self.sides)

    @property
    def units(self) -> torch.Tensor:
        """Numbers of the sides' elements that those which belong together share, from 0 on."""
        places = (torch.stack([side.unit, torch.full_like(side.unit, n)], 1) for n, side in enumerate(self.sides))
        numbers: torch.Tensor = torch.unique(torch.cat([*places]), dim=0, return_inverse=True)[1]
        return numbers

    def signs(self, rounds: int, generator: torch.Generator) -> torch.Tensor:
        """For some rounds half of the units of one side of each decision, drawn by chance. By rounds and units."""
        units, names = self.units, [side.name for side in self.sides]
        drawn = torch.rand((rounds, int(units.max()) + 1), generator=generator, device=units.device) < 0.5
        turn = torch.rand(rounds, generator=generator, device=units.device)
        for number, part in enumerate(self._split(units)):
            beside = [place for place, name in enumerate(names) if name == names[number]]
            now = (turn * len(beside)).long() == number - beside[0]
            drawn[:, torch.unique(part)] &= now.unsqueeze(1)
        return drawn

    def only(self, which: torch.Tensor) -> TieBreaks:
        """The same with these of the sides' elements alone."""
        other = copy.copy(self)
        kept = (
            Side(side.name, side.size, side.at[part], side.values[part], side.unit[part])
            for side, part in zip(self.sides, self._split(which), strict=True)
        )
        other.sides = [side for side in kept if side.at.numel()]
        return other

    def _each(self, of: Callable[[torch.Tensor], torch.Tensor]) -> Tensors:
        """For the elements of each side what all sides of the same decision have together there."""
        totals: dict[str, torch.Tensor] = {}
        for side in self.sides:
            total = totals.setdefault(side.name, self._operands[0].new_zeros(side.size, dtype=torch.float64))
            total[side.at] += of(side.at).double()
        return [totals[side.name][side.at] for side in self.sides]

    def _split(self, shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split_with_sizes(shares, [side.at.numel() for side in self.sides])


class _Plain(TorchFunctionMode):
    """What asks for a number to know its result's shape, as operations that do not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for each function."""
        kwargs = kwargs or {}
        name, classes = getattr(func, "__name__", ""), kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
        if name == "one_hot" and classes > 0:
            return (args[0].unsqueeze(-1) == torch.arange(classes, device=args[0].device)).long()
        least = kwargs.get("minlength", 0)
        if name == "bincount" and least > 0 and len(args) == 1 and kwargs.get("weights") is None:
            return torch.zeros(least, dtype=torch.long, device=args[0].device).scatter_add(
                0, args[0], torch.ones_like(args[0], dtype=torch.long)
            )
        return func(*args, **kwargs)


def _traced(function: Callable[..., Tensors], operands: Tensors, parts: Mapping[Any, Any]) -> torch.fx.GraphModule:
    """A function as single operations without side effects. Where a rectified number is compared, the one before is:
    it says how far from a tie that was."""
    with tracing(TracingContext(FakeTensorMode(allow_fallback_kernels=True))):  # else one is made for each value
        with _Plain():
            plain = make_fx(function, decomposition_table=parts)(*operands)
        module = make_fx(functionalize(plain))(*operands)
    for node in module.graph.nodes:
        if name_of(node) in ("detach", "alias"):
            node.replace_all_uses_with(node.args[0])
    for node in module.graph.nodes:
        source = node.args[0] if name_of(node) in ("le", "gt") and node.args[1] == 0 else None
        if isinstance(source, torch.fx.Node) and name_of(source) == "relu":
            node.args = (source.args[0], *node.args[1:])
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


class _Watched(torch.fx.Interpreter):
    """Notes the operands of each decision."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.seen: list[Decision] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        """Called for each operation."""
        if decides(n):
            decision = Decision(n, *self.fetch_args_kwargs_from_env(n))
            self.seen += [decision] if decision.operands or name_of(n) in CHOICES else []
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
            own = n.op == "get_attr" and isinstance(found, torch.Tensor)  # a weight has a history of its own
            return found.detach() if own else found
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            result = followed(n.target, name_of(n), args, kwargs)
        except (RuntimeError, IndexError, TypeError):  # it wants whole numbers or flags where there are shares of them
            result = followed(n.target, name_of(n), tuple(map(_as_was, args, n.args)), kwargs)
        if n.name not in self._sides:
            return result
        if not isinstance(result, tuple):
            return opened(n.name, widened(result), self._sides[n.name])
        place = CHOICES.get(name_of(n), 0)
        return tuple(
            opened(n.name, each, self._sides[n.name]) if at == place else each for at, each in enumerate(result)
        )


class _Taken(torch.fx.Interpreter):
    """The same by sides that are taken: places in a decision and values there, by its name.

    Elsewhere it is as it was `before`, where that is still right: another one changes the last bits of what follows.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        picked: dict[str, list[tuple[torch.Tensor, torch.Tensor]]],
        before: dict[str, Before],
        order: Order | None,
    ) -> None:
        super().__init__(module)
        self._picked, self._before, self._order = picked, before, order
        self.found: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Called for each operation."""
        result = super().run_node(n)
        if n.name not in self._before:
            return result
        decision = Decision(n, *self.fetch_args_kwargs_from_env(n))
        own, (found, shift, dtype, _) = decided(n, result), self._before[n.name]
        if self._order is not None and name_of(n) in CHOOSING:
            found = first_of_equals(decision, own, dtype, self._order)
        for at, values in self._picked.get(n.name, ()):
            found = found.reshape(-1).index_put((at,), values.to(found.dtype)).reshape(found.shape)
        if torch.equal(found, own):
            return result
        self.found[n.name] = found = where_right(decision, own, found, shift)
        if not isinstance(result, tuple):
            return found
        return (values_at(decision, found), found) if name_of(n) in CHOICES else (found, *result[1:])


def _as_was(value: Any, node: Any) -> Any:
    """What lies between whole numbers, or flags, as the nearest one."""
    kind = getattr(node.meta.get("val"), "dtype", None) if isinstance(node, torch.fx.Node) else None
    if kind is None or kind.is_floating_point or not has_fraction(value):
        return value
    return value.detach().round().to(kind)
