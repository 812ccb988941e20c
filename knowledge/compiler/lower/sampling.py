"""What reads at places that it computes: images at the points of a grid, and sorted numbers, by halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import product as combinations
from math import ceil, lcm

from knowledge.compiler.ir.dtypes import is_float
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, computed, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import clamped
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.problem import Op

BILINEAR, NEAREST = 0, 1  # 2 is by cubes
ZEROS, REFLECTION = 0, 2  # 1 is the border


def _term(graph: Values, dtype: str, op: str, *args: Node | float) -> Node:
    return graph.element(op, dtype, *(a if isinstance(a, Node) else graph.const(float(a), dtype) for a in args))


@dataclass(frozen=True)
class _Grid:
    """Points between -1 and 1 as places in an image's elements, and what is read there."""

    graph: Values
    image: Node
    lead: tuple[Index, ...]
    padding: int
    aligned: bool

    def f(self, op: str, *args: Node | float) -> Node:
        """A primitive in the image's type."""
        return _term(self.graph, self.image.dtype, op, *args)

    def place(self, share: Node, extent: int) -> Node:
        """A coordinate in elements."""
        inner = self.f("mul", self.f("add", share, 1.0), 0.5)
        if self.aligned:
            return self.f("mul", inner, extent - 1)
        moved = self.f("mul", self.f("add", share, 1.0), extent)
        return self.f("mul", self.f("sub", moved, 1.0), 0.5)

    def held(self, place: Node, extent: int) -> Node:
        """Within the image by its padding; what lies far outside is moved to where all that is read is 0."""
        f = self.f
        if self.padding == REFLECTION:
            low, span = (0.0, extent - 1.0) if self.aligned else (-0.5, float(extent))
            if not span:
                return f("mul", place, 0.0)
            gap = f("abs", f("sub", place, low))
            rest, turns = f("fmod", gap, span), f("floor", f("div", gap, span))
            odd = _compare(self.graph, "ne", f("fmod", turns, 2.0), 0.0)
            place = f("add", f("select", odd, f("sub", span, rest), rest), low)
        beyond = 1 if self.padding == ZEROS else 0
        return f("minimum", f("maximum", place, -beyond), extent - 1 + beyond)

    def whole(self, place: Node) -> Index:
        """A whole number that is one already."""
        return computed(self.graph.element("cast", "int64", place))

    def read(self, *inner: Index) -> Node:
        """An element; beyond a border the last one, which then weighs nothing where it is the second of two."""
        if self.padding != ZEROS:
            inner = tuple(clamped(self.graph, each, extent)
                          for each, extent in zip(inner, self.image.shape[2:], strict=True))  # fmt: skip
        return self.graph.read(self.image, (*self.lead, *inner), partial=True)

    def nearest(self, points: list[Node]) -> Node:
        """The nearest element."""
        held = (self.held(each, extent) for each, extent in zip(points, self.image.shape[2:], strict=True))
        return self.read(*(self.whole(self.f("round", each)) for each in held))

    def linear(self, points: list[Node]) -> Node:
        """The two nearest along each dimension, by how near they are."""
        f = self.f
        held = [self.held(each, extent) for each, extent in zip(points, self.image.shape[2:], strict=True)]
        first = [f("floor", each) for each in held]
        after = [f("sub", each, low) for each, low in zip(held, first, strict=True)]
        shares = [(f("sub", 1.0, each), each) for each in after]
        corners = [self.whole(each) for each in first]
        total: Node | None = None
        for taps in combinations((0, 1), repeat=len(points)):
            weight = reduce(partial(f, "mul"), (share[tap] for share, tap in zip(shares, taps, strict=True)))
            due = f("mul", self.read(*(at + tap for at, tap in zip(corners, taps, strict=True))), weight)
            total = due if total is None else f("add", total, due)
        assert total is not None
        return total

    def cubic(self, points: list[Node]) -> Node:
        """Four along each dimension, by Keys' cubic of slope -0.75."""
        f = self.f
        first = [f("floor", each) for each in points]
        weights = [_cubic(f, f("sub", each, low)) for each, low in zip(points, first, strict=True)]
        total: Node | None = None
        for taps in combinations(range(4), repeat=len(points)):
            at = (f("add", low, tap - 1.0) for low, tap in zip(first, taps, strict=True))
            held = (self.held(each, extent) for each, extent in zip(at, self.image.shape[2:], strict=True))
            weight = reduce(partial(f, "mul"), (each[tap] for each, tap in zip(weights, taps, strict=True)))
            due = f("mul", self.read(*(self.whole(f("round", each)) for each in held)), weight)
            total = due if total is None else f("add", total, due)
        assert total is not None
        return total


def _compare(graph: Values, op: str, one: Node, other: float) -> Node:
    return graph.element(op, "bool", one, graph.const(other, one.dtype))


def _near(f: Callable[..., Node], x: Node, slope: float) -> Node:
    """Keys' cubic of a slope, at a distance of 0 to 1."""
    return f("add", f("mul", f("mul", f("sub", f("mul", x, slope + 2), slope + 3), x), x), 1.0)


def _far(f: Callable[..., Node], x: Node, slope: float) -> Node:
    """The same at a distance of 1 to 2."""
    inner = f("add", f("mul", f("sub", f("mul", x, slope), 5 * slope), x), 8 * slope)
    return f("sub", f("mul", inner, x), 4 * slope)


def _cubic(f: Callable[..., Node], t: Node) -> tuple[Node, ...]:
    """What the elements at -1, 0, 1 and 2 weigh for a point at t of 0 to 1."""
    slope, rest = -0.75, f("sub", 1.0, t)
    return (
        _far(f, f("add", t, 1.0), slope),
        _near(f, t, slope),
        _near(f, rest, slope),
        _far(f, f("add", rest, 1.0), slope),
    )


def _grid_sampler(state: Lowering, op: Op) -> Node:
    """An image or a volume at the points of a grid, whose x, y and z go from -1 to 1 across it."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    mode, padding, aligned = op.args[2:5]
    image, grid = (state.operand(each, dtype) for each in op.args[:2])
    batch, _, *inner = here = places(shape)
    sampled = _Grid(graph, image, here[:2], int(padding), aligned is True)  # type: ignore[arg-type]
    count = len(inner)
    points = [sampled.place(graph.read(grid, (batch, *inner, number(count - 1 - dim))), image.shape[2 + dim])
              for dim in range(count)]  # fmt: skip
    if mode == BILINEAR:
        return graph.map(shape, sampled.linear(points))
    return graph.map(shape, sampled.nearest(points) if mode == NEAREST else sampled.cubic(points))


def _affine_grid(state: Lowering, op: Op) -> Node:
    """Each point of an image, or volume, between -1 and 1, turned by its batch's matrix: x first."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    matrix = state.operand(op.args[0], dtype)
    f = partial(_term, graph, dtype)
    batch, *inner, coordinate = places(shape)
    turned = graph.read(matrix, (batch, coordinate, number(len(inner))))
    for k, (place, extent) in enumerate(zip(reversed(inner), reversed(shape[1:-1]), strict=True)):
        whole = graph.element("cast", dtype, graph.position(place))
        if op.args[2]:
            point = f("sub", f("mul", whole, 2 / (extent - 1)), 1.0) if extent > 1 else f("mul", whole, 0.0)
        else:
            point = f("sub", f("div", f("add", f("mul", whole, 2.0), 1.0), extent), 1.0)
        turned = f("add", turned, f("mul", point, graph.read(matrix, (batch, coordinate, number(k)))))
    return graph.map(shape, turned)


def _smoothed(state: Lowering, op: Op) -> Node:
    """Antialiased resampling: each result weighs the elements around it, and further ones where the image shrinks.

    The weights, Pillow's, follow from whole numbers: a result i lies at p / q (i + 1/2), by steps of p / q elements.
    """
    node, shape = state.operand(op.args[0], result_dtype(op)), op.results[0].shape
    scales = op.args[3] if isinstance(op.args[3], tuple) else op.args[3:]
    factors = scales if scales is not None and len(scales) == len(shape) - 2 else (None,) * (len(shape) - 2)
    if not is_float(node.dtype):
        raise UnwritableError(f"{op.target} of {node.dtype}")
    for dim in reversed(range(2, len(shape))):
        extent, wanted, factor = node.shape[dim], shape[dim], factors[dim - 2]
        if op.args[2] is True:
            step = Fraction(extent - 1, wanted - 1) if wanted > 1 else Fraction(0)
        else:
            told = Fraction(1 / factor).limit_denominator(1 << 12) if isinstance(factor, float) else None
            step = told or Fraction(extent, wanted)
        node = _smoothed_along(state.graph, node, dim, wanted, step, "cubic" in op.target)
    return node


def _smoothed_along(graph: Values, node: Node, dim: int, wanted: int, step: Fraction, by_cubes: bool) -> Node:
    shape = (*node.shape[:dim], wanted, *node.shape[dim + 1 :])
    here, dtype = places(shape), node.dtype
    f = partial(_term, graph, dtype)
    wide = max(step, Fraction(1))
    reach = wide * (2 if by_cubes else 1)
    taps = ceil(2 * reach) + 1
    (tap,) = map(along, axes("r", (taps,)))

    def first(at: Index) -> Index:
        """floor(step (at + 1/2) - reach + 1/2), over one denominator."""
        ahead = step / 2 - reach + Fraction(1, 2)
        under = lcm(step.denominator, ahead.denominator)
        return (at * int(step * under) + int(ahead * under)) // under

    def weight(at: Index) -> Node:
        """Of the element at a tap: 0 beyond the image's ends."""
        index = first(at) + tap
        under = 2 * step.denominator
        gap = graph.position(index * under + at * int(-step * under) + int((1 - step) * under / 2))
        x = f("abs", f("mul", graph.element("cast", dtype, gap), float(1 / (under * wide))))
        due = f("sub", 1.0, x)
        if by_cubes:
            due = f("select", _compare(graph, "lt", x, 1.0), _near(f, x, -0.5), _far(f, x, -0.5))
        held = _compare(graph, "lt", x, 2.0 if by_cubes else 1.0)
        held = graph.element("and", "bool", graph.within(index, node.shape[dim]), held)
        return f("select", held, due, 0.0)

    total = graph.fold("sum", (wanted,), (taps,), weight(*places((wanted,))))
    read = graph.read(node, (*here[:dim], first(here[dim]) + tap, *here[dim + 1 :]), partial=True)
    made = graph.fold("sum", shape, (taps,), f("mul", weight(here[dim]), read))
    return graph.map(shape, f("div", graph.read(made, here), graph.read(total, (here[dim],))))


def _before(graph: Values, ordered: Node, lead: tuple[Index, ...], x: Node, *, right: bool) -> Node:
    """How many of the ordered numbers come before x, or are it where `right`, by halves; all of them before NaN."""
    count = ordered.shape[-1]
    low: Node = graph.const(0, "int64")
    step = 1 << count.bit_length() >> 1
    while step:
        last = computed(low) + (step - 1)
        behind = graph.element("gt" if right else "ge", "bool", graph.read(ordered, (*lead, last), partial=True), x)
        taken = graph.element("and", "bool", graph.within(last, count), graph.element("not", "bool", behind))
        further = graph.element("add", "int64", low, graph.const(step, "int64"))
        low = graph.element("select", "int64", taken, further, low)
        step >>= 1
    return low


def _searched(state: Lowering, op: Op) -> Node:
    """bucketize(x, ordered) and searchsorted(ordered, x), whose ordered numbers may be rows of their own."""
    graph, shape = state.graph, op.results[0].shape
    wanted, ordered = op.args[:2] if "bucketize" in op.target else op.args[1::-1]
    if state.argument(op, 5, "sorter") is not None:
        raise UnwritableError(f"{op.target} of numbers whose order is given")
    numbers, here = state.value(ordered), places(shape)
    x = graph.read(state.operand(wanted, numbers.dtype), here)
    right = state.argument(op, 3, "right") is True or state.argument(op, 4, "side") == "right"
    place = _before(graph, numbers, here[:-1] if len(numbers.shape) > 1 else (), x, right=right)
    kind = op.results[0].dtype
    return graph.map(shape, place if kind == "int64" else graph.element("cast", kind, place))


SAMPLING: dict[str, Lower] = {
    "grid_sampler": _grid_sampler, "grid_sampler_2d": _grid_sampler, "grid_sampler_3d": _grid_sampler,
    "affine_grid_generator": _affine_grid, "_upsample_bilinear2d_aa": _smoothed, "_upsample_bicubic2d_aa": _smoothed,
    "bucketize": _searched, "searchsorted": _searched,
}  # fmt: skip
