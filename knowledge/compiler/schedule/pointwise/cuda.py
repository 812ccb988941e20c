"""Pointwise kernels for GPUs: their moves, and sections that replace those of the exemplar `pointwise.cu`."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.cuda_frame import Operand
from knowledge.compiler.emit.cuda_math import CHEAPER, DeviceEmitter, has_cheaper
from knowledge.compiler.emit.elements import ELEMENT_TYPES
from knowledge.compiler.emit.source_text import indented, tensor_names
from knowledge.compiler.kernels.source import load
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.plan import Move, Plan, PlanKnobs
from knowledge.compiler.problem import Problem, Tensor
from knowledge.compiler.schedule.pointwise.text import Pass, operations_per_element, passes_of, scoped
from knowledge.compiler.schedule.strided_reading import lower_problem


@dataclass(frozen=True)
class Knobs(PlanKnobs):
    """A plan's knobs: elements a pack (0: one at a time), packs in flight, threads a block, cache hints.

    `grid`: blocks a multiprocessor that go over all tiles, 0 for one block a tile. `exact`: arithmetic in its
    cheaper spelling.
    """

    vector: bool = False
    packs: int = 1
    threads: int = 128
    once: bool = False
    grid: int = 0
    exact: bool = False


class PassText:
    """One pass as C++: the arithmetic of an element, the kernel, and its launch."""

    def __init__(self, problem: Problem, plan: Plan, part: Pass, index: int) -> None:
        self.part = part
        self.knobs = Knobs.of(plan)
        self.names = source_text.argument_names(problem)
        self.device = problem.device
        self.suffix = str(index or "")
        stems = tensor_names(self.names)
        tensors = {each.name: each for each in problem.arguments if isinstance(each, Tensor)}
        self.scalars = [(f"p{stems[node.op]}", node) for node in part.scalars]
        space, count = part.space, len(part.outputs)
        self.outputs = [
            Operand(stems[tensor.name], tensor, space.strides[k], output=True)
            for k, (tensor, _) in enumerate(part.outputs)
        ]
        self.loads = [
            Operand(name, tensors[node.op], space.strides[count + k], node.offset)
            for k, (node, name) in enumerate(zip(part.loads, source_text.load_names(part.loads, stems), strict=True))
        ]
        self.vector = frame.pack_width(space, self.operands, tail=True) if self.knobs.vector else 1

    @property
    def operands(self) -> list[Operand]:
        """The loads, then the outputs."""
        return [*self.loads, *self.outputs]

    @property
    def rest(self) -> int:
        """Elements after the last whole pack."""
        return self.part.numel % self.vector

    @property
    def wide(self) -> bool:
        """Whether offsets need 64 bits."""
        space = self.part.space
        tile = self.knobs.threads * self.knobs.packs * self.vector
        largest = max(self.part.numel, *(frame.spans(space, place) for place in range(len(space.strides))))
        return largest + tile >= frame.INT_SPAN

    def arithmetic(self) -> list[str]:
        """The function that computes one element of each output."""
        emitter = DeviceEmitter(cheaper=self.knobs.exact)
        parameters = []
        for node, operand in zip(self.part.loads, self.loads, strict=True):
            emitter.names[id(node)] = f"r{operand.name}"
            parameters.append(f"{emitter.type_of(node)} r{operand.name}")
        for name, scalar in self.scalars:
            emitter.names[id(scalar)] = name
            parameters.append(f"{ELEMENT_TYPES[scalar.dtype]} {name}")
        emitter.emit(self.part.nodes)
        for operand, (_, node) in zip(self.outputs, self.part.outputs, strict=True):
            parameters.append(f"{operand.type}& r{operand.name}")
            emitter.lines.append(f"r{operand.name} = {frame.stored(operand, node.dtype, emitter.name(node))};")
        return frame.function(f"__device__ inline void element{self.suffix}({', '.join(parameters)})", emitter.lines)

    def kernel(self) -> list[str]:
        """The kernel of the pass."""
        step = "kThreads * kPacks"
        tiles = f"for (Index tile = blockIdx.x; tile * ({step}) < kCount; tile += gridDim.x) {{"
        first = f"Index const first = Index(blockIdx.x) * ({step}) + threadIdx.x;"
        tile = [*self._loading(), *self._computing()]
        if self.knobs.grid:
            first = f"Index const first = tile * ({step}) + threadIdx.x;"
            tile = [tiles, *indented([first, *tile]), "}"]
        else:
            tile = [first, *tile]
        extents = self.part.space.extents
        body = [
            *(line for each in self.operands for line in frame.tensor_lines(each, extents, len(extents))),
            f"Index const kCount = {self._count('V')};  // packs",
            *tile,
            *self._rest(),
        ]
        head = f"__global__ void __launch_bounds__(kThreads) pointwise{self.suffix}({self._parameters()})"
        return ["template <int V>", *frame.function(head, body)]

    def _parameters(self) -> str:
        scalars = [f"{ELEMENT_TYPES[node.dtype]} {name}" for name, node in self.scalars]
        return ", ".join([*(each.parameter for each in self.operands), *scalars])

    def _count(self, divisor: str) -> str:
        return f"Index({self.part.numel}{'ll' if self.wide else ''} / {divisor})"

    def _loading(self) -> list[str]:
        if not self.loads:
            return []
        lines = [line for each in self.loads for line in frame.load_lines(each, "[u]", "i", self._once(each))]
        body = ["Index const i = first + u * kThreads;", "if (i < kCount) {", *indented(lines), "}"]
        return [
            *(f"{each.held} r{each.name}[kPacks];" for each in self.loads),
            "UNROLL", "for (int u = 0; u < kPacks; ++u) {", *indented(body), "}",
        ]  # fmt: skip

    def _computing(self) -> list[str]:
        lines = [f"{each.held} r{each.name};" for each in self.outputs]
        lines += ["UNROLL", f"for (int k = 0; k < V; ++k) {{ {self._call('[u]')} }}"]
        lines += [line for each in self.outputs for line in frame.store_lines(each, "i", self._once(each))]
        body = ["Index const i = first + u * kThreads;", "if (i < kCount) {", *indented(lines), "}"]
        return ["UNROLL", "for (int u = 0; u < kPacks; ++u) {", *indented(body), "}"]

    def _call(self, slot: str) -> str:
        loads = [
            frame.converted(each, node.dtype, each.lane(slot))
            for each, node in zip(self.loads, self.part.loads, strict=True)
        ]
        arguments = [*loads, *(name for name, _ in self.scalars), *(each.lane() for each in self.outputs)]
        return f"element{self.suffix}({', '.join(arguments)});"

    def _once(self, operand: Operand) -> str:
        """Only what every element moves for itself is of no further use."""
        return "kOnce" if operand.output or 0 not in operand.strides else "false"

    def _rest(self) -> list[str]:
        """The elements after the last whole pack, one a thread."""
        if not self.rest:
            return []
        loads = []
        for each, node in zip(self.loads, self.part.loads, strict=True):
            at = {1: "i", 0: "0"}.get(each.strides[0], f"i * {each.strides[0]}")
            loads.append(frame.converted(each, node.dtype, f"p{each.name}[{at}]"))
        results = [f"p{each.name}[{'i' if each.form == 'pack' else f'i * {each.strides[0]}'}]" for each in self.outputs]
        arguments = [*loads, *(name for name, _ in self.scalars), *results]
        start = self.part.numel - self.rest
        body = [f"Index const i = Index({start}ll) + threadIdx.x;", f"element{self.suffix}({', '.join(arguments)});"]
        return [
            f"if (V > 1 && blockIdx.x == 0 && threadIdx.x < {self.rest}) {{  // the incomplete pack",
            *indented(body),
            "}",
        ]

    def launch(self) -> list[str]:
        """The statements of `run` that start the kernel."""
        lines = [each.pointer(self.names[each.tensor.name]) for each in self.operands]
        scalars = [self.names[node.op] for _, node in self.scalars]
        arguments = ", ".join([*(f"p{each.name}" for each in self.operands), *scalars])

        def start(vector: int) -> str:
            width = vector if vector == 1 else f"kVector{self.suffix}"
            return f"pointwise{self.suffix}<{width}><<<{self.blocks(vector)}, kThreads, 0, stream>>>({arguments});"

        if self.vector == 1:
            return [*lines, start(1), "launched();"]
        test = frame.alignment_test(self.operands, f"kVector{self.suffix}")
        chosen = [f"if ({test}) {{", f"  {start(self.vector)}", "} else {", f"  {start(1)}", "}"]
        return [*lines, *chosen, "launched();"]

    def blocks(self, vector: int) -> str:
        """Blocks of the launch, as an expression."""
        tiles = f"{max(self.part.numel // vector, 1) - 1} / (kThreads * kPacks) + 1"
        resident = self.knobs.grid * max(self.device.multiprocessors, 1)
        return f"std::min<int64_t>({tiles}, {resident})" if resident else tiles


def _source(problem: Problem, plan: Plan, lowered: Lowered, passes: tuple[Pass, ...]) -> str:
    """The whole source file."""
    parts = [PassText(problem, plan, part, index) for index, part in enumerate(passes)]
    functions = "\n".join("\n".join(part.arithmetic()) for part in parts)
    names = source_text.argument_names(problem)
    body = [frame.stream(problem, names)]
    for part in parts:
        body += scoped(part.launch(), len(parts) > 1)
    return load("pointwise").with_sections(
        header=frame.header(_comment(problem, plan, lowered, parts), plan),
        knobs="\n".join(_knobs(plan, parts)),
        arithmetic=(frame.device_helpers(functions) + "\n" + functions).strip("\n"),
        kernel="\n\n".join("\n".join(part.kernel()) for part in parts),
        entry=frame.entry(problem, names, body),
    )


def _knobs(plan: Plan, parts: list[PassText]) -> list[str]:
    knobs = Knobs.of(plan)
    return [
        f"constexpr int kThreads = {knobs.threads};  // a block",
        f"constexpr int kPacks = {knobs.packs};  // packs in flight a thread",
        *(f"constexpr int kVector{part.suffix} = {part.vector};  // elements a pack" for part in parts),
        f"[[maybe_unused]] constexpr bool kOnce = {str(knobs.once).lower()};  // its data leaves the caches first",
        f"using Index = {'int64_t' if any(part.wide for part in parts) else 'int'};",
    ]


def _comment(problem: Problem, plan: Plan, lowered: Lowered, parts: list[PassText]) -> list[str]:
    knobs = Knobs.of(plan)
    moved = source_text.bytes_moved(problem)
    operations = sum(part.part.numel * operations_per_element(part.part) for part in parts)
    lines = [f"Elementwise, fused into one pass: {source_text.summary(lowered)}."]
    for part in parts:
        tile = knobs.threads * knobs.packs * part.vector
        lines += [
            f"  {part.part.numel} elements, {operations_per_element(part.part)} operations on each",
            f"  tile: {knobs.threads} threads x {knobs.packs} packs x {part.vector} elements = {tile} elements a block",
        ]
    return [
        *lines,
        "  shared memory: 0 bytes",
        f"  bytes moved: {moved}; operations: {operations}; {operations / max(moved, 1):.2f} operations a byte",
    ]


# Bytes that must be on their way to keep the memory of one multiprocessor busy.
IN_FLIGHT = 32 << 10
# Packs that a thread has on their way: more only take registers.
MOST_PACKS = 4


def moves(problem: Problem, plan: Plan) -> tuple[Move, ...]:
    """Vector access, cheaper exact math, cache hints, several packs in flight, the block size; then both at once."""
    passes = passes_of(lower_problem(problem))
    makers = (_vector, _exact, _once, _packs, _threads, _sweep)
    found = (maker(problem, plan, passes) for maker in makers)
    return tuple(move for move in found if move is not None)


def render(problem: Problem, plan: Plan) -> str:
    """The kernel's source."""
    lowered = lower_problem(problem)
    return _source(problem, plan, lowered, passes_of(lowered))


Passes = tuple[Pass, ...]


def _vector(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    widened = plan.with_knobs(vector=1)
    widths = [PassText(problem, widened, part, k).vector for k, part in enumerate(passes)]
    if "vector" in plan.knobs or max(widths) == 1:
        return None
    why = f"one instruction moves {max(widths)} neighbours"
    return Move("vector access", why, widened, ("on_chip", "latency", "compute", "coalescing"), sure=True)


def _exact(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if "exact" in plan.knobs or not any(has_cheaper(node) for each in passes for node in each.nodes):
        return None
    return Move("cheaper exact math", CHEAPER, plan.with_knobs(exact=1), ("compute", "latency", "memory"))


def _packs(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    packs = 2 * Knobs.of(plan).packs
    if (
        "swept" in plan.knobs
        or packs > MOST_PACKS
        or max(each.numel for each in passes) < problem.device.multiprocessors * IN_FLIGHT
    ):
        return None
    why = f"{packs} loads of a thread on their way at once hide more of the memory's latency"
    return Move("loads in flight", why, plan.with_knobs(packs=packs), ("latency",))


def _once(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    moved = sum(each.numel for each in passes) * 8
    if "once" in plan.knobs or moved < problem.device.l2_bytes:
        return None
    why = "nothing is used twice: loads and stores that leave the L2 cache first keep it for data on its way"
    return Move("cache hints", why, plan.with_knobs(once=1), ("memory", "on_chip"))


def _threads(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if "threads" in plan.knobs or max(each.numel for each in passes) < problem.device.multiprocessors * IN_FLIGHT:
        return None
    why = "larger blocks: fewer of them to start"
    return Move("block size", why, plan.with_knobs(threads=256), ("launch", "latency"))


def _sweep(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    """What is left when each was tried alone: their combinations."""
    if "swept" in plan.knobs or max(each.numel for each in passes) < problem.device.multiprocessors * IN_FLIGHT:
        return None
    knobs = Knobs.of(plan)
    why = "registers, blocks a multiprocessor and loads in flight depend on both: only a trial tells"
    after = plan.with_knobs(threads=knobs.threads, packs=knobs.packs, swept=1)
    return Move("block size and loads", why, after, sweep={"threads": (128, 256, 512), "packs": (1, 2, 4)})
