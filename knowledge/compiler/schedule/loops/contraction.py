"""Sums of products of two reads as a product of matrices: which loops are its rows, its columns and its K.

    out[b, m, n] = sum over k of left[b, m, k] * right[b, n, k]

A loop that both operands see is a batch; of what one sees alone are rows m or columns n. For a convolution m is a
channel that comes out, n a place, k a channel that goes in with its taps; groups are batches, and so are the phases of
a transposed convolution's stride, once the loops that quotients and remainders run over are split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Atom, Axis, Data, Index, Quotient, along
from knowledge.compiler.ir.nodes import Element, Values
from knowledge.compiler.ir.rewriting import cuts
from knowledge.compiler.passes.loops import Nest, Total, count, indices_of

# Dimensions of the right operand that a window may leave: as many steps as fit into four words beside the address.
STEPPED = 3
INT_SPAN = 1 << 31
# K of a tile in shared memory.
TILE = 16
# Columns of the smallest tile.
FEW_COLUMNS = 32


@dataclass(frozen=True)
class Stepped:
    """An index of the right operand as what its row says and what k adds; it must be below `extent`."""

    row: Index
    step: Index
    extent: int


@dataclass(frozen=True)
class Contraction:
    """A nest with one total, its loops sorted. `inside` are conditions on a result's place, each below its extent.

    `address` is the right operand's; `stepped` its indices that may miss it and that k has a part in, `guards` the
    others. `direct`: the left operand lies row by row with K contiguous, to be read in words of four elements.
    `spares`: a step counts only where both operands have an element, else one may be read beside the other's zero.
    `interleaved`: the same with two phases of the fastest loop as neighbouring rows, where that costs no further k.
    `turned`: the same with the operands in each other's place, where that is one, too.
    """

    nest: Nest
    left: Element
    right: Element
    batch: tuple[Axis, ...]
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    k: tuple[Axis, ...]
    inside: tuple[tuple[Index, int], ...]
    address: Stepped
    stepped: tuple[Stepped, ...]
    guards: tuple[tuple[Index, int], ...]
    spares: bool
    interleaved: Contraction | None = None
    turned: Contraction | None = None

    @property
    def total(self) -> Total:
        """The sum."""
        return self.nest.totals[0]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batches, M, N, K."""
        return count(self.batch), count(self.m), count(self.n), count(self.k)

    @property
    def direct(self) -> bool:
        """Whether the left operand is read where it lies."""
        address = self.nest.address(self.left)
        if (
            self.left.dtype != "float32"
            or self.nest.guards(self.left)
            or not _sum_of_axes(address)
            or len(self.m) > 1
            or count(self.k) % 4
        ):
            return False
        step = 1
        for axis in reversed(self.k):
            if axis.extent > 1 and address.times(axis) != step:
                return False
            step *= axis.extent
        outer = (address.times(axis) or 0 for axis in (*self.batch, *self.m))
        return address.offset % 4 == 0 and all(each % 4 == 0 and each < INT_SPAN for each in outer)

    @property
    def stores_apart(self) -> bool:
        """Whether neighbouring columns are no neighbours in memory."""
        return not self.n or self.nest.stores[0].address.times(self.n[-1]) != 1

    @property
    def down(self) -> bool:
        """Whether a result's neighbours are the rows beside it."""
        address = self.nest.stores[0].address
        return bool(self.m) and address.times(self.m[-1]) == 1 and self.m[-1].extent >= TILE

    @property
    def k_major(self) -> bool:
        """Whether the right operand's neighbours in memory are k's, and not columns."""
        apart = self.address.row.times(self.n[-1]) if self.n else None
        near = self.k and self.address.step.times(self.k[-1]) == 1 and self.k[-1].extent >= 4
        return bool(near and (apart is None or not 1 <= apart <= 4))

    @property
    def apart(self) -> int:
        """Elements between the k's of a tile, which are inside or not together; 0 where each has its own step."""
        last = self.k[-1]
        even = last.extent % TILE == 0 and not any(each.step.uses(last) for each in self.stepped)
        return (self.address.step.times(last) or 0) if even else 0

    @property
    def wide(self) -> bool:
        """Whether four neighbours of the right operand always lie together, aligned, and inside or not together."""
        return self.together(4)

    def together(self, width: int) -> bool:
        """The same of `width` neighbours."""
        fast = self.k[-1] if self.k_major else self.n[-1] if self.n else None
        if fast is None or fast.extent % width:
            return False
        parts = (self.address.row, self.address.step)
        steps = [(atom, times) for part in parts for atom, times in part.terms]
        others = [(atom, times) for atom, times in steps if atom != fast]
        if dict(steps).get(fast) != 1 or any(Index(((atom, 1),)).uses(fast) for atom, _ in others):
            return False
        if any(part.offset % width for part in parts) or any(times % width for _, times in others):
            return False
        moved = [index for each in self.stepped for index in (each.row, each.step)]
        return not any(index.uses(fast) for index in (*moved, *(index for index, _ in self.guards)))


def contraction(nest: Nest, graph: Values) -> Contraction | None:
    """The nest as a product of matrices; None where it is none, or an index mixes columns with K."""
    if (
        len(nest.totals) != 1
        or nest.scanned
        or nest.stepped
        or nest.totals[0].op != "sum"
        or not _products(nest.totals[0])
    ):
        return None
    if any(isinstance(atom, Data) for index in indices_of(nest) for atom in index.atoms()):
        return None
    plain = _spared(nest, graph)
    split, inside = _split(plain, graph)
    tried = (_in_tiles(split, inside, graph, flipped) for flipped in (False, True))
    found = sorted((replace(each, spares=plain != nest) for each in tried if each), key=_packed)
    if not found:
        return None
    return replace(found[0], interleaved=_interleaved(found[0], inside, graph), turned=dict(enumerate(found)).get(1))


def _interleaved(made: Contraction, inside: tuple[tuple[Index, int], ...], graph: Values) -> Contraction | None:
    """With a batch of two phases, whose results lie between each other, as the fastest rows.

    The phase moves the right operand's place by some steps of one k. Counted from there, k moves the left one instead.
    """
    store = made.nest.stores[0].address
    phase = next((axis for axis in made.batch if axis.extent == 2 and store.times(axis) == 1), None)
    if phase is None or not made.n or store.times(made.n[-1]) != 2:
        return None
    moved = [each for each in made.stepped if phase in _under(each.row)]
    taps = {axis for each in moved for axis in _under(each.step)}
    if len(moved) != 1 or len(taps) != 1:
        return None
    (tap,) = taps
    shift = Index(tuple(term for term in moved[0].row.terms if _under(Index((term,))) == {phase}))
    if moved[0].step.times(tap) == 1:
        shift = shift * -1
    elif moved[0].step.times(tap) != -1:
        return None
    low, high = shift.bounds
    guards = [(index, extent) for index, extent in _extents(made.left) if index.uses(tap)]
    found = [
        step
        for step in range(tap.extent + high - low)
        if all(_meets(index.at({tap: shift + (step - high)}, lambda data: data), extent) for index, extent in guards)
    ]
    if len(found) != tap.extent or found[-1] - found[0] >= len(found):
        return None

    nest = made.nest.rewritten(graph, {tap: along(tap) + shift + (found[0] - high)})
    last = made.k[-1] if made.k[-1].extent == TILE else None
    again = _sorted(nest, inside, _operands(made.nest)[0] is made.right, last)
    return again and replace(again, spares=True)


def _extents(read: Element) -> Iterator[tuple[Index, int]]:
    assert read.value is not None
    return zip(read.indices, read.value.shape, strict=True)


def _meets(index: Index, extent: int) -> bool:
    low, high = index.bounds
    return high >= 0 and low < extent


def _spared(nest: Nest, graph: Values) -> Nest:
    """Without what moves one operand's index out of reach wherever the other operand is missed.

    Such an index (a transposed convolution's, for taps beyond its filter) mixes columns with K.
    """
    guards = {pair for read in _operands(nest) for pair in nest.guards(read)}

    def needless(atom: Atom, times: int, rest: Index, extent: int) -> bool:
        outside = isinstance(atom, Quotient) and (atom.of, atom.by) in guards and min(atom.of.bounds) >= 0
        return outside and min(rest.bounds) + times >= extent

    def plain(read: Element) -> Node:
        assert read.value is not None
        indices = list(read.indices)
        for position, extent in enumerate(read.value.shape):
            for atom, times in read.indices[position].terms:
                rest = indices[position] - Index(((atom, times),))
                if needless(atom, times, rest, extent):
                    indices[position] = rest
        return graph.read(read.value, tuple(indices), partial=True)

    totals = tuple(replace(total, body=graph.rewritten(total.body, {}, plain)) for total in nest.totals)
    return replace(nest, totals=totals)


def _in_tiles(nest: Nest, inside: tuple[tuple[Index, int], ...], graph: Values, flipped: bool) -> Contraction | None:
    """With `TILE` neighbouring k's that are inside or not together as the last loop, where there is one like that."""
    made = _sorted(nest, inside, flipped, None)
    if made is None:
        return None
    even = [axis for axis in made.k if axis.extent % TILE == 0 and made.address.step.times(axis) is not None]
    even = [axis for axis in even if not any(each.step.uses(axis) for each in made.stepped)]
    axis = next(iter(sorted(even, key=lambda axis: made.address.step.times(axis) != 1)), None)
    if axis is None or axis.extent == TILE:
        return _sorted(nest, inside, flipped, axis)
    outer, inner = Axis(axis.name, axis.extent // TILE), Axis(f"{axis.name}p", TILE)
    reduced = tuple(new for old in nest.reduced for new in ((outer, inner) if old == axis else (old,)))
    cut = nest.rewritten(graph, {axis: along(outer) * TILE + along(inner)}, reduced=reduced)
    return _sorted(cut, inside, flipped, inner)


def _products(total: Total) -> bool:
    body = total.body
    return body.op == "mul" and all(_read(arg) for arg in body.args)


def _read(arg: Node) -> Element | None:
    """What a factor reads; of 16 bits that are widened, the read: tensor cores take them as they are."""
    if arg.op == "cast" and arg.dtype == "float32" and arg.args[0].dtype in ("float16", "bfloat16"):
        (arg,) = arg.args
    return arg if isinstance(arg, Element) and arg.kind == "read" else None


def _operands(nest: Nest) -> tuple[Element, Element]:
    one, other = map(_read, nest.totals[0].body.args)
    assert one is not None and other is not None
    return one, other


def _packed(made: Contraction) -> tuple[int, bool, bool]:
    """Elements of the left operand that have to be packed; whether columns are few; whether results are apart."""
    batches, rows, columns, steps = made.sizes
    return 0 if made.direct else batches * rows * steps, columns < FEW_COLUMNS, made.stores_apart


def _split(nest: Nest, graph: Values) -> tuple[Nest, tuple[tuple[Index, int], ...]]:
    """The loops split so that quotients and remainders of them go, as far as they do."""
    inside: list[tuple[Index, int]] = []
    while cut := next(_cuts(nest), None):
        axis, by = cut
        letters = sum(each.name.startswith(axis.name) for each in (*nest.axes, *nest.reduced)) * "p"
        outer, inner = Axis(axis.name, -(-axis.extent // by)), Axis(axis.name + letters, by)
        place = along(outer) * by + along(inner)
        axes, reduced = (
            tuple(new for old in loops for new in ((outer, inner) if old == axis else (old,)))
            for loops in (nest.axes, nest.reduced)
        )
        inside = [(index.at({axis: place}, lambda data: data), extent) for index, extent in inside]
        if axis.extent % by:
            inside.append((place, axis.extent))
        nest = nest.rewritten(graph, {axis: place}, axes=axes, reduced=reduced)
    return nest, tuple(inside)


def _cuts(nest: Nest) -> Iterator[tuple[Axis, int]]:
    """The loops under a quotient or a remainder, each with what it has to be split by; of K only in whole tiles."""
    of_reads = ((nest.address(read), *(index for index, _ in nest.guards(read))) for read in _operands(nest))
    for axis, by in cuts(chain.from_iterable(of_reads)):
        if axis in nest.axes or (axis in nest.reduced and by % TILE == 0 and axis.extent % by == 0):
            yield axis, by


def _sorted(nest: Nest, inside: tuple[tuple[Index, int], ...], flipped: bool, last: Axis | None) -> Contraction | None:
    """The loops by who sees them, `last` as the fastest of K."""
    right, left = _operands(nest) if flipped else reversed(_operands(nest))
    seen = [_seen(nest, read) for read in (left, right)]
    loops: dict[tuple[bool, ...], list[Axis]] = {}
    for axis in nest.axes:
        if axis.extent != 1:
            loops.setdefault(tuple(axis in each for each in seen), []).append(axis)
    k = [axis for axis in nest.reduced if axis.extent != 1]
    if (False, False) in loops or not k:
        return None
    address = _parted(nest.address(right), INT_SPAN, k)
    guards = [_parted(index, extent, k) for index, extent in nest.guards(right)]
    if address is None or None in guards:
        return None
    stepped = [each for each in guards if each is not None and each.step.terms]
    fixed = [(each.row, each.extent) for each in guards if each is not None and not each.step.terms]
    apart = {axis for each in stepped for axis in _under(each.row) if each.row.times(axis) is None}
    near = [last] if last else [axis for axis in k if address.step.times(axis) == 1 and axis.extent >= 4]
    k = [*(axis for axis in k if axis not in near[:1]), *near[:1]]
    batch, m, n = (_by_stride(nest, loops.get(key, [])) for key in ((True, True), (True, False), (False, True)))
    batch, n = (*batch, *(axis for axis in n if axis in apart)), tuple(axis for axis in n if axis not in apart)
    far = max(map(abs, address.step.bounds)) >= INT_SPAN
    if len(stepped) > STEPPED or far or any({*_under(each.step)} & {*batch} for each in (address, *stepped)):
        return None
    return Contraction(nest, left, right, batch, m, n, tuple(k), inside, address, tuple(stepped), tuple(fixed), False)


def _seen(nest: Nest, read: Element) -> set[Axis]:
    indices = (nest.address(read), *(index for index, _ in nest.guards(read)))
    return {axis for index in indices for axis in _under(index)}


def _under(index: Index) -> set[Axis]:
    return {atom for atom in index.atoms() if isinstance(atom, Axis)}


def _sum_of_axes(index: Index) -> bool:
    return all(isinstance(atom, Axis) for atom, _ in index.terms)


def _by_stride(nest: Nest, axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Neighbouring results last."""
    address = nest.stores[0].address
    return tuple(sorted(axes, key=lambda axis: -abs(address.times(axis) or INT_SPAN)))


def _parted(index: Index, extent: int, k: list[Axis]) -> Stepped | None:
    """What K adds apart from the rest; None where one term has both."""
    mine = {term: _under(Index((term,))) & {*k} for term in index.terms}
    if any(own and not own >= _under(Index((term,))) for term, own in mine.items()):
        return None
    step = Index(tuple(term for term in index.terms if mine[term]))
    return Stepped(Index(tuple(term for term in index.terms if not mine[term]), index.offset), step, extent)
