"""Products of matrices, convolutions of any kind, attention: sums of products over index maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.activations import Terms
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.lower.views import permuted
from knowledge.compiler.lower.windows import each_of
from knowledge.compiler.problem import Argument, Op, Ref

Indices = tuple[Index, ...]


def contracted(
    graph: Values, shape: tuple[int, ...], over: Sequence[int], left: tuple[Node, Indices], right: tuple[Node, Indices]
) -> Node:
    """The sum of products of two reads."""
    factors = [graph.read(node, indices, partial=True) for node, indices in (left, right)]
    return graph.fold("sum", shape, tuple(over), graph.element("mul", factors[0].dtype, *factors))


def product(graph: Values, left: Node, right: Node) -> Node:
    """torch.matmul: vectors get a dimension that goes again, what comes before the last two is broadcast."""
    if left.uniform or right.uniform:
        raise UnwritableError("a product of constants")
    row, column = len(left.shape) == 1, len(right.shape) == 1
    left = graph.reshape(left, (1, *left.shape)) if row else left
    right = graph.reshape(right, (*right.shape, 1)) if column else right
    lead = torch_broadcast(left.shape[:-2], right.shape[:-2])
    shape = (*lead, left.shape[-2], right.shape[-1])
    here, (inner,) = places(shape), map(along, axes("r", left.shape[-1:]))

    def outer(node: Node) -> Indices:
        own = here[len(lead) - (len(node.shape) - 2) : len(lead)]
        return tuple(number(0) if size == 1 else place for size, place in zip(node.shape[:-2], own, strict=True))

    made = contracted(
        graph,
        shape,
        left.shape[-1:],
        (left, (*outer(left), here[-2], inner)),
        (right, (*outer(right), inner, here[-1])),
    )
    kept = (*lead, *(() if row else shape[-2:-1]), *(() if column else shape[-1:]))
    return made if kept == shape else graph.reshape(made, kept)


def torch_broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two broadcast to."""
    rank = max(len(one), len(other))
    wide = [(1,) * (rank - len(shape)) + shape for shape in (one, other)]
    return tuple(b if a == 1 else a for a, b in zip(*wide, strict=True))


def _operands(state: Lowering, op: Op, *positions: int) -> list[Node]:
    return [state.operand(op.args[position], result_dtype(op)) for position in positions]


def _matmul(state: Lowering, op: Op) -> Node:
    return product(state.graph, *_operands(state, op, 0, 1))


def _linear(state: Lowering, op: Op) -> Node:
    graph, (x, weight) = state.graph, _operands(state, op, 0, 1)
    here, (inner,) = places(op.results[0].shape), map(along, axes("r", x.shape[-1:]))
    made = contracted(graph, op.results[0].shape, x.shape[-1:], (x, (*here[:-1], inner)), (weight, (here[-1], inner)))
    bias = state.argument(op, 2, "bias")
    return made if bias is None else graph.compute("add", made.dtype, made, state.operand(bias, made.dtype))


def _addmm(state: Lowering, op: Op) -> Node:
    """beta * first + alpha * product."""
    f = Terms(state.graph, result_dtype(op))
    first, left, right = _operands(state, op, 0, 1, 2)
    made = product(state.graph, left, right)
    alpha, beta = (op.kwargs[name] for name in ("alpha", "beta"))
    made = made if alpha == 1 else f("mul", made, state.operand(alpha, f.dtype))
    if beta == 0:  # then PyTorch does not read it at all, NaN or not
        return made
    return f("add", made, first if beta == 1 else f("mul", first, state.operand(beta, f.dtype)))


def _addbmm(state: Lowering, op: Op) -> Node:
    """beta * first + alpha * the sum of all products of a batch."""
    f = Terms(state.graph, result_dtype(op))
    first, left, right = _operands(state, op, 0, 1, 2)
    made = state.graph.reduce("sum", f.dtype, product(state.graph, left, right), (0,), keepdim=False)
    alpha, beta = (op.kwargs[name] for name in ("alpha", "beta"))
    made = made if alpha == 1 else f("mul", made, state.operand(alpha, f.dtype))
    return made if beta == 0 else f("add", made, f("mul", first, state.operand(beta, f.dtype)))


def _bilinear(state: Lowering, op: Op) -> Node:
    """x W y + bias for each of the weight's matrices."""
    graph, (left, right, weight) = state.graph, _operands(state, op, 0, 1, 2)
    count, rows, columns = weight.shape
    turned = graph.reshape(permuted(graph, weight, (1, 0, 2)), (rows, count * columns))
    halfway = graph.reshape(product(graph, left, turned), (*left.shape[:-1], count, columns))
    both = graph.compute("mul", left.dtype, halfway, graph.reshape(right, (*right.shape[:-1], 1, columns)))
    made = graph.reduce("sum", left.dtype, both, (len(both.shape) - 1,), keepdim=False)
    bias = state.argument(op, 3, "bias")
    return made if bias is None else graph.compute("add", made.dtype, made, state.operand(bias, made.dtype))


@dataclass(frozen=True)
class Convolution:
    """How a convolution goes over its operand: one number a dimension each; `before` is the padding in front."""

    steps: tuple[int, ...]
    before: tuple[int, ...]
    gaps: tuple[int, ...]
    groups: int

    def forward(self, graph: Values, x: Node, weight: Node, shape: tuple[int, ...]) -> Node:
        """Each place the sum of its window of `x` times `weight[out, in / groups, *taps]`."""
        image, channel, *inner = places(shape)
        over = (weight.shape[1], *weight.shape[2:])
        r, *k = map(along, axes("r", over))
        source = channel // max(weight.shape[0] // self.groups, 1) * weight.shape[1] + r
        met = self._met(inner, k)
        return contracted(graph, shape, over, (x, (image, source, *met)), (weight, (channel, r, *k)))

    def transposed(self, graph: Values, x: Node, weight: Node, shape: tuple[int, ...]) -> Node:
        """Each place the sum of what `x` times `weight[in, out / groups, *taps]` sends there.

        Places differ in how many taps meet them. Where `back` names a tap beyond the last, the element is beyond `x`,
        so that no infinity in `x` meets a zero.
        """
        image, channel, *inner = places(shape)
        spread = zip(inner, self.steps, weight.shape[2:], self.gaps, self.before, x.shape[2:], strict=True)
        ways = [back(position + 1, *each) for position, each in enumerate(spread)]
        elements = (
            index + tap // taps * (extent - min(index.bounds))
            for (_, index, tap), taps, extent in zip(ways, weight.shape[2:], x.shape[2:], strict=True)
        )
        over = (weight.shape[0] // self.groups, *(count for count, _, _ in ways))
        outer, r = weight.shape[1], along(axes("r", over)[0])
        source = channel // outer * (weight.shape[0] // self.groups) + r
        left = (x, (image, source, *elements))
        right = (weight, (source, channel % outer, *(tap for _, _, tap in ways)))
        return contracted(graph, shape, over, left, right)

    def of_weight(self, graph: Values, x: Node, made: Node, shape: tuple[int, ...]) -> Node:
        """The gradient of `weight[out, in / groups, *taps]`, from that of what the windows over `x` `made`.

        Images and places are what is summed over, the images in parts: there are few weights, and many of those.
        """
        channel, source, *taps = places(shape)
        image, *inner = map(along, axes("r", (made.shape[0], *made.shape[2:])))
        group = channel // max(shape[0] // self.groups, 1)
        right = (x, (image, group * shape[1] + source, *self._met(inner, taps)))
        over = (made.shape[0], *made.shape[2:])
        return contracted(graph, shape, over, (made, (image, channel, *inner)), right)

    def _met(self, inner: Sequence[Index], taps: Sequence[Index]) -> Iterator[Index]:
        """The operand's places that taps of windows meet."""
        spread = zip(inner, taps, self.steps, self.gaps, self.before, strict=True)
        return (place * step + tap * gap - first for place, tap, step, gap, first in spread)


def _convolved(
    state: Lowering, op: Op, step: Argument, margin: Argument, apart: Argument, groups: int, transposed: bool
) -> Node:
    graph, (x, weight) = state.graph, _operands(state, op, 0, 1)
    shape, rank = op.results[0].shape, len(weight.shape) - 2
    batched = len(shape) == rank + 2
    x = x if batched else graph.reshape(x, (1, *x.shape))
    full = shape if batched else (1, *shape)
    steps, gaps = each_of(step, rank, op), each_of(apart, rank, op)
    if margin == "same":
        before = tuple(gap * (tap - 1) // 2 for gap, tap in zip(gaps, weight.shape[2:], strict=True))
    else:
        before = (0,) * rank if margin == "valid" else each_of(margin, rank, op)
    windows = Convolution(steps, before, gaps, groups)
    made = (windows.transposed if transposed else windows.forward)(graph, x, weight, full)
    bias = state.argument(op, 2, "bias")
    if bias is not None:
        channels = graph.reshape(state.operand(bias, made.dtype), (full[1], *(1,) * rank))
        made = graph.compute("add", made.dtype, made, channels)
    return made if batched else graph.reshape(made, shape)


def back(
    position: int, place: Index, step: int, taps: int, gap: int, before: int, extent: int
) -> tuple[int, Index, Index]:
    """Of a transposed convolution along one dimension: how many taps may count, the element and the tap of each.

    Element x of the operand goes to the places x * step + tap * gap - before. The taps that meet a place are every
    (step / g)-th from one on, g being the greatest divisor that step and gap share; a place that g does not reach is
    met by none, and its elements are put beyond the operand.
    """
    shifted, shared = place + before, math.gcd(step, gap)
    stride, leap = step // shared, gap // shared
    count = -(-taps // stride)
    nth = along(axes("r", (1,) * position + (count,))[-1])
    first = shifted // shared * pow(leap, -1, stride) % stride if stride > 1 else number(0)
    met = (shifted // step if gap == 1 else (shifted - first * gap) // step) - nth * leap
    far = extent + max(map(abs, met.bounds)) + 1
    return count, met + shifted % shared * far, first + nth * stride


def _convolution(transposed: bool) -> Lower:
    def made(state: Lowering, op: Op) -> Node:
        if transposed:
            groups, apart = state.argument(op, 6, "groups"), state.argument(op, 7, "dilation")
        else:
            apart, groups = state.argument(op, 5, "dilation"), state.argument(op, 6, "groups")
        step, margin = state.argument(op, 3, "stride"), state.argument(op, 4, "padding")
        return _convolved(state, op, step, margin, apart, integer(groups, op), transposed)

    return made


def _any_convolution(state: Lowering, op: Op) -> Node:
    return _convolved(state, op, op.args[3], op.args[4], op.args[5], integer(op.args[8], op), op.args[6] is True)


def _attention(state: Lowering, op: Op) -> Node:
    """softmax(q k^T * scale + mask) v; under a mask, a row with nothing to attend to is 0."""
    if state.argument(op, 4, "dropout_p"):
        raise UnwritableError(f"{op.target} with dropout")
    graph, (q, k, v) = state.graph, _operands(state, op, 0, 1, 2)
    dtype = q.dtype
    f = Terms(graph, dtype)
    if op.kwargs.get("enable_gqa") or q.shape[:-2] != k.shape[:-2]:
        times = q.shape[-3] // k.shape[-3]
        k, v = (_repeated(graph, node, times) for node in (k, v))
    scale = op.kwargs.get("scale")
    factor = float(scale) if isinstance(scale, int | float) else 1 / math.sqrt(q.shape[-1])
    order = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    scores = f("mul", product(graph, q, permuted(graph, k, order)), factor)
    mask, causal = state.argument(op, 3, "attn_mask"), state.argument(op, 5, "is_causal")
    if isinstance(mask, Ref):
        given = state.value(mask)
        scores = f("select", given, scores, -math.inf) if given.dtype == "bool" else f("add", scores, given)
    if causal is True:
        *_, row, column = places(scores.shape)
        seen = graph.map(scores.shape, graph.within(row - column, scores.shape[-2] + scores.shape[-1]))
        scores = f("select", seen, scores, -math.inf)
    last = (len(scores.shape) - 1,)
    most = graph.reduce("amax", dtype, scores, last, True)
    powers = f("exp", f("sub", scores, most))
    weights = f("div", powers, graph.reduce("sum", dtype, powers, last, True))
    if isinstance(mask, Ref):
        weights = f("select", f("eq", most, -math.inf), f.number(0.0), weights)
    return product(graph, weights, v)


def _repeated(graph: Values, node: Node, times: int) -> Node:
    """Each head several times."""
    shape = (*node.shape[:-3], node.shape[-3] * times, *node.shape[-2:])
    *lead, head, row, column = places(shape)
    return graph.map(shape, graph.read(node, (*lead, head // times, row, column)))


CONTRACTING: dict[str, Lower] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), _matmul),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _addmm),
    **dict.fromkeys((f"conv{rank}d" for rank in (1, 2, 3)), _convolution(False)),
    **dict.fromkeys((f"conv_transpose{rank}d" for rank in (1, 2, 3)), _convolution(True)),
    "addbmm": _addbmm, "bilinear": _bilinear, "linear": _linear, "convolution": _any_convolution,
    "scaled_dot_product_attention": _attention,
}  # fmt: skip
