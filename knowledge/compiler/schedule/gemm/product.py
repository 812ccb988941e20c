"""Products of matrices among the values, with all that follows them: loops and strides, then steps in C++.

The output is taken down to sums of products of two reads: each of an argument, maybe times numbers. Its loops are the
output's, split where a reshape runs over them; where both operands move it is a batch, where one does m or n.

What follows a product on one element of its result, as C++ statements: `x` is the element, `d0`, `d1`, ... others.

One statement a traced operation, `x = ...`, over what all of the expression goes through; what one of them needs twice
is named before it. Of two products the second's own element is `u`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from harness.nouns.aten import ALIASING, of_kinds
from knowledge.compiler.emit.elements import literal
from knowledge.compiler.emit.source_text import identifiers
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Index, along, axes, linear
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import Element, Value, elements, reads
from knowledge.compiler.ir.primitives import PRIMITIVES
from knowledge.compiler.ir.rewriting import Inliner, Loops
from knowledge.compiler.lower.contracting import CONTRACTING
from knowledge.compiler.lower.einsum import EINSUM
from knowledge.compiler.lower.front import traced
from knowledge.compiler.lower.writes import aliases
from knowledge.compiler.problem import Problem, Ref, Scalar, Tensor, base_name
from knowledge.compiler.schedule.gemm import form as gemm_form
from knowledge.compiler.schedule.gemm.form import BYTES, SCALAR_PREFIX, Form, Second, Triangle, UncoveredError

# NaN stays NaN, on either side.
EXTREMA = {"maximum": ("<", ">="), "minimum": (">", "<=")}
# Steps longer than this, in statements, would be computed for every element in registers that the product needs.
MOST = 60


class Steps:
    """The statements; `operands` are the reads that they call d0, d1, ... in that order."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.operands: list[Element] = []
        self.of_second: tuple[str, ...] = ()
        self._known: dict[int, str] = {}
        self._locals = 0

    def of(self, body: Node, *, second: bool = False) -> tuple[str, ...]:
        """From the total x to the body; of two products, what is done to u alone goes to `of_second`."""
        totals = {node.op: node for node in elements(body) if node.kind == "total"}
        if "x" not in totals:
            raise UncoveredError("the forward holds no matrix product that the output comes from.")
        own: list[Node] = []
        if second:
            own = self.alone(body, totals["u"], totals["x"])
            self._known[id(own[-1])] = "u"
        made = self._along(_narrows(body, totals["x"]), "x")
        if second:
            del self._known[id(own[-1])]
            self.of_second = tuple(self._along(own, "u"))
        if len(made) > MOST:
            raise UncoveredError("so many operations behind one product are not covered.")
        return tuple(made)

    @staticmethod
    def alone(body: Node, one: Node, other: Node) -> list[Node]:
        """From one total to the last value on its way that the other has no part in."""
        return [node for node in _narrows(body, one) if not any(each is other for each in elements(node))]

    def _along(self, chain: list[Node], name: str) -> list[str]:
        """Statements from one value that all goes through to the next, a traced operation at a time."""
        lines: list[str] = []
        self._known[id(chain[0])] = name
        for begins, node in enumerate(chain[1:], 1):
            if begins + 1 < len(chain) and chain[begins + 1].origin == node.origin:
                continue
            lines += self._statement(node, name)
            self._known = {key: text for key, text in self._known.items() if text != name}
            self._known[id(node)] = name
        return lines

    def _statement(self, root: Node, name: str) -> list[str]:
        """One assignment, after names for what it needs more than once."""
        inner = [node for node in elements(root) if node.kind == "compute" and self._open(root, node)]
        self._check(root, inner)
        uses: Counter[int] = Counter()
        for node in inner:
            twice = node.op in EXTREMA
            for arg in node.args:
                uses[id(arg)] += 1 + twice
        lines, own = [], dict(self._known)
        for node in inner[:-1]:
            if uses[id(node)] > 1 and not node.uniform:
                text = self._text(node)
                self._known[id(node)] = f"y{self._locals}"
                lines.append(f"auto const y{self._locals} = {text}")
                self._locals += 1
        lines.append(f"{name} = {self._text(root)}")
        self._known = own
        return lines

    def _check(self, root: Node, inner: list[Node]) -> None:
        """What another operation makes of an operand alone is a kernel's work before this one, numbers apart."""
        ours = set(self._known)
        for node in inner:
            if any(id(arg) in ours for arg in node.args):
                ours.add(id(node))
            scales = node.op in ("mul", "div") and any(arg.uniform for arg in node.args)
            if not (id(node) in ours or node.uniform or scales or node.origin == root.origin):
                raise UncoveredError(f"{node.origin} of an operand is not covered, of the product it is.")

    def _open(self, root: Node, node: Node) -> bool:
        """Whether a value is computed in a statement, and not known before it."""
        if id(node) in self._known:
            return False
        stack, seen = [root], set()
        while stack:
            each = stack.pop()
            if each is node:
                return True
            if id(each) not in self._known and id(each) not in seen:
                seen.add(id(each))
                stack.extend(each.args)
        return False

    def _text(self, node: Node) -> str:
        """The right-hand side for a value that has no name yet."""
        if node.op == "cast":
            return self._operand(node.args[0], node) if node.args[0].uniform else self._missing(node)
        if node.op in EXTREMA:
            return self._extremum(node)
        template = PRIMITIVES[node.op].element
        if "math::" in template:
            self._missing(node)
        call = template.startswith("std::")
        return template.format(*(self._operand(arg, node, bare=call) for arg in node.args))

    def _extremum(self, node: Node) -> str:
        one, other = (self._operand(arg, node) for arg in node.args)
        beyond, not_less = EXTREMA[node.op]
        if node.args[1].kind == "const":
            return f"{one} {beyond} {other} ? {other} : {one}"
        return f"{one} {not_less} {other} || {one} != {one} ? {one} : {other}"

    def _operand(self, node: Node, user: Node, *, bare: bool = False) -> str:
        """How a statement refers to a value: by its name, or by what it is, in parentheses unless `bare`."""
        if id(node) in self._known:
            return self._known[id(node)]
        if node.kind == "const":
            return literal(bool(node.payload[0]), "bool") if node.dtype == "bool" else _number(node)
        if node.kind == "scalar":
            return SCALAR_PREFIX + self.names[node.op]
        if isinstance(node, Element):
            return self._read(node, user)
        text = self._text(node)
        atom = bare or node.op == "cast" or PRIMITIVES[node.op].element.startswith("std::")
        return text if atom else f"({text})"

    def _read(self, node: Element, user: Node) -> str:
        if node.kind != "read":
            self._missing(user)
        if not any(each is node for each in self.operands):
            self.operands.append(node)
        return f"d{next(k for k, each in enumerate(self.operands) if each is node)}"

    @staticmethod
    def _missing(node: Node) -> str:
        raise UncoveredError(f"{node.origin or node.op} behind a product is not covered.")


def _number(node: Node) -> str:
    value = float(node.payload[0])
    return f"T({int(value)})" if value in (0, 1) else f"T({literal(value, 'float64')})"


def _narrows(root: Node, total: Node) -> list[Node]:
    """The values that every way from the total to the root goes through, the total first."""
    order = {id(node): place for place, node in enumerate(elements(root))}
    over: set[int] = set()
    for node in elements(root):
        if node is total or any(id(arg) in over for arg in node.args):
            over.add(id(node))
    found = [root]
    while found[-1] is not total:
        front = {id(arg): arg for arg in found[-1].args if id(arg) in over}
        while len(front) > 1:
            last = front.pop(max(front, key=order.__getitem__))
            front |= {id(arg): arg for arg in last.args if id(arg) in over}
        found += front.values()
    return found[::-1]


PRODUCTS = tuple(sorted(of_kinds("product") & {*CONTRACTING, *EINSUM}))


def form_of(problem: Problem) -> Form:
    """The product, or two of one operand, in canonical shape. Raises UncoveredError, saying what is in the way."""
    if len(problem.outputs) != 1:
        raise UncoveredError("the GEMM recipe writes exactly one output.")
    if not any(base_name(op.target).removesuffix("_") in PRODUCTS for op in problem.ops):
        raise UncoveredError("the forward holds no matrix product.")
    if any(argument.numel == 0 for argument in problem.arguments if not isinstance(argument, Scalar)):
        raise UncoveredError("the GEMM recipe does not cover empty tensors.")
    return _formed(problem)


@kept(32)
def _formed(problem: Problem) -> Form:
    return _Found(problem).form()


class _Found:
    """The product of a problem. Every method raises UncoveredError where the forward is none."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.dtype = _one_dtype(problem)
        self.given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
        self.names = identifiers(argument.name for argument in problem.arguments)
        _only_results_in_place(problem)
        try:
            made = traced(problem)
        except UnwritableError as failure:
            raise UncoveredError(f"the GEMM recipe does not cover {failure}.") from failure
        self.graph = made.graph
        ((self.tensor, result),) = made.outputs
        self.inliner = Inliner(self.graph, lambda value: value.kind != "map")
        self.body = self.inliner.inlined(self.graph.spread(result, self.tensor.shape))

    def form(self) -> Form:
        """The form, of one product or of two."""
        sums = [read for read in reads(self.body) if read.value is not None and read.value.kind != "source"]
        if not sums:
            raise UncoveredError("the forward holds no matrix product that the output comes from.")
        for value in (each.value for each in sums):
            if value is None or not value.contracts or base_name(value.origin).removesuffix("_") not in PRODUCTS:
                what = value.origin if value is not None and value.origin else "what is computed"
                raise UncoveredError(f"{what} around a product is not covered.")
        if len(sums) > 2:
            raise UncoveredError("more than two values of matrix products are not covered.")
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
