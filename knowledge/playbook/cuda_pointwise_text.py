"""The text of a pointwise kernel for GPUs: sections that replace those of the exemplar `pointwise.cu`."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.exemplars.source import load
from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook import source_text
from knowledge.playbook.cuda_math import CheaperEmitter
from knowledge.playbook.cuda_pointwise_frame import Operand
from knowledge.playbook.emission import ELEMENT_TYPES, Emitter
from knowledge.playbook.identifiers import tensor_names
from knowledge.playbook.lowering import Lowered
from knowledge.playbook.pointwise_pass import Pass
from knowledge.playbook.pointwise_text import operations_per_element
from knowledge.playbook.problem import Problem, Tensor
from knowledge.playbook.recipe import Plan
from knowledge.playbook.source_text import indented


@dataclass(frozen=True)
class Knobs:
    """A plan's knobs: elements a pack (0: one at a time), packs in flight, threads a block, cache hints.

    `resident`: blocks a multiprocessor that go over all tiles, 0 for one block a tile. `exact`: arithmetic in its
    cheaper spelling.
    """

    vector: bool
    packs: int
    threads: int
    once: bool
    resident: int
    exact: bool

    @classmethod
    def of(cls, plan: Plan) -> Knobs:
        """The knobs a plan sets, the others at their plain values."""
        get = {name: int(value) for name, value in plan.knobs.items()}.get
        return cls(
            vector=bool(get("vector", 0)), packs=get("packs", 1), threads=get("threads", 128),
            once=bool(get("once", 0)), resident=get("grid", 0), exact=bool(get("exact", 0)),
        )  # fmt: skip


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
        emitter = CheaperEmitter() if self.knobs.exact else Emitter()
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
        if self.knobs.resident:
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
        resident = self.knobs.resident * max(self.device.multiprocessors, 1)
        return f"std::min<int64_t>({tiles}, {resident})" if resident else tiles


def render(problem: Problem, plan: Plan, lowered: Lowered, passes: tuple[Pass, ...]) -> str:
    """The whole source file."""
    parts = [PassText(problem, plan, part, index) for index, part in enumerate(passes)]
    functions = "\n".join("\n".join(part.arithmetic()) for part in parts)
    names = source_text.argument_names(problem)
    body = [frame.stream(problem, names)]
    for part in parts:
        body += _scoped(part.launch(), len(parts) > 1)
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


def _scoped(lines: list[str], several: bool) -> list[str]:
    """Each of several passes in its own braces, where its pointers have their names to themselves."""
    return ["{", *indented(lines), "}"] if several else lines
