"""The text of a kernel with reductions along rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.cpu_functions import helpers
from knowledge.compiler.emit.elements import (
    DECLARATIONS,
    ELEMENT_TYPES,
    LANE_TYPES,
    REDUCERS,
    Emitter,
    identity,
    total_type,
)
from knowledge.compiler.emit.source_text import indented, tensor_names
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.primitives import PRIMITIVES
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.row_program import RowProgram, Target
from knowledge.compiler.plan import Plan, PlanKnobs
from knowledge.compiler.problem import Problem, Tensor

# Columns after which partial sums move to a wider type: 64 additions a lane at 16 lanes and 4 registers.
BLOCK = 4096
# Instructions of a function such as exp, about.
FUNCTION = 16


@dataclass(frozen=True)
class Knobs(PlanKnobs):
    """A row plan's knobs. `lanes` is 1 for one element at a time."""

    threads: str = ""
    lanes: int = 1
    exact: bool = False
    keep: bool = False
    streaming: bool = False
    accumulators: int = 1
    prefetch: bool = False


@dataclass
class Sweep:
    """What one sweep reads and makes: loads, buffers read, row values; reductions, outputs, buffers written."""

    index: int
    loads: list[Node] = field(default_factory=list)
    reads: list[Node] = field(default_factory=list)
    numbers: list[Node] = field(default_factory=list)
    reductions: tuple[Node, ...] = ()
    stores: tuple[Target, ...] = ()
    writes: list[Node] = field(default_factory=list)


class RowText:
    """A row program as C++: one function a sweep for the arithmetic, and the loops of `run`."""

    def __init__(self, problem: Problem, plan: Plan, program: RowProgram) -> None:
        self.program = program
        self.knobs = Knobs.of(plan)
        self.names = source_text.argument_names(problem)
        self.tensors = {each.name: each for each in problem.arguments if isinstance(each, Tensor)}
        self.stems = tensor_names(self.names)
        loads = source_text.load_names(program.operands, self.stems)
        self.load_name = {id(node): name for node, name in zip(program.operands, loads, strict=True)}
        self.reduction_name = {id(node): f"{node.op.title()}{k}" for k, node in enumerate(program.reductions)}
        self.kept_name = {id(node): f"Kept{k}" for k, node in enumerate(program.kept if self.knobs.keep else ())}
        self.ahead = [self.load_name[id(node)] for node in program.by_rows] if self.knobs.prefetch else []
        self.row = Emitter()
        for node in program.nodes:
            if node.kind == "scalar":
                self.row.names[id(node)] = self.names[node.op]
        self.sweeps = self._sweeps()
        self.functions: list[str] = []

    def _sweeps(self) -> list[Sweep]:
        sweeps, available = [], frozenset[int]()
        for index in range(self.program.sweeps):
            sweep = Sweep(index, reductions=self.program.reductions_of(index), stores=self.program.stores_of(index))
            wanted = self.program.wanted(index)
            used: dict[int, Node] = {id(node): node for node in wanted if self.program.flat(node)}
            for node in self.program.cone(wanted, available):
                if node.kind == "load":
                    sweep.loads.append(node)
                elif id(node) in available:
                    sweep.reads.append(node)
                else:
                    used |= {id(arg): arg for arg in node.args if self.program.flat(arg)}
                    sweep.writes += [node] if id(node) in self.kept_name else []
            sweep.numbers = [node for node in used.values() if node.kind != "const"]
            available |= {id(node) for node in sweep.writes}
            sweeps.append(sweep)
        return sweeps

    def _computed(self, sweep: Sweep) -> list[Node]:
        """A sweep's column values but those that an earlier one left in a buffer."""
        stop = frozenset(map(id, sweep.reads))
        return [node for node in self.program.cone(self.program.wanted(sweep.index), stop) if id(node) not in stop]

    @cached_property
    def busiest(self) -> int:
        """The sweep that computes most, the last of equals: it has time for the next row to come from memory. The
        first is none where there are others, since it waits for its own row."""
        work = [sum(map(_instructions, self._computed(sweep))) for sweep in self.sweeps]
        return max(range(min(1, len(work) - 1), len(work)), key=lambda index: (work[index], index))

    def body(self) -> list[str]:
        """The statements of `run`; fills `functions`."""
        loop = [*self._row_views(), *self._row_code(0)]
        for sweep in self.sweeps:
            self.functions += self._function(sweep)
            loop += ["", *self._sweep(sweep), *self._row_code(sweep.index + 1)]
        pragma = ["#pragma omp parallel for schedule(static)"] if self.knobs.threads == "rows" else []
        rows = self.program.rows
        count = rows.columns * rows.rows
        return [*self._tensors(), *pragma, f"for (int64_t r = 0; r < {count}; ++r) {{", *indented(loop), "}"]

    def _tensors(self) -> list[str]:
        lines: list[str] = []
        count = len(self.program.targets)
        columns, rows = self.program.columns, self.program.rows
        for k, load in enumerate(self.program.operands):
            layout = source_text.row_layout(columns, rows, count + k)
            lines += source_text.tensor(
                self.load_name[id(load)], self.tensors[load.op], self.names, layout, load.offset, const=True
            )
        for k, target in enumerate(self.program.targets):
            layout = source_text.row_layout(columns, rows, k)
            lines += source_text.tensor(self.stems[target.tensor.name], target.tensor, self.names, layout)
        return lines

    def _row_views(self) -> list[str]:
        names = [self.load_name[id(load)] for load in self.program.operands if not self.program.flat(load)]
        names += [self.stems[target.tensor.name] for target in self.program.targets if self.program.is_full(target)]
        count = self._count
        lines = [f"Tensor g{name} = m{name}(_, r);  // ({count})" for name in names]
        lines += [f"Tensor next{name} = m{name}(_, r + 1);  // ({count})" for name in self.ahead]
        for sweep in self.sweeps:
            for node in sweep.writes:
                name, kind = self.kept_name[id(node)], ELEMENT_TYPES[node.dtype]
                lines += [
                    f"alignas(64) {kind} memory{name}[{count}];  // {node.origin}, for later sweeps",
                    f"Tensor g{name} = make_tensor(&memory{name}[0], make_layout(Int<{count}>{{}}));  // ({count})",
                ]
        return lines

    @property
    def _count(self) -> int:
        return self.program.columns.columns * self.program.columns.rows

    def _row_code(self, level: int) -> list[str]:
        """The values of a row that are known after `level` sweeps, and the outputs among them."""
        for node in self.program.nodes:
            if node.kind == "gathered" and self.program.level(node) == level:
                self._gather(node)
        for node in self.program.row_nodes(level):
            if node.kind == "load":
                name = self.load_name[id(node)]
                self.row.names[id(node)] = f"r{name}"
                self.row.lines.append(f"{self.row.type_of(node)} const r{name} = m{name}(0, r);")
            else:
                self.row.emit((node,))
        lines, self.row.lines = self.row.lines, []
        for target in self.program.row_stores(level):
            value = self.row.name(target.node)
            lines.append(
                f"m{self.stems[target.tensor.name]}(0, r) = {source_text.stored_type(target.tensor)}({value});"
            )
        return lines

    def _gather(self, node: Node) -> None:
        (reduction,) = node.args
        name = f"v{self.reduction_name[id(reduction)]}"
        if name not in self.row.names.values():
            result = f"total{self.reduction_name[id(reduction)]}"
            if reduction.op.startswith("arg"):
                result = f"index{self.reduction_name[id(reduction)]}"
            kind = ELEMENT_TYPES[node.dtype]
            self.row.lines.append(f"{kind} const {name} = {kind}({result});  // {reduction.origin}")
        self.row.names[id(node)] = name

    def _function(self, sweep: Sweep) -> list[str]:
        """The arithmetic of one column, or of one register of columns."""
        emitter = self._emitter()
        emitter.names, emitter.numbers = dict(self.row.names), frozenset(map(id, sweep.numbers))
        parameters = []
        for node in (*sweep.loads, *sweep.reads):
            name = self.load_name.get(id(node)) or self.kept_name[id(node)]
            emitter.names[id(node)] = f"r{name}"
            parameters.append(f"{emitter.types[node.dtype]} r{name}")
        parameters += [f"{ELEMENT_TYPES[node.dtype]} {emitter.name(node)}" for node in sweep.numbers]
        emitter.emit(self._computed(sweep))
        for name, node in self._results(sweep):
            parameters.append(f"{emitter.types[node.dtype]}& r{name}")
            emitter.lines.append(f"r{name} = {emitter.value(node, emitter.lanes)};")
        return self._defined(f"void sweep{sweep.index}({', '.join(parameters)})", emitter.lines)

    def _emitter(self) -> Emitter:
        """What spells a sweep's arithmetic."""
        return Emitter(self.knobs.lanes > 1, self.knobs.exact)

    def _defined(self, head: str, body: list[str]) -> list[str]:
        """An inline function."""
        return [f"inline {head} {{", *indented(body), "}", ""]

    def _results(self, sweep: Sweep) -> list[tuple[str, Node]]:
        """What the sweep's function hands back, by the names of the registers."""
        results = [(self.reduction_name[id(each)], each.args[0]) for each in sweep.reductions]
        results += [(self.stems[each.tensor.name], each.node) for each in sweep.stores]
        return results + [(self.kept_name[id(node)], node) for node in sweep.writes]

    def _sweep(self, sweep: Sweep) -> list[str]:
        lines = []
        for each in sweep.reductions:
            name, kind = self.reduction_name[id(each)], total_type(each)
            lines.append(f"{kind} total{name} = {identity(each, kind)};")
            if each.op.startswith("arg"):
                lines.append(f"int64_t index{name} = 0;")
        pragma = self._parallel_columns(sweep)
        if self.knobs.lanes == 1:
            step = self._call(sweep, "i", "")
            step += [line for each in sweep.reductions for line in self._take(each)]
            step += self._element_stores(sweep)
            return [*lines, *pragma, f"for (int64_t i = 0; i < {self._count}; ++i) {{", *indented(step), "}"]
        return [*lines, *pragma, *self._blocks(sweep)]

    def _parallel_columns(self, sweep: Sweep) -> list[str]:
        """Threads share the columns where there are too few rows for them."""
        if self.knobs.threads != "columns" or any(not REDUCERS[each.op].clause for each in sweep.reductions):
            return []
        clauses = [
            f" reduction({REDUCERS[each.op].clause} : total{self.reduction_name[id(each)]})"
            for each in sweep.reductions
        ]
        return [f"#pragma omp parallel for schedule(static){''.join(clauses)}"]

    def _take(self, each: Node) -> list[str]:
        name = self.reduction_name[id(each)]
        total, value = f"total{name}", f"r{name}"
        if not each.op.startswith("arg"):
            return [f"{total} = {REDUCERS[each.op].join.format(total, f'{total_type(each)}({value})')};"]
        beats = ">" if each.op == "argmax" else "<"
        return [
            "// the first one; NaN before all numbers",
            f"if ({value} {beats} {total} || ({value} != {value} && {total} == {total})) {{",
            f"  {total} = {value};",
            f"  index{name} = i;",
            "}",
        ]

    def _element_stores(self, sweep: Sweep) -> list[str]:
        lines = []
        for each in sweep.stores:
            name = self.stems[each.tensor.name]
            lines.append(f"g{name}(i) = {source_text.stored_type(each.tensor)}(r{name});")
        return lines + [f"g{self.kept_name[id(node)]}(i) = r{self.kept_name[id(node)]};" for node in sweep.writes]

    def _blocks(self, sweep: Sweep) -> list[str]:
        """The row in blocks of registers; each block's partial results are joined to the row's."""
        width = self.knobs.accumulators
        lines = []
        for each in sweep.reductions:
            kind = LANE_TYPES[each.args[0].dtype]
            name = self.reduction_name[id(each)]
            lines.append(f"Tensor part{name} = make_tensor<{kind}>(Int<{width}>{{}});  // ({width})")
            lines.append(f"fill(part{name}, all({identity(each, ELEMENT_TYPES[each.args[0].dtype])}));")
        lines.append("int i = 0;")
        if width > 1:
            inner = self._register(sweep, "c + i + u * kLanes", "u", "")
            lines += [
                f"for (; i + {width} * kLanes <= n; i += {width} * kLanes) {{",
                f"  #pragma GCC unroll {width}",
                f"  for (int u = 0; u < {width}; ++u) {{",
                *indented(inner, 4),
                "  }",
                "}",
            ]
        lines += ["for (; i + kLanes <= n; i += kLanes) {", *indented(self._register(sweep, "c + i", "0", "")), "}"]
        if self._count % self.knobs.lanes:
            tail = self._register(sweep, "c + i", "0", ", n - i")
            lines += ["if (i < n) {  // the last register is not full", *indented(tail), "}"]
        lines += [line for each in sweep.reductions for line in self._join_block(each)]
        if self.knobs.streaming and sweep.stores:
            lines.append("_mm_sfence();")
        head = f"for (int64_t c = 0; c < {self._count}; c += {BLOCK}) {{"
        count = f"int const n = int(min(int64_t({BLOCK}), {self._count} - c));"
        return [head, *indented([count, *lines]), "}"]

    def _register(self, sweep: Sweep, at: str, slot: str, count: str) -> list[str]:
        lines = self._call(sweep, at, count)
        for each in sweep.reductions:
            name, reducer = self.reduction_name[id(each)], REDUCERS[each.op]
            value = f"r{name}"
            if count and reducer.padded:
                neutral = f"all({identity(each, ELEMENT_TYPES[each.args[0].dtype])})"
                value = f"(below<{LANE_TYPES[each.args[0].dtype]}>(n - i) ? {value} : {neutral})"
            lines.append(f"part{name}({slot}) = {reducer.join.format(f'part{name}({slot})', value)};")
        store = "stream" if self.knobs.streaming and not count else "store"
        names = [self.stems[target.tensor.name] for target in sweep.stores]
        lines += [f"{store}(g{name}, {at}, r{name}{count});" for name in names]
        for node in sweep.writes:
            name = self.kept_name[id(node)]
            lines.append(f"store(g{name}, {at}, r{name}{count});")
        if sweep.index == self.busiest and not count:
            lines += [f"prefetch(next{name}, {at});" for name in self.ahead]
        return lines

    def _join_block(self, each: Node) -> list[str]:
        name, join, kind = self.reduction_name[id(each)], REDUCERS[each.op].join, total_type(each)
        lines = [
            f"part{name}(0) = {join.format(f'part{name}(0)', f'part{name}({slot})')};"
            for slot in range(1, self.knobs.accumulators)
        ]
        joined = join.format(f"total{name}", f"{kind}(part{name}(0)[k])")
        return [*lines, f"for (int k = 0; k < kLanes; ++k) {{ total{name} = {joined}; }}"]

    def _call(self, sweep: Sweep, at: str, count: str) -> list[str]:
        types = LANE_TYPES if self.knobs.lanes > 1 else ELEMENT_TYPES
        results = self._results(sweep)
        lines = [f"{types[node.dtype]} r{name};" for name, node in results]
        arguments = []
        for node in (*sweep.loads, *sweep.reads):
            name = self.load_name.get(id(node)) or self.kept_name[id(node)]
            plain = f"g{name}({at})"
            arguments.append(plain if self.knobs.lanes == 1 else f"load<{types[node.dtype]}>(g{name}, {at}{count})")
        arguments += [self.row.name(node) for node in sweep.numbers]
        arguments += [f"r{name}" for name, _ in results]
        return [*lines, f"sweep{sweep.index}({', '.join(arguments)});"]


def _instructions(node: Node) -> int:
    """About how many one value takes."""
    primitive = PRIMITIVES.get(node.op)
    return 0 if node.kind != "compute" else 1 if primitive is None or primitive.lanes else FUNCTION


def render(problem: Problem, plan: Plan, lowered: Lowered, program: RowProgram) -> str:
    """The whole source file."""
    text = RowText(problem, plan, program)
    entry = source_text.entry(problem, text.names, text.body())
    functions = "\n".join(text.functions)
    clauses = {REDUCERS[each.op].clause for each in program.reductions} if text.knobs.threads == "columns" else set()
    declared = "".join(body for clause, body in DECLARATIONS.items() if clause in clauses)
    moved = source_text.bytes_moved(problem)
    rows, columns = program.rows, program.columns
    comment = [
        f"Along rows: {source_text.summary(lowered)}.",
        f"  {rows.columns * rows.rows} rows of {columns.columns * columns.rows}, each gone over {program.sweeps} times "
        "while it is in the cache",
        f"  bytes moved: {moved}; operations: {source_text.row_operations(program)}",
    ]
    parts = helpers(functions, entry + declared, text.knobs.lanes)
    return source_text.kernel(comment, plan, parts + declared, functions, entry)
