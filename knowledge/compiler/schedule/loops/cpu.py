"""The general schedule for the processor: threads over what is written, registers along whichever loop reads best.

Registers lie along a loop of the results where that reads neighbours, else along the innermost reduced one. Reductions
run in blocks whose sums go on in a wider type. Where a neighbouring result shares what is read, several are computed
at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.emit.elements import ELEMENT_TYPES, LANE_TYPES, REDUCERS, STORED_TYPES, WIDE, literal
from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.emit.spelling import Statements, Views, spelled, within
from knowledge.compiler.ir.cost import WORTH_THREADS
from knowledge.compiler.ir.dtypes import BYTES, computed_in, is_float
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Data, Index
from knowledge.compiler.ir.nodes import Element, Values, elements, neutral, reads
from knowledge.compiler.ir.sizes import Size
from knowledge.compiler.passes.loops import Nest, Place, Total, count, indices_of, jammed
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.loops import sorting

# Additions in one type before their sum goes on in a wider one.
BLOCK = 512
# Elements of one task, reduced ones counted: what a thread takes at a time.
TASK = 4096
# A register that is filled element by element, in loads; of elements that lie in a cache line each; of choices.
SCATTERED, FAR, CHOSEN = 6, 12, 3
LINE = 64
JAM = (6, 4, 3, 2)
# What a step on 8-byte elements costs more in two registers than in one, in steps that a full register saves.
WIDE_COST = 6


@dataclass(frozen=True)
class Choice:
    """How one kernel is written: the loop that registers lie along, and how many lanes they have."""

    nest: Nest
    lane: Axis | None
    lanes: int

    @property
    def inner(self) -> bool:
        """Whether registers lie along a reduced loop."""
        return self.lane in self.nest.reduced


class LaneStatements(Statements):
    """Elements as registers along the lane's loop."""

    def register(self, node: Element, kind: str) -> str:
        """Neighbours at once, anything else lane by lane."""
        assert self.lane is not None
        near = self._neighbours(node, kind) if node.kind == "read" else self._inside(node)
        if near:
            return near
        text = self.single(node, lambda each: self.emitter.name(each) + ("[k]" if id(each) in self.varying else ""))
        text = f"-int32_t({text})" if node.dtype == "bool" else text
        return f"gathered<{kind}>({self.lane.name}, n, [&](int64_t {self.lane.name}, int k) {{ return {text}; }})"

    def _inside(self, node: Element) -> str | None:
        """Whether an index is within its extent, for all lanes at once, where each is as far from the one before."""
        index = node.indices[0]
        if node.kind != "within" or any(isinstance(atom, Data) for atom in index.atoms()):
            return None
        times = index.times(self.lane) if self.lane else None
        if times is None or isinstance(node.extent, Size) or max(node.extent, *map(abs, index.bounds)) >= 1 << 30:
            return None
        return f"inside(int32_t({spelled(index, self.emitter.name)}), {times}, {node.extent})"

    def _neighbours(self, node: Element, kind: str) -> str | None:
        """One load, where the lanes are neighbours in memory and at most one guard, of step 1, looks at the lane."""
        lane, address = self.lane, self.nest.address(node)
        assert lane is not None
        if not _neighbours(self.nest, node, lane, self.varying):
            return None
        low, high, fixed = "0", "n", []
        for index, extent in self.nest.guards(node):
            if not index.uses(lane):
                fixed.append(within(index, extent, self.emitter.name))
            elif index.times(lane) == 1 and high == "n":
                place = spelled(index, self.emitter.name)
                low, high = f"-({place})", f"std::min<int64_t>(n, {extent} - ({place}))"
            else:
                return None
        view = self.views.of(self.nest.tensor(node), address)
        text = f"nearby<{kind}>(&m{view.name}({view.at(address, self.emitter.name)}), {low}, {high})"
        return f"{' && '.join(fixed)} ? {text} : {kind}{{}}" if fixed else text


def lanes_of(nests: Iterable[Nest], device: Device) -> int:
    """Lanes that the registers of some kernels in one file have: 1 where none has registers.

    Half of what floats would have, where 8-byte elements are more than a small share: comparisons and choices of them
    are done lane by lane in two registers.
    """
    narrow = wide = 0
    for nest in nests:
        along = lane(nest, device.simd_floats)
        varying = nest.varying(along) if along else frozenset()
        found = [node for node in elements(*nest.bodies) if id(node) in varying]
        eight = sum(any(each.dtype in WIDE for each in (node, *node.args)) for node in found)
        steps = count(nest.axes) * max(count(nest.reduced), 1)
        wide, narrow = wide + steps * eight, narrow + steps * (len(found) - eight)
    if not narrow + wide:
        return 1
    return device.simd_floats // 2 if wide * WIDE_COST > narrow else device.simd_floats


def lane(nest: Nest, lanes: int) -> Axis | None:
    """The loop with the cheapest loads a lane."""
    if lanes < 2 or nest.sorts:
        return None
    return min(_candidates(nest), key=lambda axis: cost(nest, axis, lanes))


def chosen(nest: Nest, graph: Values, lanes: int) -> Choice:
    """The loop that registers lie along, and the jammed loop beside it."""
    along = lane(nest, lanes)
    if along is not None and along in nest.reduced:
        order = (*(axis for axis in nest.reduced if axis != along), along)
        nest = replace(nest, reduced=order)
    axis, times = _jam(nest, along)
    return Choice(jammed(nest, graph, axis, times) if axis else nest, along, lanes if along else 1)


def _candidates(nest: Nest) -> list[Axis | None]:
    found: list[Axis | None] = [None, *(axis for axis in nest.axes if axis != nest.scanned)]
    return [*found, *nest.reduced]


def _neighbours(nest: Nest, read: Element, lane: Axis, varying: frozenset[int]) -> bool:
    """Whether one step of the lane's loop is one element on: what is computed of the place stays the same."""
    address = nest.address(read)
    moved = any(isinstance(atom, Data) and id(atom.value) in varying for atom in address.atoms())
    return address.times(lane) == 1 and not moved


def cost(nest: Nest, lane: Axis | None, lanes: int) -> float:
    """Loads, stores and index arithmetic an element."""
    if lane is None or lane.extent < 2:
        return 2.0 + sum(1 for _ in indices_of(nest))
    total, varying = 1.0, nest.varying(lane)
    for node in elements(*nest.bodies):
        if not isinstance(node, Element) or node.kind == "total" or id(node) not in varying:
            continue
        near = node.kind == "read" and _neighbours(nest, node, lane, varying)
        guarded = node.kind == "read" and any(index.uses(lane) for index, _ in nest.guards(node))
        if node.kind != "read":
            total += CHOSEN
        else:
            total += (1.5 if guarded else 1.0) if near else _scattered(nest.address(node), lane, node.dtype)
    if lane in nest.axes:
        for store in nest.stores:
            near = store.address.times(lane) == 1
            total += 1.0 if near else _scattered(store.address, lane, store.tensor.dtype)
    else:
        total += len(nest.totals) * SCATTERED * lanes / max(count(nest.reduced), 1)
    return total * -(-lane.extent // lanes) / lane.extent


def _scattered(address: Index, lane: Axis, dtype: str) -> int:
    """Of a register whose elements are no neighbours."""
    times = address.times(lane)
    return FAR if times is not None and abs(times) * BYTES[dtype] >= LINE else SCATTERED


def _jam(nest: Nest, lane: Axis | None) -> tuple[Axis | None, int]:
    """A loop along which the reads that differ between lanes stay the same, others do not, and a divisor of it."""
    if lane is None or not nest.totals or nest.scanned:
        return None, 1
    varying = nest.varying(lane)
    read = list(reads(*(total.body for total in nest.totals)))
    for axis in reversed(nest.axes):
        times = next((each for each in JAM if axis.extent % each == 0), 1)
        along = {id(each) in varying: nest.address(each).uses(axis) for each in read}
        if axis != lane and times > 1 and along in ({True: False, False: True}, {True: False}) and len(read) > 1:
            return axis, times
        shared = [nest.address(each).uses(axis) for each in read]
        if axis != lane and times > 1 and lane in nest.reduced and len(set(shared)) == 2:
            return axis, times
    return None, 1


def blocked(total: Total) -> bool:
    """Whether a total is summed in blocks."""
    return total.op in ("sum", "prod") and is_float(total.dtype)


def wide(total: Total) -> str:
    """The element type in which a total's blocks go on: of products, whose own rounding is as much, the same."""
    if total.op not in ("sum", "prod") or computed_in(total.dtype) != "float32":
        return total.dtype
    factors = total.body.args if total.body.op == "mul" else ()
    return (
        total.dtype
        if len({id(each) for each in factors}) == 2 and all(each.kind == "read" for each in factors)
        else "float64"
    )


def running(total: Total) -> str:
    """The element type of a running total: what PyTorch's own sums and products go on in, whatever is added."""
    return "float64" if total.op in ("sum", "prod") and computed_in(total.dtype) == "float32" else total.dtype


def joined(total: Total, one: str, other: str) -> str:
    """Two parts of a total as one."""
    return REDUCERS[total.op].join.format(one, other)


class KernelText:
    """One kernel as a C++ function on the tensors that it reads and writes; those of one function share its views."""

    index = "int64_t"

    def __init__(
        self, name: str, choice: Choice, stems: Mapping[str, str], scalars: Mapping[str, str], device: Device,
        views: Views | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.choice = choice
        self.nest = choice.nest
        self.views = views or Views(stems)
        self.device = device
        self.statements = LaneStatements(self.nest, self.views, scalars, choice.lane, exact=True)
        self.types = LANE_TYPES if choice.lane and not choice.inner else ELEMENT_TYPES

    def lines(self, parameters: str) -> list[str]:
        """The function."""
        loop = self.loop()
        if step := self.nest.stepped:
            head = f"for (int64_t {step.name} = 0; {step.name} < {step.extent}; ++{step.name}) {{"
            loop = [head, *indented(loop), "}"]
        return [f"void {self.name}({parameters}) {{", *indented([*self.views_made(), *loop]), "}"]

    def loop(self) -> list[str]:
        """All results, by threads where that pays."""
        work = [axis for axis in self.nest.axes if axis not in (self.choice.lane, self.nest.scanned)]
        body, tiles = self._tiled(self._element())
        tasks = count(tuple(work)) * tiles
        steps = count(self.nest.axes) * max(count(self.nest.reduced), 1) * max(len(self.nest.totals), 1)
        parallel = tasks > 1 and steps >= WORTH_THREADS and self.device.threads > 1
        return [
            *(["#pragma omp parallel for schedule(static)"] if parallel else []),
            f"for (int64_t t = 0; t < {tasks}; ++t) {{",
            *indented([*decoded(work, "t", tiles), *body]),
            "}",
        ]

    def by_one_thread(self) -> list[str]:
        """All results, one after the other."""
        lane, lines = self.choice.lane, self._element()
        if lane is not None and not self.choice.inner:
            head = f"for (int64_t {lane.name} = 0; {lane.name} < {lane.extent}; {lane.name} += kLanes) {{"
            lines = [head, *indented([self._counted(lane), *lines]), "}"]
        for axis in reversed(self.nest.axes):
            if axis not in (lane, self.nest.scanned) and axis.extent != 1:
                head = f"for (int64_t {axis.name} = 0; {axis.name} < {axis.extent}; ++{axis.name}) {{"
                lines = [head, *indented(lines), "}"]
        return lines

    def views_made(self) -> Iterator[str]:
        """The tensors of the statements so far."""
        for view in self.views.made.values():
            start = f"p{self.views.stems[view.tensor.name]}" + (f" + {view.offset}" if view.offset else "")
            start = start.replace("+ -", "- ")
            yield f"Tensor m{view.name} = make_tensor({start}, {view.layout()});  // {view.comment()}"

    def _tiled(self, element: list[str]) -> tuple[list[str], int]:
        """The loop over registers along a result's loop, cut into tasks."""
        lane = self.choice.lane
        if lane is None or self.choice.inner:
            return element, 1
        lanes = self.choice.lanes
        size = max(TASK // max(count(self.nest.reduced), 1), 1)
        tile = min(-(-size // lanes) * lanes, -(-lane.extent // lanes) * lanes)
        tiles = -(-lane.extent // tile)
        first = f"t % {tiles} * {tile}" if tiles > 1 else "0"
        last = f"std::min<int64_t>({first} + {tile}, {lane.extent})" if tiles > 1 else str(lane.extent)
        return [
            f"int64_t const last = {last};",
            f"for (int64_t {lane.name} = {first}; {lane.name} < last; {lane.name} += kLanes) {{",
            *indented([self._counted(lane), *element]),
            "}",
        ], tiles

    def _counted(self, lane: Axis) -> str:
        """How many lanes count."""
        if lane.extent % self.choice.lanes == 0:
            return "constexpr int n = kLanes;"
        return f"int const n = int(std::min<int64_t>(kLanes, {lane.extent} - {lane.name}));"

    def _element(self) -> list[str]:
        """One result, or one register of them."""
        if self.nest.scanned:
            return sorting.on_a_processor(self) if self.nest.sorts else self._scan(self.nest.scanned)
        lines = [*self._reduced()] if self.nest.totals else []
        bodies = [store.body for store in self.nest.stores]
        lines += self.statements.write(bodies) if not self.choice.inner else self._after()
        return [*lines, *(line for store in self.nest.stores for line in self._stored(store))]

    def _after(self) -> list[str]:
        """What is done with totals over lanes is done once."""
        self.statements.lane = None
        self.statements.emitter.lanes = False
        self.statements.varying = frozenset()
        return self.statements.write(store.body for store in self.nest.stores)

    def _begin(self, total: Total, dtype: str, lanes: bool) -> str:
        start = literal(neutral(total.op, dtype), dtype)
        return f"all({start})" if lanes else start

    def _reduced(self) -> Iterator[str]:
        """The totals: blocks in their own type, what they come to in a wider one."""
        lanes = self.choice.lane is not None
        types = LANE_TYPES if lanes else ELEMENT_TYPES
        for total in self.nest.totals:
            yield f"{types[wide(total)]} {total.name}w = {self._begin(total, wide(total), lanes)};"
        yield from self.statements.write(self._still())
        yield from self._loops(list(self.nest.reduced), self._block())
        for total in self.nest.totals:
            text = f"{total.name}w"
            if self.choice.inner:
                join = joined(total, "a", "b")
                text = f"folded({text}, [](auto a, auto b) {{ return {join}; }})"
                text = f"{text} != 0" if total.dtype == "bool" else f"{ELEMENT_TYPES[total.dtype]}({text})"
            elif wide(total) != total.dtype and lanes:
                text = f"convert<{LANE_TYPES[total.dtype]}>({text})"
            elif wide(total) != total.dtype:
                text = f"{ELEMENT_TYPES[total.dtype]}({text})"
            yield f"{self.types[total.dtype]} const {total.name} = {text};"

    def _still(self) -> list[Node]:
        """What the reduced loops compute and none of them moves."""
        moved = frozenset[int]().union(*map(self.nest.varying, self.nest.reduced))
        computed = elements(*(total.body for total in self.nest.totals))
        return [each for each in computed if each.kind == "compute" and not each.uniform and id(each) not in moved]

    def _block(self) -> list[str]:
        """One step of the innermost loop: every total takes in its element."""
        known = dict(self.statements.emitter.names)
        lines = self.statements.write(total.body for total in self.nest.totals)
        lane = self.choice.lane
        ragged = self.choice.inner and lane is not None and lane.extent % self.choice.lanes
        for total in self.nest.totals:
            text = self.statements.emitter.value(total.body, lane is not None)
            if ragged:
                none = self._begin(total, total.dtype, True)
                text = f"(n == kLanes ? {text} : below<{LANE_TYPES[total.dtype]}>(n) ? {text} : {none})"
            into = f"{total.name}q" if blocked(total) else f"{total.name}w"
            lines.append(f"{into} = {joined(total, into, text)};")
        self.statements.emitter.names = known  # what the loop declares ends with it
        if self.choice.inner and lane is not None:
            least = f"int(std::min<int64_t>(kLanes, {lane.extent} - {lane.name}))"
            head = f"int const n = {least};" if ragged else "constexpr int n = kLanes;"
            return [f"[[maybe_unused]] {head}", *lines]
        return lines

    def _loops(self, axes: list[Axis], block: list[str]) -> list[str]:
        """The reduced loops around a block; the innermost of them, up to BLOCK steps, keep to the totals' own type."""
        wides = [total for total in self.nest.totals if blocked(total)]
        steps, inner = 1, 0
        while inner < len(axes) and steps * self._steps(axes[-1 - inner]) <= BLOCK:
            steps *= self._steps(axes[-1 - inner])
            inner += 1
        cut = wides and inner == 0 and bool(axes)
        lines, rest = block, axes
        for axis in reversed(axes[len(axes) - inner :]):
            lines, rest = self._loop(axis, lines, "0", str(axis.extent)), rest[:-1]
        if cut:
            axis, rest = axes[-1], axes[:-1]
            step = BLOCK * (self.choice.lanes if axis == self.choice.lane else 1)
            lines = self._loop(axis, block, "block", f"std::min<{self.index}>(block + {step}, {axis.extent})")
        lines = self._flushed(wides, lines)
        if cut:
            head = f"for ({self.index} block = 0; block < {axes[-1].extent}; block += {step}) {{"
            lines = [head, *indented(lines), "}"]
        for axis in reversed(rest):
            lines = self._loop(axis, lines, "0", str(axis.extent))
        return lines

    def _steps(self, axis: Axis) -> int:
        return -(-axis.extent // self.choice.lanes) if axis == self.choice.lane else axis.extent

    def _loop(self, axis: Axis, lines: list[str], first: str, last: str) -> list[str]:
        step = f"{axis.name} += kLanes" if axis == self.choice.lane else f"++{axis.name}"
        return [f"for ({self.index} {axis.name} = {first}; {axis.name} < {last}; {step}) {{", *indented(lines), "}"]

    def _flushed(self, totals: list[Total], lines: list[str]) -> list[str]:
        if not totals:
            return lines
        lanes = self.choice.lane is not None
        types = LANE_TYPES if lanes else ELEMENT_TYPES
        before = [f"{types[each.dtype]} {each.name}q = {self._begin(each, each.dtype, lanes)};" for each in totals]
        after = []
        for each in totals:
            part = f"{each.name}q"
            if wide(each) != each.dtype:
                part = f"convert<{LANE_TYPES[wide(each)]}>({part})" if lanes else f"double({part})"
            after.append(f"{each.name}w = {joined(each, f'{each.name}w', part)};")
        return [*before, *lines, *after]

    def _scan(self, axis: Axis) -> list[str]:
        """Running totals along one loop."""
        lanes = self.choice.lane is not None
        types = LANE_TYPES if lanes else ELEMENT_TYPES
        (total,) = self.nest.totals
        lines = self.statements.write([total.body])
        body = self.statements.emitter.value(total.body, lanes)
        name, kind = f"{total.name}w", types[running(total)]
        moved, back = body, name
        if running(total) != total.dtype:
            moved = f"convert<{kind}>({body})" if lanes else f"double({body})"
            back = f"convert<{types[total.dtype]}>({name})" if lanes else f"{types[total.dtype]}({name})"
        lines += [f"{name} = {joined(total, name, moved)};", f"{types[total.dtype]} const {total.name} = {back};"]
        lines += self.stored()
        start = f"{kind} {name} = {self._begin(total, running(total), lanes)};"
        return [start, f"for ({self.index} {axis.name} = 0; {axis.name} < {axis.extent}; ++{axis.name}) {{",
                *indented(lines), "}"]  # fmt: skip

    def stored(self) -> list[str]:
        """What lies in memory afterwards, and how it gets there."""
        lines = self.statements.write(store.body for store in self.nest.stores)
        return [*lines, *(line for store in self.nest.stores for line in self._stored(store))]

    def _stored(self, store: Place) -> Iterator[str]:
        lane, names = self.choice.lane, self.statements.emitter
        view = self.views.of(store.tensor, store.address)
        place = f"m{view.name}({view.at(store.address, names.name)})"
        kind = STORED_TYPES[store.tensor.dtype]
        if lane is None or self.choice.inner:
            yield f"{place} = {kind}({names.name(store.body)});"
        elif store.address.times(lane) == 1:
            yield f"put(&{place}, {names.value(store.body, True)}, n);"
        else:
            held = f"{names.value(store.body, True)}[k]"
            held = f"{held} != 0" if store.tensor.dtype == "bool" else f"{kind}({held})"
            yield (
                f"scattered({lane.name}, n, [&](int64_t {lane.name}, int k) {{ "
                f"{place} = {held}; }});"
            )  # fmt: skip


ARENA = """
// Memory for what passes between kernels.
struct Arena {
  char* const memory;
  Arena(size_t bytes, DLDevice) : memory(static_cast<char*>(std::aligned_alloc(256, bytes))) {
    if (memory == nullptr) { TVM_FFI_THROW(RuntimeError) << "no memory for what passes between kernels"; }
  }
  Arena(Arena const&) = delete;
  ~Arena() { std::free(memory); }
  char* start() const { return memory; }
};
"""


def source(comment: list[str], plan: Plan, code: str, entry: str, lanes: int) -> str:
    """The whole file."""
    arena = ARENA if "Arena const" in entry else ""
    if "comes_first" in code:
        code = sorting.FIRST.format(device="") + code
    text = source_text.kernel(comment, plan, helpers(code, entry, lanes), code + arena, entry)
    return text.replace("#include <cmath>", "#include <algorithm>\n#include <cmath>", 1).replace(
        "#include <cstdint>",
        "#include <cstdint>\n#include <cstdlib>" + "\n#include <vector>" * ("comes_first" in code),
        1,
    )
