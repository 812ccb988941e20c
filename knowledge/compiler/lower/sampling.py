"""What reads at places that it computes: images at the points of a grid, and sorted numbers, by halves."""

from __future__ import annotations

from functools import partial
from itertools import product as combinations

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, computed, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import clamped
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.problem import Op

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER = 0, 1


def _term(graph: Values, dtype: str, op: str, *args: Node | float) -> Node:
    return graph.element(op, dtype, *(a if isinstance(a, Node) else graph.const(float(a), dtype) for a in args))


def _grid_sampler(state: Lowering, op: Op) -> Node:
    """An image at the points of a grid, whose x and y go from -1 to 1 across it: the nearest element, or four mixed."""
    graph, shape, dtype = state.graph, op.results[0].shape, result_dtype(op)
    mode, padding, aligned = op.args[2:5]
    if len(shape) != 4 or mode not in (BILINEAR, NEAREST) or padding not in (ZEROS, BORDER):
        raise UnwritableError(f"{op.target} of volumes, by cubes, or reflected")
    image, grid = (state.operand(each, dtype) for each in op.args[:2])
    f = partial(_term, graph, dtype)
    batch, channel, row, column = places(shape)

    def at(coordinate: int, extent: int) -> Node:
        """In elements; what lies far outside is moved to where all that is read is 0, or to the border."""
        share = f("add", graph.read(grid, (batch, row, column, number(coordinate))), 1.0)
        inner = f("mul", f("mul", share, 0.5), extent - 1)
        place = inner if aligned else f("mul", f("sub", f("mul", share, extent), 1.0), 0.5)
        beyond = 1 if padding == ZEROS else 0
        return f("minimum", f("maximum", place, -beyond), extent - 1 + beyond)

    def read(y: Index, x: Index) -> Node:
        if padding == BORDER:  # the second of two may lie behind it, and then weighs nothing
            y, x = (clamped(graph, each, extent) for each, extent in zip((y, x), image.shape[2:], strict=True))
        return graph.read(image, (batch, channel, y, x), partial=True)

    points = (at(1, image.shape[2]), at(0, image.shape[3]))
    rounded = [f("round" if mode == NEAREST else "floor", each) for each in points]
    y, x = (computed(graph.element("cast", "int64", each)) for each in rounded)
    if mode == NEAREST:
        return graph.map(shape, read(y, x))
    after = [f("sub", each, low) for each, low in zip(points, rounded, strict=True)]
    down, right = ((f("sub", 1.0, share), share) for share in after)
    mixed = [f("mul", read(y + i, x + j), f("mul", down[i], right[j])) for i, j in combinations((0, 1), repeat=2)]
    return graph.map(shape, f("add", f("add", mixed[0], mixed[1]), f("add", mixed[2], mixed[3])))


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
    "grid_sampler": _grid_sampler, "grid_sampler_2d": _grid_sampler, "affine_grid_generator": _affine_grid,
    "bucketize": _searched, "searchsorted": _searched,
}  # fmt: skip
