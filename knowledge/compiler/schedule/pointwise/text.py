"""Passes over memory, one for each shape among the outputs, and the text of a pointwise kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.emit.elements import ELEMENT_TYPES, Emitter
from knowledge.compiler.emit.source_text import indented, tensor_names
from knowledge.compiler.ir.expressions import Node, UnwritableError, postorder
from knowledge.compiler.ir.strides import Space, collapse
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.plan import Plan, PlanKnobs
from knowledge.compiler.problem import Problem, Tensor


@dataclass(frozen=True)
class Pass:
    """Outputs of one shape, computed together."""

    outputs: tuple[tuple[Tensor, Node], ...]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, operands first."""
        return tuple(postorder(tuple(node for _, node in self.outputs)))

    @cached_property
    def loads(self) -> tuple[Node, ...]:
        """The distinct strided loads."""
        return tuple(node for node in self.nodes if node.kind == "load")

    @cached_property
    def scalars(self) -> tuple[Node, ...]:
        """The numbers passed by value."""
        return tuple(node for node in self.nodes if node.kind == "scalar")

    @cached_property
    def space(self) -> Space:
        """The loop nest; operands are the outputs, then the loads."""
        shape = self.outputs[0][0].shape
        return collapse(shape, [tensor.strides for tensor, _ in self.outputs] + [load.strides for load in self.loads])

    @property
    def numel(self) -> int:
        """Elements of each output."""
        return prod(self.outputs[0][0].shape)


def passes_of(lowered: Lowered) -> tuple[Pass, ...]:
    """One pass a shape. Raises `UnwritableError` where a reduction takes part, or there is nothing to compute."""
    by_shape: dict[tuple[int, ...], list[tuple[Tensor, Node]]] = {}
    for tensor, node in lowered.outputs:
        by_shape.setdefault(tensor.shape, []).append((tensor, node))
    passes = tuple(Pass(tuple(outputs)) for outputs in by_shape.values())
    for each in passes:
        for node in each.nodes:
            if node.kind == "reduce":
                raise UnwritableError(node.origin)
    return passes


TILE = 16 << 10


@dataclass(frozen=True)
class Knobs(PlanKnobs):
    """A pointwise plan's knobs. `lanes` is 1 for one element at a time; `tile` is 0 for the usual one."""

    threads: bool = False
    lanes: int = 1
    exact: bool = False
    streaming: bool = False
    unroll: int = 1
    tile: int = 0

    @property
    def tiled(self) -> bool:
        """Whether the loop is cut into tiles: the plain kernel is not."""
        return self.threads or self.lanes > 1


class PassText:
    """One pass as C++: the arithmetic of an element (or of a register of them), and the loop that applies it."""

    def __init__(self, problem: Problem, plan: Plan, part: Pass, index: int) -> None:
        self.part = part
        self.knobs = Knobs.of(plan)
        self.names = source_text.argument_names(problem)
        self.tensors = {each.name: each for each in problem.arguments if isinstance(each, Tensor)}
        self.function = f"element{index or ''}"
        stems = tensor_names(self.names)
        self.outputs = [stems[tensor.name] for tensor, _ in part.outputs]
        self.loads = source_text.load_names(part.loads, stems)

    def emitter(self) -> Emitter:
        """Knows the types and, once `arithmetic` filled it, the names."""
        return Emitter(lanes=self.knobs.lanes > 1, exact=self.knobs.exact)

    def arithmetic(self) -> list[str]:
        """The function that computes one element, or one register, of each output."""
        emitter = self.emitter()
        parameters = []
        for load, name in zip(self.part.loads, self.loads, strict=True):
            emitter.names[id(load)] = f"r{name}"
            parameters.append(f"{emitter.type_of(load)} r{name}")
        for scalar in self.part.scalars:
            emitter.names[id(scalar)] = self.names[scalar.op]
            parameters.append(f"{ELEMENT_TYPES[scalar.dtype]} {self.names[scalar.op]}")
        emitter.emit(self.part.nodes)
        for (_, node), name in zip(self.part.outputs, self.outputs, strict=True):
            parameters.append(f"{self._result_type(emitter, node.dtype)}& r{name}")
            emitter.lines.append(f"r{name} = {emitter.value(node, emitter.lanes)};")
        return [f"inline void {self.function}({', '.join(parameters)}) {{", *indented(emitter.lines), "}"]

    def loop(self) -> list[str]:
        """The statements of `run`: the tensors, then the loop over their elements."""
        lines = self._tensors()
        if self.knobs.tiled:
            return lines + self._tiled()
        return [*lines, f"for (int64_t i = 0; i < {self.part.numel}; ++i) {{", *indented(self._step("m")), "}"]

    def _tiled(self) -> list[str]:
        columns, rows = self.part.space.columns, self.part.space.rows
        size = min(TILE, -(-columns // self.knobs.lanes) * self.knobs.lanes)
        tile, per_row, several = str(size), str(-(-columns // size)), columns > size
        if self.knobs.tile:
            tile, per_row, several = "kTile", f"(({columns} - 1) / kTile + 1)", True
        flat = len(self.part.space.extents) == 1
        column = "t" if flat else f"t % {per_row}" if several else "0"
        row = f"t / {per_row}" if several else "t"
        tiler, where = f"Shape<Int<{tile}>>{{}}", f"make_coord({column})"
        if not flat:
            tiler, where = f"Shape<Int<{tile}>, _1>{{}}", f"make_coord({column}, {row})"
        body = [
            f"Tensor g{name} = local_tile(m{name}, {tiler}, {where}){'' if flat else '(_, 0)'};  // ({tile})"
            for name in (*self.loads, *self.outputs)
        ]
        whole = not self.knobs.tile and columns % size == 0
        count = size if whole else columns if not several else 0
        start = f"({column}) * {tile}" if "%" in column else f"{column} * {tile}"
        body.append(f"int const n = {count or f'int(min(int64_t({tile}), {columns} - {start}))'};")
        aligned = columns if self.knobs.tile else count  # every tile to try is whole registers
        body += self._lane_loop(ragged=not aligned or aligned % self.knobs.lanes != 0)
        pragma = ["#pragma omp parallel for schedule(static)"] if self.knobs.threads else []
        tiles = f"{per_row} * {rows}" if self.knobs.tile else str(int(per_row) * rows)
        return [*pragma, f"for (int64_t t = 0; t < {tiles}; ++t) {{", *indented(body), "}"]

    def _lane_loop(self, ragged: bool) -> list[str]:
        if self.knobs.lanes == 1:
            return ["for (int i = 0; i < n; ++i) {", *indented(self._step("g")), "}"]
        unroll = [f"#pragma GCC unroll {self.knobs.unroll}"] if self.knobs.unroll > 1 else []
        lines = [
            "int i = 0;", *unroll, "for (; i + kLanes <= n; i += kLanes) {",
            *indented(self._register_step("")), "}",
        ]  # fmt: skip
        if ragged:
            lines += ["if (i < n) {  // the last register is not full", *indented(self._register_step(", n - i")), "}"]
        return [*lines, "_mm_sfence();"] if self.knobs.streaming else lines

    def _step(self, memory: str) -> list[str]:
        """Load, compute and store element `i`."""
        lines = self._call([f"{memory}{name}(i)" for name in self.loads])
        for (tensor, _), name in zip(self.part.outputs, self.outputs, strict=True):
            cast = f"{source_text.stored_type(tensor)}(r{name})"
            lines.append(f"{memory}{name}(i) = {cast if 'float16' in tensor.dtype else f'r{name}'};")
        return lines

    def _register_step(self, count: str) -> list[str]:
        """Load, compute and store a register from element `i` on; `count` limits it to fewer elements."""
        emitter = self.emitter()
        lines = self._call(
            [
                f"load<{emitter.type_of(load)}>(g{name}, i{count})"
                for load, name in zip(self.part.loads, self.loads, strict=True)
            ]
        )
        store = "stream" if self.knobs.streaming and not count else "store"
        return lines + [f"{store}(g{name}, i, r{name}{count});" for name in self.outputs]

    def _call(self, loads: list[str]) -> list[str]:
        emitter = self.emitter()
        lines = [
            f"{self._result_type(emitter, node.dtype)} r{name};"
            for (_, node), name in zip(self.part.outputs, self.outputs, strict=True)
        ]
        scalars = [self.names[scalar.op] for scalar in self.part.scalars]
        arguments = [*loads, *scalars, *(f"r{name}" for name in self.outputs)]
        return [*lines, f"{self.function}({', '.join(arguments)});"]

    def _result_type(self, emitter: Emitter, dtype: str) -> str:
        return emitter.types[dtype]

    def _tensors(self) -> list[str]:
        space, count = self.part.space, len(self.outputs)
        lines: list[str] = []
        for k, (load, name) in enumerate(zip(self.part.loads, self.loads, strict=True), count):
            layout = source_text.flat_layout(space, k)
            lines += source_text.tensor(name, self.tensors[load.op], self.names, layout, load.offset, const=True)
        for k, ((tensor, _), name) in enumerate(zip(self.part.outputs, self.outputs, strict=True)):
            lines += source_text.tensor(name, tensor, self.names, source_text.flat_layout(space, k))
        return lines


def operations_per_element(part: Pass) -> int:
    """Arithmetic operations on one element, a call of a function counted as one."""
    return sum(1 for node in part.nodes if node.kind == "compute" and not node.uniform)


def render(problem: Problem, plan: Plan, lowered: Lowered, passes: tuple[Pass, ...]) -> str:
    """The whole source file."""
    knobs = Knobs.of(plan)
    parts = [PassText(problem, plan, part, index) for index, part in enumerate(passes)]
    functions = "\n".join("\n".join([*part.arithmetic(), ""]) for part in parts)
    if knobs.tile:
        functions = f"constexpr int kTile = {knobs.tile};  // elements\n\n{functions}"
    body = [line for part in parts for line in (*scoped(part.loop(), len(parts) > 1), "")][:-1]
    operations = sum(part.numel * operations_per_element(part) for part in passes)
    moved = source_text.bytes_moved(problem)
    comment = [
        f"Elementwise, fused into one pass: {source_text.summary(lowered)}.",
        *(f"  {part.numel} elements, {operations_per_element(part)} operations on each" for part in passes),
        f"  bytes moved: {moved}; operations: {operations}; {operations / max(moved, 1):.2f} operations a byte",
    ]
    entry = source_text.entry(problem, source_text.argument_names(problem), body)
    return source_text.kernel(comment, plan, helpers(functions, entry, knobs.lanes), functions, entry)


def scoped(lines: list[str], several: bool) -> list[str]:
    """Each of several passes in its own braces, where its tensors have their names to themselves."""
    return ["{", *indented(lines), "}"] if several else lines
