"""Products of matrices among the values, with all that follows them: the loops and strides that the GEMM recipe takes.

The output is taken down to sums of products of two reads: each of an argument, maybe times numbers. Its loops are the
output's, split where a reshape runs over them; where both operands move it is a batch, where one does m or n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from knowledge.compiler.aten import ALIASING, CLASSES
from knowledge.compiler.index import Axis, Index, along, axes, linear
from knowledge.compiler.inlining import Inliner
from knowledge.compiler.nodes import Element, Value, Values, reads
from knowledge.compiler.ops_contracting import CONTRACTING
from knowledge.compiler.ops_einsum import EINSUM
from knowledge.compiler.ops_moving import MOVING
from knowledge.compiler.product_steps import Steps
from knowledge.compiler.splitting import Loops
from knowledge.playbook import gemm_form
from knowledge.playbook.expressions import Node, UnwritableError
from knowledge.playbook.gemm_form import BYTES, Form, Second, Triangle, UncoveredError
from knowledge.playbook.identifiers import identifiers
from knowledge.playbook.lowering import Lower, aliases, base_name, lower
from knowledge.playbook.ops_activations import ACTIVATIONS
from knowledge.playbook.ops_pointwise import POINTWISE
from knowledge.playbook.ops_views import VIEWS
from knowledge.playbook.problem import ByContent, Problem, Ref, Scalar, Tensor

# An outer product has no axis to contract, a bilinear one has two.
PRODUCTS = tuple(sorted(CLASSES["product"] - {"outer", "ger", "bilinear"}))
# What may stand around a product. A forward with anything else is not looked at further.
AROUND: dict[str, Lower] = {
    **POINTWISE, **ACTIVATIONS, **VIEWS, **EINSUM,
    **{name: CONTRACTING[name] for name in PRODUCTS if name in CONTRACTING},
    "triu": MOVING["triu"], "tril": MOVING["tril"],
}  # fmt: skip


def form_of(problem: Problem) -> Form:
    """The product, or two of one operand, in canonical shape. Raises UncoveredError, saying what is in the way."""
    if len(problem.outputs) != 1:
        raise UncoveredError("the GEMM recipe writes exactly one output.")
    if not any(base_name(op.target).removesuffix("_") in PRODUCTS for op in problem.ops):
        raise UncoveredError("the forward holds no matrix product.")
    if any(argument.numel == 0 for argument in problem.arguments if not isinstance(argument, Scalar)):
        raise UncoveredError("the GEMM recipe does not cover empty tensors.")
    return _formed(ByContent.of(problem))


@lru_cache(maxsize=32)
def _formed(key: ByContent) -> Form:
    return _Found(key.problem).form()


class _Found:
    """The product of a problem. Every method raises UncoveredError where the forward is none."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.dtype = _one_dtype(problem)
        self.graph = Values()
        self.given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
        self.names = identifiers(argument.name for argument in problem.arguments)
        _only_results_in_place(problem)
        try:
            ((self.tensor, result),) = lower(problem, AROUND, self.graph).outputs
        except UnwritableError as failure:
            raise UncoveredError(f"the GEMM recipe does not cover {failure}.") from failure
        self.inliner = Inliner(self.graph, lambda value: value.kind != "map")
        self.body = self.inliner.inlined(self.graph.spread(result, self.tensor.shape))

    def form(self) -> Form:
        """The form, of one product or of two."""
        sums = [read for read in reads(self.body) if read.value is not None and read.value.kind != "source"]
        if not 1 <= len(sums) <= 2:
            few = "the forward holds no matrix product that the output comes from."
            raise UncoveredError(few if not sums else "more than two values of matrix products are not covered.")
        factors = [self._factors(each) for each in sums]
        totals = [self.graph.total(name, self.dtype) for name in ("x", "u")]
        if len(sums) == 1:
            return self._placed(self._loops(sums, factors, totals))
        order = (1, 0) if self._later(sums) else (0, 1)
        return self._pair(self._loops([sums[k] for k in order], [factors[k] for k in order], totals))

    def _later(self, sums: list[Element]) -> bool:
        """Whether the first sum is the one with less to do before both meet: the second product of a pair."""
        made = [len(Steps.alone(self.body, one, other)) for one, other in (sums, sums[::-1])]
        return made[0] <= made[1]

    def _factors(self, read: Element) -> list[tuple[Element, list[tuple[Node, int]]]]:
        """The two reads whose products are summed, at the sum's place, each with the numbers that it is times."""
        value = read.value
        assert isinstance(value, Value)
        if not value.contracts or base_name(value.origin).removesuffix("_") not in PRODUCTS:
            raise UncoveredError(f"{value.origin or 'what is computed'} around a product is not covered.")
        places = dict(zip(value.axes, read.indices, strict=True))
        body = self.graph.rewritten(self.inliner.body(value), places, lambda inner: inner)
        return [_scaled(factor) for factor in body.args]

    def _loops(
        self, sums: list[Element], factors: list[list[tuple[Element, list[tuple[Node, int]]]]], totals: list[Node]
    ) -> Loops:
        """The output's loops and the first sum's, the output's address and the sum's place; factors, then steps."""
        instead: dict[int, Node] = {}
        for read, sides, total in zip(sums, factors, totals, strict=False):
            for node, place in (each for _, more in sides for each in more):
                args = (total, node.args[1 - place]) if not place else (node.args[0], total)
                self.graph.origin = node.origin
                total = self.graph.element(node.op, node.dtype, *args)
            instead[id(read)] = total
        body = self.graph.rewritten(self.body, {}, lambda read: instead.get(id(read), read))
        operands = (read for sides in factors for read, _ in sides)
        value = sums[0].value
        assert isinstance(value, Value)
        own = axes("i", self.tensor.shape)
        output = linear(map(along, own), self.tensor.strides)
        made = Loops((own, value.reduced), (output, *sums[0].indices), (*operands, body))
        try:
            return made.split(self.graph, lambda loops: map(self._address, reads(*loops.nodes)))
        except UnwritableError as failure:
            raise UncoveredError(f"{failure}.") from failure

    def _address(self, read: Element) -> Index:
        """Where a read of an argument lies, in elements."""
        if read.value is None or read.value.kind != "source":
            raise UncoveredError("two matrix products in one forward are covered where they share an operand.")
        if read.partial:
            raise UncoveredError("a product of operands with margins is not covered.")
        return linear(read.indices, self.given[read.value.op].strides)

    def _placed(self, loops: Loops, second: Element | None = None) -> Form:
        """The form of the first product; of a second one its own operand's strides come last."""
        left, right, *_, body = loops.nodes
        body, cut = _triangle(body)
        steps = Steps(self.names)
        codes = steps.of(body, second=second is not None)
        read = [*_elements(left, right), *steps.operands]
        addresses = [*map(self._address, read[:2]), loops.indices[0], *map(self._address, read[2:])]
        addresses += [self._address(second)] if second is not None else []
        found: dict[str, list[gemm_form.Axis]] = {role: [] for role in ("batch", "m", "n", "k")}
        wide = (axis for axis in chain(*loops.groups) if axis.extent != 1)
        own = {axis: gemm_form.Axis(axis.extent, tuple(_step(index, axis) for index in addresses)) for axis in wide}
        # Where an operand is expanded neither moves: that is a row or a column like any other, looked at last.
        for axis in sorted(own, key=lambda axis: axis not in loops.groups[1] and not any(own[axis].strides[:2])):
            found[_role(own[axis], axis, loops, cut, found)].append(own[axis])
        _check(addresses)
        sources = [self.names[each.value.op] for each in read if each.value is not None]
        operands = (*sources[:2], self.names[self.tensor.name], *sources[2:])
        triangle = _mirrored(cut, found, loops) if cut else None
        form = gemm_form.canonical(self.dtype, operands, found, codes, triangle, len(addresses))
        return replace(form, second=Second("", steps.of_second)) if second is not None else form

    def _pair(self, loops: Loops) -> Form:
        """Two products whose left operand and whose strides are the same."""
        left, _, other, beside, _ = loops.nodes
        if left is not other:
            raise UncoveredError("two matrix products in one forward are covered where they share an operand.")
        (second,) = _elements(beside)
        form = self._placed(loops, second)
        own = form.axes
        assert isinstance(left, Element) and left.value is not None
        shared = self.names[left.value.op]
        if form.operands[0] != shared or any(axis.strides[-1] != axis.strides[1] for axis in own) or form.triangle:
            raise UncoveredError("two matrix products in one forward are covered where they lie alike.")
        assert form.second is not None and second.value is not None
        return gemm_form.narrowed(form, Second(self.names[second.value.op], form.second.codes))


Cut = tuple[Axis, Axis, Triangle]


def _triangle(body: Node) -> tuple[Node, Cut | None]:
    """What triu or tril cut, and the row, the column and the half that it keeps."""
    inside = body.args[0] if body.op == "select" else None
    if not isinstance(inside, Element) or inside.kind != "within" or body.args[2].kind != "const":
        return body, None
    (index,), last = inside.indices, inside.extent - 1
    (one, times), *more = index.terms
    plain = len(more) == 1 and {times, more[0][1]} == {1, -1} and index.bounds[0] >= 0
    if not plain or not isinstance(one, Axis) or not isinstance(more[0][0], Axis) or body.args[2].payload[0] != 0:
        raise UncoveredError("triu and tril are covered on the untransposed product of two matrices only.")
    # Axes are in their order in an index: the row comes before the column.
    row, column, offset = one, more[0][0], last - index.offset
    half = Triangle("lower", offset) if times == -1 else Triangle("upper", -offset)
    return body.args[1], (row, column, half)


def _mirrored(cut: Cut, found: Mapping[str, list[gemm_form.Axis]], loops: Loops) -> Triangle:
    """The triangle as n - m has it. Raises UncoveredError where rows and columns are not the product's."""
    row, _, triangle = cut
    if len(found["m"]) != 1 or len(found["n"]) != 1:
        raise UncoveredError("a triangle of a product whose rows or columns do not merge is not covered.")
    straight = found["m"][0].strides[2] == loops.indices[0].times(row)
    return triangle if straight else triangle.mirrored


def _role(
    own: gemm_form.Axis, axis: Axis, loops: Loops, cut: Cut | None, found: Mapping[str, list[gemm_form.Axis]]
) -> str:
    """What a loop is to the product, by who moves along it."""
    a, b = (step != 0 for step in own.strides[:2])
    if axis in loops.groups[1]:
        return "k"
    if not (a or b) and not any(place.uses(axis) for place in loops.indices[1:]):
        raise UncoveredError("repeating the product along a new dimension is not covered.")
    if cut and axis not in cut[:2]:
        return "batch"
    if a or b:
        return "batch" if a and b else "m" if a else "n"
    return next((role for role in ("m", "n") if not found[role]), "batch")


def _step(index: Index, axis: Axis) -> int:
    step = index.times(axis)
    if step is None or step < 0:
        raise UncoveredError("an operand whose dimensions do not line up with the product's is not covered.")
    return step


def _check(addresses: Iterable[Index]) -> None:
    if any(index.offset or not all(isinstance(atom, Axis) for atom, _ in index.terms) for index in addresses):
        raise UncoveredError("a part of an operand that begins behind its first element is not covered.")


def _elements(*nodes: Node) -> Iterator[Element]:
    yield from (node for node in nodes if isinstance(node, Element))


def _scaled(node: Node) -> tuple[Element, list[tuple[Node, int]]]:
    """A read, and the products and quotients with numbers around it, each with the place of the read's side."""
    if isinstance(node, Element) and node.kind == "read":
        return node, []
    place = next((k for k, arg in enumerate(node.args) if not arg.uniform), 0)
    if len(node.args) != 2 or node.op not in ("mul", "div")[: 2 - place] or not node.args[1 - place].uniform:
        raise UncoveredError(f"{node.origin or 'a number'} of an operand is not covered, of the product it is.")
    read, more = _scaled(node.args[place])
    return read, [*more, (node, place)]


def _only_results_in_place(problem: Problem) -> None:
    """Raise UncoveredError where the forward writes to an argument of the call."""
    given = {argument.name for argument in problem.arguments}
    for op in problem.ops:
        given |= {alias for alias, source in aliases(op) if source in given}
        name, first = base_name(op.target), next(iter(op.args), None)
        writes = name.endswith("_") and name[:-1] not in ALIASING
        if writes and isinstance(first, Ref) and first.ref in given:
            raise UncoveredError(f"{op.target} in place on an argument of the call is not covered.")


def _one_dtype(problem: Problem) -> str:
    atoms = (atom for op in problem.ops for each in op.args for atom in (each if isinstance(each, tuple) else (each,)))
    read = {atom.ref for atom in atoms if isinstance(atom, Ref)}
    given = [each for each in problem.parameters if each.name in read]  # a batch norm also counts its batches
    tensors = [each for each in (*problem.inputs, *given, *problem.outputs) if not isinstance(each, Scalar)]
    dtypes = {tensor.dtype for tensor in (*tensors, *(result for op in problem.ops for result in op.results))}
    if len(dtypes) != 1 or not dtypes <= BYTES.keys():
        raise UncoveredError(f"the GEMM recipe covers {', '.join(BYTES)}, one of them; this has {sorted(dtypes)}.")
    return dtypes.pop()
