"""Attention found among values: softmax(score(q k^T)) v of one head after the other, however it was spelled.

A weight is exp(x - max x) / sum exp(x - max x); a score x is any expression of one product of q and k, of other
arguments and of positions. Masks that show a band of keys around the diagonal become bounds, not scores.

Query heads that read the same keys become rows of one head, where rows are few: a block reads the keys once for all.

Decoding is bound by the bytes of K and V. With a block for each query head, 32 heads of 8 brought each key four times
from the L2 cache: 16 x 32 heads of 128 columns, 4096 keys, took 0.188 ms on an H200, 5.7e12 bytes a second of that
cache, while the 268e6 bytes that memory holds take 0.056 ms at its 4.8e12.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Data, Index, Quotient, Remainder, along, linear, number
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import Element, Value, Values, elements, reads
from knowledge.compiler.ir.rewriting import Inliner
from knowledge.compiler.lower.front import traced
from knowledge.compiler.problem import Problem, Tensor, base_name
from knowledge.compiler.schedule.attention.masks import Band, band_of

SCORE = "s"
"""The total among a score's elements that is the product of q and k."""


@dataclass(frozen=True)
class Operand:
    """q, k, v or the result: where a head begins, then the steps of its rows and columns, in elements."""

    tensor: Tensor
    start: Index
    row: int
    column: int


@dataclass(frozen=True)
class Attention:
    """One attention over the axes `heads`. `score` is an element of the total `s`, of `row` and `key`; None: s itself.

    A row sees no key outside `band`, nor one for which `shown` is false, a condition of anything but `s`; None: no more
    is known. `safe`: a row that sees no key is 0, else NaN.
    """

    graph: Values
    dtype: str
    heads: tuple[Axis, ...]
    row: Axis
    key: Axis
    inner: int
    outer: int
    q: Operand
    k: Operand
    v: Operand
    output: Operand
    scale: float
    score: Node | None
    band: Band
    shown: Node | None
    safe: bool
    memory: Mapping[int, Tensor]


MOST_ROWS = 64
"""Rows together: with more, products take longer than what is read."""


def grouped(form: Attention) -> Attention:
    """The same attention with as many query heads of a key head as rows as there is room for."""
    for axis in form.heads:
        for count in sorted(_counts(form, axis), reverse=True):
            made = _gathered(form, axis, count)
            if made is not None:
                return made
    return form


def _counts(form: Attention, axis: Axis) -> Iterator[int]:
    """How many neighbours of an axis of heads may have the same keys."""
    atoms = [*form.k.start.atoms(), *form.v.start.atoms()]
    found = {atom.by for atom in atoms if isinstance(atom, Quotient) and atom.of.uses(axis)} | {axis.extent}
    parts = {part for each in found for part in range(2, MOST_ROWS // form.row.extent + 1) if each % part == 0}
    return (each for each in parts if axis.extent % each == 0)


def _gathered(form: Attention, axis: Axis, count: int) -> Attention | None:
    """`count` neighbours of that axis as rows; None where keys, values or a mask by position tell them apart."""
    rows = form.row.extent
    first, keys = form.band.first, form.key.extent
    seen = (first is None or first <= 1 - rows) and form.band.reach(0, keys) == keys
    head, row = Axis(axis.name, axis.extent // count), Axis("c3", count * rows)
    places = {axis: along(head) * count + along(row) // rows, form.row: along(row) % rows}
    k, v = (replace(each, start=_at(each.start, places)) for each in (form.k, form.v))
    q, output = (_with_rows(each, form.row, row, places) for each in (form.q, form.output))
    if not seen or k.start.uses(row) or v.start.uses(row) or q is None or output is None:
        return None
    score, shown = (
        each and form.graph.rewritten(each, places, lambda inner: inner) for each in (form.score, form.shown)
    )
    heads = tuple(head if each == axis else each for each in form.heads)
    return replace(
        form, heads=heads, row=row, q=q, k=k, v=v, output=output, score=score, shown=shown, band=Band()
    )  # fmt: skip


def _at(start: Index, places: Mapping[Axis, Index]) -> Index:
    return start.at(places, lambda data: data)


def _with_rows(operand: Operand, old: Axis, row: Axis, places: Mapping[Axis, Index]) -> Operand | None:
    """q or the result over the new rows, where one step leads from each to the next."""
    address = _at(operand.start + along(old) * operand.row, places)
    step = address.times(row)
    return None if step is None else replace(operand, start=_at(address, {row: number(0)}), row=step)


TYPES = ("float32", "float16", "bfloat16")
# Terms of a sum within the scores that are computed for each of them.
MOST_TERMS = 32


@dataclass(frozen=True)
class _Weights:
    """What is multiplied with v: the scores over a product's axes, and that product's read among them."""

    scores: Node
    product: Element
    safe: bool


@kept(16)
def attention_of(problem: Problem) -> Attention:
    """The problem as one attention, on a GPU `grouped`. Raises `UnwritableError` where it is none that has a place."""
    names = [base_name(op.target) for op in problem.ops]
    spelled = "softmax" in " ".join(names) or names.count("exp")
    if "scaled_dot_product_attention" not in names and not (spelled and len(names) > 2):
        raise UnwritableError("a forward without attention")
    made = _Search(problem).result()
    return grouped(made) if problem.on_gpu else made


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise UnwritableError(what)


class _Search:
    """Looks for it from the result on: `product` is the last one, of weights and values, `last` the read of it."""

    def __init__(self, problem: Problem) -> None:
        lowered = traced(problem)
        self.graph = lowered.graph
        self.given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
        self.inliner = Inliner(self.graph, lambda value: value.kind != "map")
        _require(len(lowered.outputs) == 1, "an attention whose scores are of use later on")
        ((self.output, root),) = lowered.outputs
        _require(isinstance(root, Value) and root.shape == self.output.shape, "an attention of constants")
        assert isinstance(root, Value)
        self.root = root
        own = self.graph.read(root, tuple(map(along, root.axes)))
        self.last = _read(bare(self.inliner.body(root) if root.kind == "map" else own))
        self.product = _reduced(self.last, "sum")
        (self.key,) = self.product.reduced

    def result(self) -> Attention:
        """The attention. Raises `UnwritableError`."""
        weights, v = self._weighted()
        columns = Axis("c0", _reduced(weights.product, "sum").reduced[0].extent)
        q, k, factor = self._factors(weights.product, columns)
        row, outer = self._row_and_outer(q, k, v, weights.scores)
        scale, score, band, shown = self._score(weights, factor, row)
        _require(score is None or not any(_uses(each, outer) for each in reads(score)), "scores of each column")
        memory = {id(each.value): self._tensor(each) for each in (q, k, v, *(reads(score) if score else ()))}
        made = Attention(
            self.graph, self.output.dtype, tuple(axis for axis in self.product.axes if axis not in (row, outer)), row,
            self.key, columns.extent, outer.extent,
            self._operand(q, row, columns), self._operand(k, self.key, columns), self._operand(v, self.key, outer),
            _placed(self.output, self._inverse(), row, outer), scale, score, band, shown, weights.safe,
            memory,
        )  # fmt: skip
        _check(made)
        return made

    def _tensor(self, read: Element) -> Tensor:
        assert read.value is not None
        return self.given[read.value.op]

    def _weighted(self) -> tuple[_Weights, Element]:
        """The two factors of the last product: weights and values."""
        body = bare(self.inliner.body(self.product))
        _require(body.op == "mul", "no product at the end")
        for one, other in (body.args, body.args[::-1]):
            if _is_argument(bare(other)) and not _is_argument(bare(one)):
                return self._weights(bare(one)), _read(bare(other))
        raise UnwritableError("values that are computed")

    def _weights(self, node: Node) -> _Weights:
        sought: Node | None = None
        if node.op == "select":
            sought, nothing, node = (bare(arg) for arg in node.args)
            _require(
                sought.op == "eq" and (_number(sought.args[1]), _number(nothing)) == (-math.inf, 0), "another mask"
            )
        _require(node.op == "div", "weights that are no softmax")
        powers, total = (bare(arg) for arg in node.args)
        _require(powers.op == "exp" and bare(powers.args[0]).op == "sub", "weights that are no softmax")
        scores, top = (bare(arg) for arg in bare(powers.args[0]).args)
        self._same(total, "sum", powers)
        self._same(top, "amax", scores)
        _require(sought is None or bare(sought.args[0]) is top, "another mask")
        scores = self.graph.rewritten(scores, {}, self._written_out)
        products = {id(each): each for each in reads(scores) if not _is_argument(each)}
        _require(len(products) == 1, "scores of more than one product")
        return _Weights(scores, next(iter(products.values())), sought is not None)

    def _written_out(self, read: Element) -> Node:
        """A short sum of whole numbers term by term, such as how many offsets lie at or before a place."""
        value = read.value
        if value is None or (value.kind, value.op) != ("reduce", "sum") or not value.dtype.startswith("int"):
            return read
        (over,) = value.reduced if len(value.reduced) == 1 else (None,)
        if over is None or over.extent > MOST_TERMS:
            return read
        body, places = self.inliner.body(value), dict(zip(value.axes, read.indices, strict=True))
        terms = [
            self.graph.rewritten(body, {**places, over: number(at)}, lambda inner: inner) for at in range(over.extent)
        ]
        return reduce(lambda sum_, term: self.graph.element("add", value.dtype, sum_, term), terms)

    def _same(self, read: Node, op: str, of: Node) -> None:
        """A reduction along the keys of the very elements that `of` is one of."""
        value = _reduced(read, op)
        _require(value.reduced[0].extent == self.key.extent, "weights that are no softmax")
        _require(bare(self._at(value, _read(read), self.key)) is of, "weights that are no softmax")

    def _at(self, value: Value, read: Element, over: Axis) -> Node:
        """What a reduction is taken of, where `read` reads it."""
        places = dict(zip((*value.axes, *value.reduced), (*read.indices, along(over)), strict=True))
        return self.graph.rewritten(self.inliner.body(value), places, lambda inner: inner)

    def _factors(self, read: Element, columns: Axis) -> tuple[Element, Element, float]:
        """The reads of q and k over the axes of the last product, and a number that goes with both together."""
        body = bare(self._at(_reduced(read, "sum"), read, columns))
        _require(body.op == "mul", "scores that are no product")
        (left, one), (right, other) = (_scaled(arg) for arg in body.args)
        _require(_is_argument(left) and _is_argument(right), "q or k that is computed")
        q, k = _read(left), _read(right)
        return (k, q, one * other) if _uses(q, self.key) else (q, k, one * other)

    def _row_and_outer(self, q: Element, k: Element, v: Element, scores: Node) -> tuple[Axis, Axis]:
        """The axis of q's rows (the last that neither k nor v goes along), and that of v's columns."""
        masks = [each for each in reads(scores) if _is_argument(each)]
        rows = [axis for axis in self.product.axes if _uses(q, axis) and not _uses(k, axis) and not _uses(v, axis)]
        outer = [
            axis for axis in self.product.axes if _uses(v, axis) and not any(_uses(x, axis) for x in (q, k, *masks))
        ]
        _require(len(outer) < 2, "values of several dimensions")
        return rows[-1] if rows else Axis("c1", 1), outer[0] if outer else Axis("c2", 1)

    def _score(self, weights: _Weights, factor: float, row: Axis) -> tuple[float, Node | None, Band, Node | None]:
        """Scale, what else the scores are, the keys that a row sees, and what else is true of them."""
        graph, product = self.graph, weights.product
        base = graph.total(SCORE, product.dtype)
        if factor != 1:
            base = graph.element("mul", product.dtype, base, graph.const(factor, product.dtype))
        node = graph.rewritten(weights.scores, {}, lambda read: base if read is product else read)
        band, rest, conditions = band_of(graph, bare(node), row, self.key)
        scale = _scale(bare(rest))
        if scale is not None:
            return scale, None, band, None
        conditions = [each for each in conditions if all(node.kind != "total" for node in elements(each))]
        shown = reduce(lambda one, other: graph.element("and", "bool", one, other), conditions) if conditions else None
        return 1.0, bare(rest), band, shown

    def _operand(self, read: Element, row: Axis, column: Axis) -> Operand:
        _require(not read.partial, "attention over padding")
        tensor = self._tensor(read)
        return _placed(tensor, linear(read.indices, tensor.strides), row, column)

    def _inverse(self) -> Index:
        """Where the last product's element goes, over the product's axes."""
        places: dict[Axis, Index] = {}
        for axis, index in zip(self.product.axes, self.last.indices, strict=True):
            for mine, part in _parts(along(axis), index):
                places[mine] = places.get(mine, number(0)) + part
        for axis, index in zip(self.product.axes, self.last.indices, strict=True):
            _require(index.at(places, lambda data: data) == along(axis), "a result in another order")
        here = [places.get(axis, number(0)) for axis in self.root.axes]
        missing = any(axis not in places for axis in self.root.axes if axis.extent != 1)
        _require(not missing and self.root.numel == self.product.numel, "a result in another order")
        return linear(here, self.output.strides)


def _parts(axis: Index, index: Index) -> list[tuple[Axis, Index]]:
    """What an axis of a product adds to the axes of the result, from the product's index over these."""
    if len(index.terms) == 1 and index.terms[0][1] == 1:
        atom, by = index.terms[0][0], 1
        if isinstance(atom, Remainder):
            atom, axis = (atom.of.terms[0][0], axis) if len(atom.of.terms) == 1 else (atom, axis)
        if isinstance(atom, Quotient) and len(atom.of.terms) == 1:
            by, atom = atom.by, atom.of.terms[0][0]
        return [(atom, axis * by)] if isinstance(atom, Axis) else []
    return [(atom, axis // times % atom.extent) for atom, times in index.terms if isinstance(atom, Axis) and times > 0]


def _placed(tensor: Tensor, address: Index, row: Axis, column: Axis) -> Operand:
    steps = (address.times(row), address.times(column))
    _require(None not in steps and not any(isinstance(each, Data) for each in address.atoms()), "scattered operands")
    start = address.at({row: number(0), column: number(0)}, lambda data: data)
    return Operand(tensor, start, steps[0] or 0, steps[1] or 0)


def _check(made: Attention) -> None:
    kinds = {each.tensor.dtype for each in (made.q, made.k, made.v, made.output)}
    _require(kinds == {made.dtype} and made.dtype in TYPES, f"attention of {' and '.join(sorted(kinds))}")
    extents = (made.row.extent, made.key.extent, made.inner, made.outer, *(axis.extent for axis in made.heads))
    _require(min(extents) > 0, "attention over nothing")


def bare(node: Node) -> Node:
    """Without changes of the element type around it."""
    while node.op == "cast" and node.args[0].dtype != "bool":
        (node,) = node.args
    return node


def _read(node: Node) -> Element:
    _require(isinstance(node, Element) and node.kind == "read" and not node.partial, "no attention at the end")
    assert isinstance(node, Element)
    return node


def _reduced(node: Node, op: str) -> Value:
    """The value of one reduced dimension that a read reads."""
    value = _read(node).value
    _require(value is not None and (value.kind, value.op) == ("reduce", op), "weights that are no softmax")
    assert value is not None
    _require(len(value.reduced) == 1, "products over several dimensions")
    return value


def _is_argument(node: Node) -> bool:
    return isinstance(node, Element) and node.kind == "read" and node.value is not None and node.value.kind == "source"


def _uses(read: Element, axis: Axis) -> bool:
    return any(index.uses(axis) for index in read.indices)


def _number(node: Node) -> float | None:
    node = bare(node)
    return float(node.payload[0]) if node.kind == "const" else None


def _scaled(node: Node) -> tuple[Node, float]:
    """A node as another one times a number."""
    node, factor = bare(node), 1.0
    while node.op in ("mul", "div") and len(node.args) == 2:
        one, other = node.args
        if (by := _number(other)) is not None and by:
            node, factor = bare(one), factor * by if node.op == "mul" else factor / by
        elif node.op == "mul" and (by := _number(one)) is not None:
            node, factor = bare(other), factor * by
        else:
            break
    return node, factor


def _scale(node: Node) -> float | None:
    """By what the product is multiplied, where a score is nothing else; above 0."""
    inner, factor = _scaled(node)
    return factor if inner.kind == "total" and 0 < factor < math.inf else None
