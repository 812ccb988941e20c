"""Products of few rows with weights that are made of narrower ones on the way: W8A16, W4A16 (gemm_narrow_weights.cu).

out[m, n] = epilogue(sum over k of x[m, k] * w[n, k]), where w is any arithmetic over tensors that hold fewer bytes than
it would: int8 or packed int4 weights with their scales and zeros. Reading these is all the time; elsewhere w is written
to memory in 16 bits first, and read again.

Knobs: `tiles` (of 16 rows of w, which a block takes at once), `warps` (of a block, which share K), `depth` (steps of a
warp in flight), `blocks` (of a multiprocessor), `shared` (whether x lies in shared memory).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit.cuda_math import DeviceEmitter
from knowledge.compiler.emit.elements import ELEMENT_TYPES, STORED_TYPES
from knowledge.compiler.emit.source_text import argument_names, decoded, indented, tensor_names
from knowledge.compiler.emit.spelling import Named, Statements, Views, spelled
from knowledge.compiler.ir.dtypes import BYTES, HALVES
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, Data, Index, along, number
from knowledge.compiler.ir.kept import kept
from knowledge.compiler.ir.nodes import Element, elements, reads
from knowledge.compiler.kernels.source import load
from knowledge.compiler.lower.front import traced
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.fusion import fused
from knowledge.compiler.passes.loops import Nest, count, indices_of, nest_of
from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Device, Problem, Tensor
from knowledge.compiler.schedule.gemm.narrow_pairs import Pairs, paired

KERNEL = "gemm_narrow_weights"
# Rows of x: a thread's sums and its x, for 8 rows 4 and 8 registers, must fit. Beyond 16 rows it was not timed.
FEW = 64
# Neighbouring k's that a thread reads of a row.
LANES = 16
# Bytes of shared memory that the system takes of each block.
RESERVED = 1 << 10
# k's that a warp takes at once.
STEP = 64
# Of the bytes that w would have, what its tensors have at most.
NARROWER = 0.75


@dataclass(frozen=True)
class Held:
    """What a thread reads of one tensor for its k's: `lanes` neighbours from `start`, or one element for all (0).

    `place` says which of them a k has, in terms of the loop over them.
    """

    name: str
    tensor: Tensor
    start: Index
    place: Index
    lanes: int

    @property
    def type(self) -> str:
        """The C++ type that holds it."""
        stored = STORED_TYPES[self.tensor.dtype]
        return f"Held<{stored}, {self.lanes}>" if self.lanes else stored


@dataclass(frozen=True)
class Narrow:
    """The product: `x` is read, `w` computed; `k` ends in the loop over a thread's neighbours."""

    nest: Nest
    x: Element
    w: Node
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    k: tuple[Axis, ...]
    held: dict[int, Held]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        return count(self.m), count(self.n), count(self.k)

    @property
    def weight_bytes(self) -> int:
        """What the tensors that w is made of have."""
        tensors = {each.tensor.name: each.tensor for each in self.held.values()}.values()
        return sum(each.numel * BYTES[each.dtype] for each in tensors)

    def shared_bytes(self, knobs: Mapping[str, object]) -> int:
        """Of a block, as the kernel's `SharedBytes`."""
        m, _, k = self.sizes
        tiles, warps, shared = (int(str(knobs[name])) for name in ("tiles", "warps", "shared"))
        x = -(-m * (ceil(k / STEP) * STEP + 8) * 2 // 16) * 16 if shared else 0
        return x + 2 * warps * ceil(m / 8) * 8 * (tiles * 16 + 4) * 4


def matched(problem: Problem) -> Narrow | None:
    """The forward as such a product; None where it is none."""
    device, tensors = problem.device, [each for each in problem.arguments if isinstance(each, Tensor)]
    few = problem.on_gpu and device.has.mma and device.shared_bytes >= 96 << 10 and not problem.others
    narrow = any(BYTES[each.dtype] == 1 or each.dtype == "int32" for each in tensors)
    return _matched(problem) if few and narrow else None


@kept(8)
def _matched(problem: Problem) -> Narrow | None:
    try:
        lowered = traced(problem)
    except UnwritableError:
        return None
    kernels = fused(problem, lowered, worth=inf).kernels
    if len(kernels) != 1:
        return None
    nest = nest_of(kernels[0], lowered.graph)
    whole = len(nest.totals) == 1 and nest.totals[0].op == "sum" and not nest.scanned and not nest.stepped
    mixed = any(isinstance(atom, Data) for index in indices_of(nest) for atom in index.atoms())
    scalars = any(node.kind == "scalar" for node in elements(*nest.bodies))
    if not whole or mixed or scalars or nest.totals[0].body.op != "mul":
        return None
    return _sorted(nest, lowered)


def _sorted(nest: Nest, lowered: Lowered) -> Narrow | None:
    """Its loops by who sees them, K's last one cut into neighbours."""
    last = next((axis for axis in reversed(nest.reduced) if axis.extent != 1), None)
    if last is None or last.extent % LANES:
        return None
    outer, inner = Axis(last.name, last.extent // LANES), Axis(f"{last.name}p", LANES)
    reduced = tuple(new for old in nest.reduced for new in ((outer, inner) if old == last else (old,)))
    nest = nest.rewritten(lowered.graph, {last: along(outer) * LANES + along(inner)}, reduced=reduced)
    for x, w in (nest.totals[0].body.args, nest.totals[0].body.args[::-1]):
        if isinstance(x, Element) and x.kind == "read" and x.dtype in HALVES and w.dtype == x.dtype:
            made = _product(nest, x, w, inner)
            if made is not None:
                return made
    return None


def _product(nest: Nest, x: Element, w: Node, inner: Axis) -> Narrow | None:
    seen = [{axis for index in _indices(nest, each) for axis in nest.axes if index.uses(axis)} for each in (x, w)]
    axes = [axis for axis in nest.axes if axis.extent != 1]
    if any((axis in seen[0]) == (axis in seen[1]) for axis in axes):
        return None
    m, n = (tuple(axis for axis in axes if axis in each) for each in seen)
    k = tuple(axis for axis in nest.reduced if axis.extent != 1 or axis == inner)
    own = _held(nest, x, inner, "x")
    held: dict[int, Held] = {}
    if own is None or own.lanes != LANES or own.place != along(inner) or not 0 < count(m) <= FEW:
        return None
    for node in reads(w):
        known = sum(each.tensor.name == nest.tensor(node).name for each in held.values())
        each = _held(nest, node, inner, f"{nest.tensor(node).name}{'_' * known}")
        if each is None:
            return None
        held[id(node)] = each
    made = Narrow(nest, x, w, m, n, k, held)
    return made if made.weight_bytes <= NARROWER * 2 * count(n) * count(k) else None


def _indices(nest: Nest, node: Node) -> Iterator[Index]:
    for each in elements(node):
        if isinstance(each, Element):
            yield from (nest.address(each),) if each.kind == "read" else each.indices


def _held(nest: Nest, read: Element, inner: Axis, name: str) -> Held | None:
    """What a thread reads of a tensor; None where its k's are no aligned neighbours there."""
    address, tensor = nest.address(read), nest.tensor(read)
    start = address.at({inner: number(0)}, lambda data: data)
    place = address - start
    steps = [place.at({inner: number(lane)}, lambda data: data) for lane in range(LANES)]
    if nest.guards(read) or any(step.terms for step in steps):
        return None
    places = [step.offset for step in steps]
    lanes = max(places) + 1
    if lanes == 1 and min(places) == 0:
        return Held(name, tensor, start, place, 0)
    even = places == sorted(places) and places[0] == 0 and len({*places}) == lanes
    aligned = not any(times % lanes for times in (start.offset, *(times for _, times in start.terms)))
    words = lanes * BYTES[tensor.dtype]
    return Held(name, tensor, start, place, lanes) if even and aligned and words % 4 == 0 else None


class NarrowWeightsRecipe:
    """Writes a product of few rows with weights in fewer bits, which stay so on their way from memory."""

    name = "narrow weights"

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """Blocks that keep their part of x, or why the forward is no such product."""
        made = matched(problem)
        if made is None:
            return Decline("the forward is no product with weights in fewer bits")
        return Plan(self.name, _first_knobs(made, problem.device))

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """How many weights a block and a warp have on their way."""
        if "swept" in plan.knobs:
            return ()
        why = "more rows at once read x less often; more steps in flight hide more of the memory's latency"
        made = matched(problem)
        assert made is not None, "first_plan has matched it"
        values: dict[str, tuple[int, ...]] = {"depth": (2, 4, 8)}
        if made.shared_bytes({**plan.knobs, "tiles": 2, "warps": 16}) <= problem.device.shared_bytes:
            values = {"tiles": (1, 2), "warps": (8, 16), **values}
        return (Move("weights in flight", why, plan.with_knobs(swept=1), ("memory", "latency"), sweep=values),)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source."""
        made = matched(problem)
        assert made is not None, "first_plan has matched it"
        return Text(problem, plan, made).text()


def _first_knobs(made: Narrow, device: Device) -> dict[str, int | str]:
    """Up to 8 rows of x in shared memory; more leave room for too few warps, and come from the L1 cache."""
    kept: dict[str, int | str] = {"tiles": 2, "warps": 8, "depth": 4, "blocks": 2, "shared": 1}
    if made.sizes[0] <= 8 and 2 * (made.shared_bytes(kept) + RESERVED) <= device.shared_bytes:
        return kept
    # Two tiles read x half as often: where it misses the L1 cache, or a weight has fewer bytes to be read meanwhile.
    m, n, k = made.sizes
    light = 2 * m * k <= device.shared_bytes and made.weight_bytes >= n * k
    tiles = {"tiles": 1, "blocks": 6} if light else {"tiles": 2, "blocks": 4}
    return {**tiles, "warps": 8, "depth": 2, "shared": 0}


class _Lanes(Statements):
    """Statements over what a thread holds: `raw`."""

    def __init__(self, made: Narrow, stems: dict[str, str], names: dict[int, str]) -> None:
        super().__init__(made.nest, Views(stems), {}, None, exact=False)
        self.made, self.held_names = made, names
        self.emitter = DeviceEmitter()

    def single(self, node: Element, data: Named | None = None) -> str:
        """A read is of what is held."""
        held = self.made.held.get(id(node))
        if held is None:
            return super().single(node, data)
        name = self.held_names[id(node)]
        text = f"raw.{name}.lane({spelled(held.place, _no_data)})" if held.lanes else f"raw.{name}"
        kind = ELEMENT_TYPES[node.dtype]
        return text if STORED_TYPES[node.dtype] == kind else f"{kind}({text})"


class Text:
    """The source file."""

    def __init__(self, problem: Problem, plan: Plan, made: Narrow) -> None:
        self.problem, self.plan, self.made = problem, plan, made
        self.names = argument_names(problem)
        self.stems = tensor_names(self.names)
        nest = made.nest
        read = {nest.tensor(node).name: nest.tensor(node) for node in reads(*nest.bodies)}
        self.tensors = [*read.values(), *(store.tensor for store in nest.stores)]
        self.outputs = {store.tensor.name for store in nest.stores}
        taken: dict[str, int] = {}
        self.held: dict[int, str] = {}
        for key, each in made.held.items():
            stem = f"r{self.stems[each.tensor.name]}"
            taken[stem] = taken.get(stem, 0) + 1
            self.held[key] = stem if taken[stem] == 1 else f"{stem}_{taken[stem]}"
        self.pairs: Pairs | None = paired(made.w, made.held, made.k[-1], self.held)

    def text(self) -> str:
        """The whole source."""
        kernel, exemplar = "\n".join(self._struct()), load(KERNEL)
        return exemplar.with_sections(
            header=frame.header(self._comment(), self.plan),
            knobs="\n".join(self._knobs()),
            arithmetic=frame.device_helpers(kernel).strip("\n"),
            kernel=kernel,
            entry=frame.entry(self.problem, self.names, self._entry()),
        )

    def _comment(self) -> list[str]:
        (m, n, k), made = self.made.sizes, self.made
        return [
            f"A product of {m} rows with weights made on the way: {m} x {k} -> {n}.",
            f"  weights in memory: {made.weight_bytes} bytes",
            f"  shared memory: {made.shared_bytes(self.plan.knobs)} bytes",
        ]

    def _knobs(self) -> list[str]:
        lines = load(KERNEL).section("knobs").splitlines()
        knobs, (_, n, _) = self.plan.knobs, self.made.sizes
        values: dict[str, object] = {name: knobs[name] for name in ("tiles", "warps", "depth")}
        several = int(knobs["blocks"]) * self.problem.device.multiprocessors
        values["blocks"] = several or ceil(n / 16)
        values["shared"] = "true" if knobs["shared"] else "false"
        for name, value in values.items():
            head = f" k{name.capitalize()} = "
            lines = [
                f"{line.partition(head)[0]}{head}{value};{line.partition(';')[2]}" if head in line else line
                for line in lines
            ]
        return [
            line.replace("int;", "int64_t;") if line.startswith("using Index") and self._far else line for line in lines
        ]

    @property
    def _far(self) -> bool:
        ends = [abs(end) for index in indices_of(self.made.nest) for end in index.bounds]
        return max(ends, default=0) >= 1 << 31

    def _struct(self) -> Iterator[str]:
        made, (m, n, k) = self.made, self.made.sizes
        yield f"// m = {_names(made.m)}, n = {_names(made.n)}, k = {_names(made.k)}"
        yield "struct Weights {"
        body = [
            *(f"{self._pointer_type(each)} p{self.stems[each.name]};" for each in self.tensors),
            f"using T = {STORED_TYPES[made.x.dtype]};",
            f"static constexpr int M = {m}, N = {n}, K = {k};",
            "struct Raw {",
            *(f"  {each.type} {self.held[key]};" for key, each in made.held.items()),
            "};",
            *self._raw(), *self._weights(), *self._row(), *self._store(),
        ]  # fmt: skip
        yield from indented(body)
        yield "};"

    def _pointer_type(self, tensor: Tensor) -> str:
        return f"{STORED_TYPES[tensor.dtype]}{'' if tensor.name in self.outputs else ' const'}*"

    def _raw(self) -> Iterator[str]:
        yield "CUTE_DEVICE Raw raw(int n, int k) const {"
        yield from indented(self._decoded(("n", self.made.n), (f"k / {LANES}", self.made.k[:-1])))
        values = []
        for each in self.made.held.values():
            pointer, start = f"p{self.stems[each.tensor.name]}", spelled(each.start, _no_data)
            values.append(f"{each.type}::of({pointer} + ({start}))" if each.lanes else f"{pointer}[{start}]")
        yield f"  return {{{', '.join(values)}}};"
        yield "}"

    def _weights(self) -> Iterator[str]:
        order = self.pairs.order if self.pairs else "j"
        yield "// Which of the 16 k's the halves of the 8 registers hold."
        yield f"CUTE_DEVICE static constexpr int order(int j) {{ return {order}; }}"
        head = "Raw const& raw, [[maybe_unused]] int n, [[maybe_unused]] int k, uint32_t (&w)[8]"
        yield f"CUTE_DEVICE void weights({head}) const {{"
        yield from indented(self.pairs.lines if self.pairs else list(self._one_by_one()))
        yield "}"

    def _one_by_one(self) -> Iterator[str]:
        """Weights that no two of are made at once."""
        statements = _Lanes(self.made, self.stems, self.held)
        lines = statements.write([self.made.w])
        inner = self.made.k[-1]
        yield from self._decoded(("n", self.made.n), (f"k / {LANES}", self.made.k[:-1]))
        yield "T lanes[16];"
        yield "UNROLL"
        yield f"for (Index {inner.name} = 0; {inner.name} < {LANES}; ++{inner.name}) {{"
        yield from indented([*lines, f"lanes[{inner.name}] = T({statements.emitter.name(self.made.w)});"])
        yield "}"
        yield "UNROLL"
        yield "for (int j = 0; j < 8; ++j) w[j] = pair(lanes[2 * j], lanes[2 * j + 1]);"

    def _row(self) -> Iterator[str]:
        made = self.made
        address = made.nest.address(made.x).at({made.k[-1]: number(0)}, lambda data: data)
        yield "CUTE_DEVICE T const* row([[maybe_unused]] int m, int k) const {"
        yield from indented(self._decoded(("m", made.m), (f"k / {LANES}", made.k[:-1])))
        yield f"  return p{self.stems[made.nest.tensor(made.x).name]} + ({spelled(address, _no_data)});"
        yield "}"

    def _store(self) -> Iterator[str]:
        nest = self.made.nest
        statements = Statements(nest, Views(self.stems), {}, None, exact=False)
        statements.emitter = DeviceEmitter()
        lines = statements.write(store.body for store in nest.stores)
        names = statements.emitter.name
        for store in nest.stores:
            view = statements.views.of(store.tensor, store.address)
            value = f"{STORED_TYPES[store.tensor.dtype]}({names(store.body)})"
            lines.append(f"m{view.name}({view.at(store.address, names)}) = {value};")
        yield f"CUTE_DEVICE void store([[maybe_unused]] int m, int n, float {nest.totals[0].name}) const {{"
        for view in statements.views.made.values():
            start = f"p{self.stems[view.tensor.name]} + {view.offset}".replace(" + 0", "").replace("+ -", "- ")
            yield f"  Tensor m{view.name} = make_tensor(make_gmem_ptr({start}), {view.layout()});  // {view.comment()}"
        yield from indented([*self._decoded(("m", self.made.m), ("n", self.made.n)), *lines])
        yield "}"

    def _decoded(self, *loops: tuple[str, tuple[Axis, ...]]) -> list[str]:
        return [
            f"[[maybe_unused]] {line}"
            for name, axes in loops
            for line in decoded(axes, f"({name})" if " " in name else name, 1, "Index")
        ]

    def _entry(self) -> list[str]:
        lines = [frame.stream(self.problem, self.names)]
        for each in self.tensors:
            kind = self._pointer_type(each)
            lines.append(
                f"auto* const p{self.stems[each.name]} = static_cast<{kind}>({self.names[each.name]}.data_ptr());"
            )
        words = [self.made.nest.tensor(self.made.x), *(each.tensor for each in self.made.held.values() if each.lanes)]
        lines += [f"check_aligned(p{stem});" for stem in dict.fromkeys(self.stems[each.name] for each in words)]
        arguments = ", ".join(f"p{self.stems[each.name]}" for each in self.tensors)
        return [*lines, f"launch(Weights{{{arguments}}}, stream);", "launched();"]


def _names(axes: tuple[Axis, ...]) -> str:
    return " x ".join(f"{axis.name}:{axis.extent}" for axis in axes) or "1"


def _no_data(node: Node) -> str:
    raise AssertionError(f"an index computed from {node.kind}: matched() takes none")
