"""From values to kernels: what is computed where it is read, what ends a kernel, and what lies in memory in between.

A reduction, a scan, a sort or a value of steps is a kernel. A map is computed by those who read it, unless that repeats
more arithmetic than its memory is worth. What else has to be in memory joins the kernel whose results it reads element
by element; what joins none is a kernel of its own. Kernels over the same loops that read the same are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge.compiler.ir.cost import WORTH_MEMORY, cost
from knowledge.compiler.ir.dtypes import BYTES, computed_in
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index, along, linear, unravelled
from knowledge.compiler.ir.index import number as fixed
from knowledge.compiler.ir.nodes import Element, Region, Value, Values, elements, reads, values
from knowledge.compiler.ir.rewriting import Inliner
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.factors import computed_factors, factors
from knowledge.compiler.passes.kernel import Kernel, Store
from knowledge.compiler.passes.stepping import Steps, asked_of, in_loop
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


# Operations that a loop's steps, which wait for each other, do not repeat.
STEPS_WAIT = 4
# The same of a factor on a GPU: tensor cores take what lies in memory.
WORTH_FACTOR = 7
EXTREMA = frozenset(("amax", "amin", "argmax", "argmin"))


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
    loop: Axis | None = None
    holds: dict[int, tuple[tuple[Index, ...], Node]] = field(default_factory=dict)

    @property
    def stepped(self) -> Axis | None:
        """The axis that goes step by step."""
        return self.anchor.axes[1] if self.anchor.kind == "steps" else self.loop

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The loops, or those of one step."""
        return self.anchor.axes[2:] if self.anchor.kind == "steps" else self.anchor.axes

    @property
    def loops(self) -> tuple[Axis, ...]:
        """Of steps, all loops; else none, for nothing joins them."""
        return (*self.anchor.axes[1:], *self.anchor.reduced) if self.anchor.kind == "steps" else ()


def fused(problem: Problem, lowered: Lowered, worth: float = WORTH_MEMORY) -> Fused:
    """The kernels of a forward; what is repeated for more than `worth` operations an element lies in memory."""
    graph = lowered.graph
    outputs = [(tensor, _whole(graph, tensor, node)) for tensor, node in lowered.outputs]
    order = _weights_first(problem, _in_turns(tuple(values(*(value for _, value in outputs)))))
    given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
    memory = {id(value): given[value.op] for value in order if value.kind == "source"}
    made = _Fusion(graph, problem.on_gpu, outputs, order, memory, worth)
    made.place()
    return made.allocated()


def _whole(graph: Values, tensor: Tensor, node: Node) -> Value:
    """What an output holds as a value that a kernel makes: a constant and an argument are copied."""
    if isinstance(node, Value) and node.kind != "source" and node.shape == tensor.shape:
        return node
    return graph.map(tensor.shape, graph.spread(node, tensor.shape))


class _Fusion:
    """`around` are the values around a loop that lie in memory; `order` those of one of its steps."""

    def __init__(
        self, graph: Values, apart: bool, outputs: list[tuple[Tensor, Value]], order: tuple[Value, ...],
        memory: dict[int, Tensor], worth: float, around: Collection[int] = (),
    ) -> None:  # fmt: skip
        self.graph = graph
        self.apart = apart
        self.outputs = outputs
        self.order = order
        self.memory = memory
        self.worth = worth
        self.kept = self._kept() | {*around}
        self.kernels: list[_Open] = []
        self.made_by: dict[int, int] = {}
        self.factors: set[int] = set()

    def _kept(self) -> set[int]:
        """The values that lie in memory."""
        kept = {id(value) for value in self.order if value.kind != "map"} | {id(value) for _, value in self.outputs}
        kept |= _compared(self.order)
        cost: dict[int, float] = {}
        for value in self.order:
            cost[id(value)] = _cost(value, cost)
        asked = dict.fromkeys((id(value) for value in self.order), 0.0)
        computed = {id(each) for value in self.order for each in computed_factors(value)} if self.apart else set()
        around = {id(each.value) for value in self.order if value.region for each in reads(*value.bodies)}
        for value in reversed(self.order):
            evaluations = asked[id(value)] if id(value) not in kept else value.evaluations
            repeats = evaluations / max(value.numel, 1)
            again = (repeats - 1) * cost[id(value)]
            worth = min(self.worth, WORTH_FACTOR) if id(value) in computed else self.worth
            waits = id(value) in around and repeats > 1 and cost[id(value)] > STEPS_WAIT
            if id(value) not in kept and (again > worth or waits):
                kept.add(id(value))
                evaluations = value.numel
            for key, times in asked_of(value, evaluations):
                asked[key] = asked.get(key, 0.0) + times
        return kept

    def place(self) -> None:
        """All values that lie in memory, each in the first kernel that can make it."""
        inliner = Inliner(self.graph, lambda value: id(value) in self.kept)
        self.factors = {id(each) for value in self.order for each in factors(value, inliner)}
        for value in self.order:
            if value.region is not None:
                if id(value) not in self.made_by:
                    self._place_loop(value.region, inliner)
            elif value.kind == "steps":
                self._place_steps(value, inliner)
            elif value.kind != "source" and id(value) in self.kept:
                self._place(value, inliner.body(value))
        self._hand_on()

    def _place_loop(self, region: Region, inliner: Inliner) -> None:
        """Kernels of a loop's own, all of which every step does: those of its values, as if one step were all."""
        loop = Steps(self.graph, region, self._read_at(region))
        outputs = []
        for value in loop.results:
            tensors = [tensor for tensor, made in self.outputs if made is value] or [
                loop.tensor(value, len(self.memory))
            ]
            self.memory[id(value)] = tensors[0]
            outputs += [(tensor, region.made[int(value.op)]) for tensor in tensors]
        kept = {*self.kept, *(id(each.before) for each in region.carried)}
        inside = _Fusion(self.graph, self.apart, outputs, region.inner, self.memory, self.worth, kept)
        inside.place()
        read = loop.reading(inliner)
        for kernel in inside.kernels:
            kernel.loop = region.axis
            kernel.totals = [replace(each, body=self.graph.rewritten(each.body, {}, read)) for each in kernel.totals
                             if each.body is not None]  # fmt: skip
            kernel.stores = [loop.stored(each, self.graph.rewritten(each.body, {}, read)) for each in kernel.stores]
        self.kernels += inside.kernels
        self.made_by |= {id(value): len(self.kernels) - 1 for value in loop.results}

    def _read_at(self, region: Region) -> set[str]:
        """Which of a loop's values are read at other steps than the last, or returned."""
        found = {value.op for _, value in self.outputs if value.region is region}
        last = fixed(region.axis.extent - 1)
        for value in self.order:
            bodies = value.bodies if value.region is None else [
                *(body for each in value.region.inner for body in each.bodies),
                *(each.first for each in value.region.carried)]  # fmt: skip
            found |= {each.value.op for each in reads(*bodies) if each.value is not None
                      and each.value.region is region and each.indices[0] != last}  # fmt: skip
        return found

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
        if (value.contracts and self.apart) or kernel.loop is not None:
            return False
        one = kernel.anchor
        same = (one.kind, one.axes, one.reduced) == (value.kind, value.axes, value.reduced) and value.kind == "reduce"
        theirs = {id(each.value) for total in kernel.totals for each in reads(total.body or body)}
        return same and any(id(each.value) in theirs for each in reads(body))

    def _joins(self, value: Value, body: Node, kernel: _Open, number: int) -> bool:
        """Store a map in the kernel that makes what it reads, where it reads exactly that kernel's own element."""
        if kernel.anchor.kind == "steps" or kernel.loop is not None:
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
            if kernel.anchor.kind == "map" and kernel.anchor.axes == value.axes and kernel.loop is None:
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
            rounded = id(value) in self.graph.results or id(value) in self.factors
            dtype = value.dtype if rounded else computed_in(value.dtype)
            outputs = [Tensor(name=name, shape=value.shape, strides=packed_strides(value.shape), dtype=dtype)]
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

    def allocated(self) -> Fused:
        """The kernels, and what passes between them."""
        kernels = tuple(
            Kernel(
                each.axes, each.anchor.reduced, tuple((f"s{place}", total) for place, total in enumerate(each.totals)),
                tuple(each.stores), self.memory, each.stepped,
            )
            for each in self.kernels
        )  # fmt: skip
        return allocated(kernels, {tensor.name for tensor, _ in self.outputs})


def allocated(
    kernels: tuple[Kernel, ...], returned: Collection[str], together: Iterable[Sequence[int]] = (),
    kept: Collection[str] = (),
) -> Fused:  # fmt: skip
    """The kernels with places for what passes between them: all that they store but the tensors `returned`.

    What they store and none reads stays in registers. `together` are kernels, by number, that are done at once, and
    `kept` the tensors that pass only between those, without memory.
    """
    read = {each.memory[id(node.value)].name for each in kernels for node in reads(*each.bodies)} | {*returned}
    kernels = tuple(
        replace(each, stores=tuple(one for one in each.stores if one.tensor.name in read)) for each in kernels
    )
    spans = spanning(kernels)
    for numbers in together:
        spans[numbers[0] : numbers[-1] + 1] = [(numbers[0], numbers[-1])] * len(numbers)
    made = {store.tensor.name: (first, last, store.tensor) for (first, last), kernel in zip(spans, kernels, strict=True)
            for store in kernel.stores if store.tensor.name not in {*returned, *kept}}  # fmt: skip
    until = {kernel.memory[id(read.value)].name: last for (_, last), kernel in zip(spans, kernels, strict=True)
             for read in reads(*kernel.bodies)}  # fmt: skip
    lives = [(first, max(last, until.get(name, 0)), tensor) for name, (first, last, tensor) in made.items()]
    places, nbytes = arena(lives)
    return Fused(kernels, tuple(tensor for _, _, tensor in lives), places, nbytes)


def spanning(kernels: Sequence[Kernel]) -> list[tuple[int, int]]:
    """Of each kernel the first and the last that its steps repeat: itself, or all kernels of its loop."""
    spans: list[tuple[int, int]] = []
    for number, kernel in enumerate(kernels):
        joins = number > 0 and in_loop(kernel) and kernel.stepped == kernels[number - 1].stepped
        spans.append((spans[-1][0] if joins else number, number))
    for number in reversed(range(len(spans) - 1)):
        if spans[number][0] == spans[number + 1][0]:
            spans[number] = spans[number + 1]
    return spans


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
        else:
            total += cost(node)
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
