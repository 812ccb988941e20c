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
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from harness.checks.choices import repeated
from harness.checks.float8 import FLOAT8, widened
from harness.trusted.ties.recorder import CHOOSING, ROWS, STEPPING, given_to, shift_of
from harness.trusted.ties.sides import Open, followed, opened

Tensors = list[torch.Tensor]
Mixed = list[torch.Tensor | Open]
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

    @property
    def whole(self) -> bool:
        """Whether all it decides on are whole numbers: what a decision before made is moved by none after it."""
        finite = (each[torch.isfinite(each)] for each in self.operands)
        return all(bool((each == each.round()).all()) for each in finite)

    def moved(self, step: torch.Tensor | float) -> torch.Tensor:
        """What it is where its first operand is moved."""
        first = self.first
        args = (*self.args[:first], self.args[first] + step, *self.args[first + 1 :])
        return _decided(self.node, self.node.target(*args, **self.kwargs))  # type: ignore[operator]


class _Before(NamedTuple):
    """What a decision was, how far rounding may have moved its operand, and which type that has for PyTorch."""

    own: torch.Tensor
    shift: torch.Tensor | float
    dtype: torch.dtype


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
        self._decided: dict[str, _Before] = {}
        wide, narrow = _Watched(self._module), _Watched(_traced(rounded, given, parts))
        with torch.no_grad():
            self.own: Tensors = wide.run(*operands)
            narrow.run(*given)
            if [_name(each.node) for each in wide.seen] != [_name(each.node) for each in narrow.seen]:
                raise RuntimeError("in float64 other decisions are taken")
            self.orders = any(_name(each.node) in ROWS for each in wide.seen)
            generator = torch.Generator(operands[0].device).manual_seed(1)
            for ours, theirs in zip(wide.seen, narrow.seen, strict=True):
                self._open(ours, theirs, tolerance, generator)

    def _open(self, ours: _Decision, theirs: _Decision, tolerance: float, generator: torch.Generator) -> None:
        """The sides of one decision."""
        name, chooses = _name(ours.node), _name(ours.node) in CHOICES
        shift: torch.Tensor | float | None = None
        if ours.operands and (chooses or not (ours.whole and theirs.whole)):
            shift = shift_of(ours.operands, theirs.operands, tolerance, MOST_UNITS)
        if shift is None and (not chooses or ours.kwargs.get("stable")):
            return
        shift = 0.0 if shift is None else shift
        own = _decided(ours.node, ours.node.target(*ours.args, **ours.kwargs))  # type: ignore[operator]
        self._decided[ours.node.name] = _Before(own, shift, theirs.args[0].dtype)
        if name in CHOOSING:
            self.sides += _equals(ours, own, shift)
            return
        if name in CHOICES:
            others = _drawn(ours, shift, generator)
        elif name in ("eq", "ne"):
            others = [own ^ ((ours.args[0] - ours.args[1]).abs() <= shift)]
        else:
            others = [ours.moved(shift), ours.moved(-shift)]
        self.sides += [_side(ours.node.name, own, other) for other in _distinct(own, others)]

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
        picked: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for side, part in zip(self.sides, self._split(which), strict=True):
            if part.any():
                picked.setdefault(side.name, []).append((side.at[part], side.values[part]))
        with torch.no_grad():
            return [*_Taken(self._module, picked, self._decided, order).run(*self._operands)]

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
    with _Plain():
        plain = make_fx(function, decomposition_table=parts)(*operands)
    module = make_fx(functionalize(plain))(*operands)
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
        if _decides(n):
            decision = _Decision(n, *self.fetch_args_kwargs_from_env(n))
            self.seen += [decision] if decision.operands or _name(n) in CHOICES else []
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
            result = followed(n.target, _name(n), args, kwargs)
        except (RuntimeError, IndexError, TypeError):  # it wants whole numbers or flags where there are shares of them
            result = followed(n.target, _name(n), tuple(map(_as_was, args, n.args)), kwargs)
        if n.name not in self._sides:
            return result
        if not isinstance(result, tuple):
            return opened(n.name, widened(result), self._sides[n.name])
        place = CHOICES.get(_name(n), 0)
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
        before: dict[str, _Before],
        order: Order | None,
    ) -> None:
        super().__init__(module)
        self._picked, self._before, self._order = picked, before, order

    def run_node(self, n: torch.fx.Node) -> Any:
        """Called for each operation."""
        result = super().run_node(n)
        if n.name not in self._before:
            return result
        decision = _Decision(n, *self.fetch_args_kwargs_from_env(n))
        own, (found, shift, dtype) = _decided(n, result), self._before[n.name]
        if self._order is not None and _name(n) in CHOOSING:
            found = _first_of_equals(decision, own, dtype, self._order)
        for at, values in self._picked.get(n.name, ()):
            found = found.reshape(-1).index_put((at,), values.to(found.dtype)).reshape(found.shape)
        if torch.equal(found, own):
            return result
        found = _where_right(decision, own, found, shift)
        if not isinstance(result, tuple):
            return found
        return (_values(decision, found), found) if _name(n) in CHOICES else (found, *result[1:])


def _first_of_equals(decision: _Decision, own: torch.Tensor, dtype: torch.dtype, order: Order) -> torch.Tensor:
    """The choice of an operation that takes equals of a type in an order of their indices."""
    given = given_to(decision.node.target, decision.args, decision.kwargs)
    operand, dim = _operand(decision)
    operand, name = operand.to(dtype), _name(decision.node)
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


def _where_right(
    decision: _Decision, own: torch.Tensor, other: torch.Tensor, shift: torch.Tensor | float
) -> torch.Tensor:
    """The other result as far as it is within float error of a decision's own, and no row names an element twice."""
    name = _name(decision.node)
    if name in CHOICES:
        ours, theirs = (_values(decision, each) for each in (own, other))
        width = shift if isinstance(shift, float) else _values(decision, own, shift)
        near = (ours == theirs) | ((ours - theirs).abs() <= 2 * width) | (ours.isnan() & theirs.isnan())
        found = torch.where(near.reshape(own.shape), other, own)
        if name not in ROWS:
            return found
        _, dim = _operand(decision)
        return torch.where(repeated(found, dim).any(dim, keepdim=True), own, found)
    if name in ("eq", "ne"):
        return torch.where((decision.args[0] - decision.args[1]).abs() <= shift, other, own)
    sides = torch.stack([decision.moved(shift), decision.moved(-shift), own])
    return torch.where((other >= sides.amin(0)) & (other <= sides.amax(0)), other, own)


def _values(decision: _Decision, index: torch.Tensor, source: torch.Tensor | None = None) -> torch.Tensor:
    """The elements that indices name, of the decision's operand or of another `source`."""
    operand, dim = _operand(decision)
    source = operand if source is None else source.reshape(operand.shape)
    name = _name(decision.node)
    if name in WINDOWS:
        axes = 3 if "3d" in name else 2
        return source.flatten(-axes).gather(-1, index.flatten(-axes)).reshape(index.shape)
    whole = index if index.ndim == operand.ndim else index.reshape(_with(index.shape, operand.ndim, dim))
    return source.gather(dim, whole).reshape(index.shape)


def _with(shape: torch.Size, ndim: int, dim: int) -> tuple[int, ...]:
    """A shape that lacks `dim`, with it."""
    return (*shape[:dim], 1, *shape[dim:]) if len(shape) == ndim - 1 else (1,) * ndim


def _operand(decision: _Decision) -> tuple[torch.Tensor, int]:
    """What is chosen from, and along which of its axes."""
    operand, given = decision.args[0], given_to(decision.node.target, decision.args, decision.kwargs)
    dim = given.get("dim", -1)
    operand = operand.reshape(-1) if dim is None or not operand.ndim else operand
    return operand, (dim or 0) % operand.ndim


def _equals(decision: _Decision, own: torch.Tensor, shift: torch.Tensor | float) -> list[Side]:
    """Every other element that may stand in a row's place: those as large, or nearly. On each side pairs of them change
    places, on all sides together each with each."""
    operand, dim = _operand(decision)
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
        found.append(_side(decision.node.name, own, other, pair if _name(decision.node) in ROWS else None))
    return found


def _side(name: str, own: torch.Tensor, other: torch.Tensor, unit: torch.Tensor | None = None) -> Side:
    at = (other != own).reshape(-1).nonzero().squeeze(1)
    return Side(name, own.numel(), at, other.reshape(-1)[at], at if unit is None else unit.reshape(-1)[at])


def _drawn(decision: _Decision, shift: torch.Tensor | float, generator: torch.Generator) -> Tensors:
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


def _decides(node: torch.fx.Node) -> bool:
    name = _name(node)
    if name in CHOICES:  # the largest of two tensors, or of all elements, is no choice
        return len(node.target._schema.returns) > 1 or CHOICES[name] == 0  # type: ignore[union-attr]
    if name == "_to_copy" and node.kwargs.get("dtype") in FLOAT8:
        return True
    return name in STEPS or (name == "div" and node.kwargs.get("rounding_mode") is not None)


def _decided(node: torch.fx.Node, result: Any) -> torch.Tensor:
    """The indices or the flags of a decision's results."""
    return widened(result[CHOICES.get(_name(node), 0)] if isinstance(result, tuple) else result)


def _as_was(value: Any, node: Any) -> Any:
    """What lies between whole numbers, or flags, as the nearest one."""
    kind = getattr(node.meta.get("val"), "dtype", None) if isinstance(node, torch.fx.Node) else None
    if kind is None or kind.is_floating_point or not _has_fraction(value):
        return value
    return value.detach().round().to(kind)


def _has_fraction(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _name(node: torch.fx.Node) -> str:
    return node.target._opname if isinstance(node.target, torch._ops.OpOverload) else ""
