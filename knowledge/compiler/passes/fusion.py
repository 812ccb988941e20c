"""From values to kernels: what is computed where it is read, what ends a kernel, and what lies in memory in between.

A reduction, a scan, a sort or a value of steps is a kernel. A map is computed by those who read it, unless that repeats
more arithmetic than its memory is worth. What else has to be in memory joins the kernel whose results it reads element
by element; what joins none is a kernel of its own. Kernels over the same loops that read the same are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, along, linear, unravelled
from knowledge.compiler.ir.index import number as fixed
from knowledge.compiler.ir.nodes import Element, Value, elements, reads, values
from knowledge.compiler.ir.primitives import PRIMITIVES
from knowledge.compiler.ir.rewriting import Inliner
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.problem import Problem, Tensor


def arena(lives: list[tuple[int, int, Tensor]]) -> tuple[dict[str, int], int]:
    """A place in bytes for each tensor, by the first and the last kernel that needs it, largest first; and the size."""
    if any(isinstance(tensor.numel, Size) for _, _, tensor in lives):
        return _one_after_the_other([tensor for _, _, tensor in lives])
    taken: list[tuple[int, int, int, int]] = []
    places: dict[str, int] = {}
    for first, last, tensor in sorted(lives, key=lambda life: -life[2].numel * BYTES[life[2].dtype]):
        size = _padded(tensor)
        place = 0
        for start, end, begins, ends in sorted(taken):
            if begins <= last and first <= ends and place < end and start < place + size:
                place = end
        places[tensor.name] = place
        taken.append((place, place + size, first, last))
    return places, max((end for _, end, _, _ in taken), default=0)


def _one_after_the_other(tensors: list[Tensor]) -> tuple[dict[str, int], int]:
    """Places where it is not known which of two is larger."""
    places, end = {}, 0
    for tensor in tensors:
        places[tensor.name] = end
        end = end + _padded(tensor)
    return places, end


def _padded(tensor: Tensor) -> int:
    return -(-max(tensor.numel, 1) * BYTES[tensor.dtype] // 256) * 256


# Operations that cost as much as an element's way to memory and back: 8 bytes at 15 operations a byte (an H200's).
WORTH_MEMORY = 120
# What a call of a function costs in operations.
CALL = 8
EXTREMA = frozenset(("amax", "amin", "argmax", "argmin"))


@dataclass(frozen=True)
class Store:
    """An element of a tensor in memory: the kernel's axes place it, `body` is what it holds."""

    tensor: Tensor
    indices: tuple[Index, ...]
    body: Node


@dataclass(frozen=True)
class Kernel:
    """One loop nest: `totals` over the axes, each reduced over `reduced` or one scan or sort, then the stores.

    With `stepped`, all of that at every step of that axis, after the step before it.

    In the stores' bodies a total is the element `total` of its name. Reads are of values that lie in `memory`.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    totals: tuple[tuple[str, Value], ...]
    stores: tuple[Store, ...]
    memory: Mapping[int, Tensor]
    stepped: Axis | None = None

    @property
    def bodies(self) -> tuple[Node, ...]:
        """Every element that it computes."""
        return (*(value.body for _, value in self.totals if value.body), *(store.body for store in self.stores))

    @property
    def scans(self) -> bool:
        """Whether its total is a scan or a sort."""
        return any(value.kind in ("scan", "sort") for _, value in self.totals)


@dataclass(frozen=True)
class Fused:
    """The kernels in their order, what passes between them, and for each such tensor its place in bytes in an arena."""

    kernels: tuple[Kernel, ...]
    between: tuple[Tensor, ...]
    places: Mapping[str, int]
    nbytes: int


@dataclass
class _Open:
    """A kernel while others join it."""

    anchor: Value
    totals: list[Value] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    holds: dict[int, tuple[tuple[Index, ...], Node]] = field(default_factory=dict)

    @property
    def stepped(self) -> Axis | None:
        """The axis that goes step by step."""
        return self.anchor.axes[1] if self.anchor.kind == "steps" else None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The loops, or those of one step."""
        return self.anchor.axes[2:] if self.stepped else self.anchor.axes

    @property
    def loops(self) -> tuple[Axis, ...]:
        """Of steps, all loops; else none, for nothing joins them."""
        return (self.stepped, *self.axes, *self.anchor.reduced) if self.stepped else ()


def fused(problem: Problem, lowered: Lowered, worth: float = WORTH_MEMORY) -> Fused:
    """The kernels of a forward; what is repeated for more than `worth` operations an element lies in memory."""
    return _Fusion(problem, lowered, worth).result()


class _Fusion:
    def __init__(self, problem: Problem, lowered: Lowered, worth: float) -> None:
        self.worth = worth
        self.graph = lowered.graph
        self.outputs = [(tensor, self._whole(tensor, node)) for tensor, node in lowered.outputs]
        self.order = _weights_first(problem, _in_turns(tuple(values(*(value for _, value in self.outputs)))))
        given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
        self.memory = {id(value): given[value.op] for value in self.order if value.kind == "source"}
        self.apart = problem.on_gpu
        self.kept = self._kept()
        self.kernels: list[_Open] = []
        self.made_by: dict[int, int] = {}

    def _whole(self, tensor: Tensor, node: Node) -> Value:
        """What an output holds as a value that a kernel makes: a constant and an argument are copied."""
        if isinstance(node, Value) and node.kind != "source" and node.shape == tensor.shape:
            return node
        return self.graph.map(tensor.shape, self.graph.spread(node, tensor.shape))

    def _kept(self) -> set[int]:
        """The values that lie in memory."""
        kept = {id(value) for value in self.order if value.kind != "map"} | {id(value) for _, value in self.outputs}
        kept |= _compared(self.order)
        cost: dict[int, float] = {}
        for value in self.order:
            cost[id(value)] = _cost(value, cost)
        asked = dict.fromkeys((id(value) for value in self.order), 0.0)
        for value in reversed(self.order):
            times = value.evaluations
            evaluations = asked[id(value)] if id(value) not in kept else times
            repeats = evaluations / max(value.numel, 1)
            if id(value) not in kept and (repeats - 1) * cost[id(value)] > self.worth:
                kept.add(id(value))
                evaluations = value.numel
            for read in reads(*value.bodies):
                asked[id(read.value)] += evaluations
        return kept

    def result(self) -> Fused:
        """All values that lie in memory, each in the first kernel that can make it."""
        inliner = Inliner(self.graph, lambda value: id(value) in self.kept)
        for value in self.order:
            if value.kind == "steps":
                self._place_steps(value, inliner)
            elif value.kind != "source" and id(value) in self.kept:
                self._place(value, inliner.body(value))
        self._hand_on()
        return self._allocated()

    def _needs(self, *bodies: Node) -> int:
        """The last kernel that makes what some elements read; -1 where none does."""
        return max(
            (self.made_by[id(each.value)] for each in reads(*bodies) if id(each.value) in self.made_by), default=-1
        )

    def _place(self, value: Value, body: Node) -> None:
        needs = self._needs(body)
        if value.kind == "map":
            if needs < 0 or not self._joins(value, body, self.kernels[needs], needs):
                self._beside(value, body, needs)
            return
        for number in range(needs + 1, len(self.kernels)):
            if self._alike(value, body, self.kernels[number]):
                self._add_total(value, body, number)
                return
        self.kernels.append(_Open(value))
        self._add_total(value, body, len(self.kernels) - 1)

    def _add_total(self, value: Value, body: Node, number: int) -> None:
        kernel = self.kernels[number]
        name = f"s{len(kernel.totals)}"
        total = self.graph.total(name, value.dtype)
        kernel.totals.append(Value(value.kind, value.op, value.dtype, value.shape, origin=value.origin, axes=value.axes,
                                   reduced=value.reduced, body=body, dim=value.dim))  # fmt: skip
        kernel.holds[id(value)] = (tuple(map(along, value.axes)), total)
        self.made_by[id(value)] = number

    def _place_steps(self, value: Value, inliner: Inliner) -> None:
        """A kernel of its own, or a part of one with the same steps: what is stored is read one step later."""
        assert value.body is not None
        sums, body = tuple(map(inliner.inlined, value.sums)), inliner.body(value)
        later = range(self._needs(*sums, body) + 1, len(self.kernels))
        state, step, *rest = value.axes
        loops = (step, *rest, *value.reduced)
        number = next((each for each in later if self.kernels[each].loops == loops), len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(_Open(value))
        kernel = self.kernels[number]
        held = [self.graph.total(f"s{len(kernel.totals) + place}", value.dtype) for place in range(len(sums))]

        def placed(node: Element) -> Node:
            if node.kind == "total":
                return held[int(node.op[1:])]
            if node.kind == "before":
                return self.graph.read(value, (node.indices[0], along(step) - 1, *node.indices[1:]), partial=True)
            return node

        for each in sums:
            kernel.totals.append(Value("reduce", "sum", value.dtype, value.shape, origin=value.origin, axes=value.axes,
                                       reduced=value.reduced, body=self.graph.rewritten(each, {}, placed)))  # fmt: skip
        (tensor,) = self._tensors(value)
        for place in range(state.extent):
            element = self.graph.rewritten(body, {state: fixed(place)}, placed)
            kernel.stores.append(Store(tensor, (fixed(place), *map(along, (step, *rest))), element))
        self.made_by[id(value)] = number

    def _alike(self, value: Value, body: Node, kernel: _Open) -> bool:
        """Whether a reduction has a kernel's loops and reads some of the same.

        On a GPU products stay apart: tensor cores take one at a time.
        """
        if value.contracts and self.apart:
            return False
        one = kernel.anchor
        same = (one.kind, one.axes, one.reduced) == (value.kind, value.axes, value.reduced) and value.kind == "reduce"
        theirs = {id(each.value) for total in kernel.totals for each in reads(total.body or body)}
        return same and any(id(each.value) in theirs for each in reads(body))

    def _joins(self, value: Value, body: Node, kernel: _Open, number: int) -> bool:
        """Store a map in the kernel that makes what it reads, where it reads exactly that kernel's own element."""
        if kernel.anchor.kind == "steps":
            return False
        own = [each for each in reads(body) if self.made_by.get(id(each.value)) == number]
        places = _places(value, own[0], kernel.holds[id(own[0].value)][0], kernel.anchor.axes)
        if places is None:
            return False
        at = self.graph.rewritten(body, places, lambda read: read)
        for read in reads(at):
            held = kernel.holds.get(id(read.value))
            if held is not None and held[0] != read.indices:
                return False

        def replaced(read: Element) -> Node:
            held = kernel.holds.get(id(read.value))
            return held[1] if held is not None else read

        made = self.graph.rewritten(at, {}, replaced)
        self._store(value, tuple(places.get(axis, along(axis)) for axis in value.axes), made, number)
        return True

    def _beside(self, value: Value, body: Node, needs: int) -> None:
        """A map in the kernel of another one of its shape that comes late enough; else in one of its own."""
        for number in range(needs + 1, len(self.kernels)):
            kernel = self.kernels[number]
            if kernel.anchor.kind == "map" and kernel.anchor.axes == value.axes:
                self._store(value, tuple(map(along, value.axes)), body, number)
                return
        self.kernels.append(_Open(value))
        self._store(value, tuple(map(along, value.axes)), body, len(self.kernels) - 1)

    def _store(self, value: Value, indices: tuple[Index, ...], body: Node, number: int) -> None:
        kernel = self.kernels[number]
        kernel.holds[id(value)] = (indices, body)
        self.made_by[id(value)] = number
        for tensor in self._tensors(value):
            kernel.stores.append(Store(tensor, indices, body))

    def _tensors(self, value: Value) -> list[Tensor]:
        """Where a value lies: in the outputs that hold it, else in memory of its own."""
        outputs = [tensor for tensor, made in self.outputs if made is value]
        if not outputs:
            name = f"between {len(self.memory)}"
            outputs = [Tensor(name=name, shape=value.shape, strides=packed_strides(value.shape), dtype=value.dtype)]
        self.memory[id(value)] = outputs[0]
        return outputs

    def _hand_on(self) -> None:
        """Totals that other kernels read, or that are returned, are stored."""
        read = {id(each.value) for kernel in self.kernels for body in _bodies(kernel) for each in reads(body)}
        returned = {id(value) for _, value in self.outputs}
        for value in self.order:
            if value.kind in ("reduce", "scan", "sort") and id(value) in read | returned:
                number = self.made_by[id(value)]
                self._store(value, *self.kernels[number].holds[id(value)], number)

    def _allocated(self) -> Fused:
        kernels = tuple(
            Kernel(
                each.axes, each.anchor.reduced, tuple((f"s{place}", total) for place, total in enumerate(each.totals)),
                tuple(each.stores), self.memory, each.stepped,
            )
            for each in self.kernels
        )  # fmt: skip
        return allocated(kernels, {tensor.name for tensor, _ in self.outputs})


def allocated(kernels: tuple[Kernel, ...], returned: Collection[str]) -> Fused:
    """The kernels with places for what passes between them: all that they store but the tensors `returned`."""
    made = {store.tensor.name: (number, store.tensor) for number, kernel in enumerate(kernels)
            for store in kernel.stores if store.tensor.name not in returned}  # fmt: skip
    last = {kernel.memory[id(read.value)].name: number for number, kernel in enumerate(kernels)
            for read in reads(*kernel.bodies)}  # fmt: skip
    lives = [(number, last.get(name, number), tensor) for name, (number, tensor) in made.items()]
    places, nbytes = arena(lives)
    return Fused(kernels, tuple(tensor for _, _, tensor in lives), places, nbytes)


def _in_turns(order: tuple[Value, ...]) -> tuple[Value, ...]:
    """Values of steps after all that they do not lead to, so that those of one turn meet in one kernel."""
    turns: dict[int, int] = {}
    for value in order:
        read = [each.value for each in reads(*value.bodies) if each.value is not None]
        turns[id(value)] = max((turns[id(each)] + (each.kind == "steps") for each in read), default=0)
    return tuple(sorted(order, key=lambda value: (turns[id(value)], value.kind == "steps")))


def _weights_first(problem: Problem, order: tuple[Value, ...]) -> tuple[Value, ...]:
    """What is computed of parameters alone before everything else, so that what reads it may join any kernel.

    A batch norm's 1 / sqrt(variance), made after the convolution, would keep the norm from following it at once.
    """
    given = {each.name for each in problem.parameters}
    first: set[int] = set()
    for value in order:
        alone = value.kind == "map" and {id(each.value) for each in reads(*value.bodies)} <= first
        if alone or (value.kind == "source" and value.op in given):
            first.add(id(value))
    return tuple(sorted(order, key=lambda value: id(value) not in first))


def _bodies(kernel: _Open) -> Iterator[Node]:
    yield from (total.body for total in kernel.totals if total.body is not None)
    yield from (store.body for store in kernel.stores)


def _compared(order: tuple[Value, ...]) -> set[int]:
    """What an extremum is taken of and others read, too: computed twice, it may be rounded twice.

    A compiler that rounds `a * b - max` once finds a difference from the maximum of the rounded products: as much as
    the last digit of a large number, and its exponential overflows.
    """
    readers: Counter[int] = Counter()
    pivots = set()
    for value in order:
        if value.body is None or _moves(value):
            continue
        origins = {id(each): each for read in reads(*value.bodies) for each in _origins(read.value)}
        readers.update(origins.keys())
        if value.kind == "reduce" and value.op in EXTREMA:
            pivots |= {key for key, each in origins.items() if each.kind == "map"}
    return {key for key in pivots if readers[key] > 1}


def _moves(value: Value) -> bool:
    """Whether elements of other values are put elsewhere, and nothing is computed."""
    return value.kind == "map" and not _cost(value, {})


def _origins(value: Value | None) -> Iterator[Value]:
    """Where the elements of a value are computed."""
    if value is None:
        return
    if value.body is None or not _moves(value):
        yield value
        return
    for read in reads(value.body):
        yield from _origins(read.value)


def _cost(value: Value, known: Mapping[int, float]) -> float:
    """Operations that an element costs, those of the maps that it reads included."""
    if value.kind != "map" or value.body is None:
        return 0.0
    total = 0.0
    for node in elements(value.body):
        if isinstance(node, Element):
            total += known.get(id(node.value), 0.0) if node.kind == "read" else 1
        elif node.kind == "compute" and node.op not in ("cast", "select"):
            total += CALL if "(" in PRIMITIVES[node.op].element else 1
    return total


def _places(value: Value, read: Element, held: tuple[Index, ...], loops: tuple[Axis, ...]) -> dict[Axis, Index] | None:
    """The value's axes over a kernel's, so that `read` becomes the element that the kernel holds; None if none does."""
    source = read.value
    assert source is not None
    if source.numel != value.numel or tuple(index.alone for index in held) != tuple(
        axis if axis.extent != 1 else None for axis in loops
    ):
        return None
    mine = [axis for axis in value.axes if axis.extent != 1]
    direct = {index.alone: place for index, place in zip(read.indices, held, strict=True) if index.alone}
    if set(direct) == set(mine):
        return {axis: place for axis, place in direct.items() if axis is not None}
    if linear(read.indices, packed_strides(source.shape)) != linear(
        map(along, value.axes), packed_strides(value.shape)
    ):
        return None
    flat = linear(held, packed_strides(source.shape))
    return dict(zip(value.axes, unravelled(flat, value.shape), strict=True))
