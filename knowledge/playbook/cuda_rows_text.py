"""The text of a kernel with reductions along rows for GPUs: sections for the exemplar `softmax.cu`."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.exemplars.source import load
from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook import source_text
from knowledge.playbook.cuda_pointwise_frame import Operand
from knowledge.playbook.emission import ELEMENT_TYPES, Emitter
from knowledge.playbook.expressions import Node
from knowledge.playbook.lowering import Lowered
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Plan
from knowledge.playbook.reducers import REDUCERS, identity
from knowledge.playbook.reductions_text import RowText, Sweep
from knowledge.playbook.row_program import RowProgram
from knowledge.playbook.source_text import indented
from knowledge.playbook.space import Space

# Steps of a long sweep after which partial sums move to a wider type.
FLUSH = 32


@dataclass(frozen=True)
class Knobs:
    """A plan's knobs.

    `keep`: the row stays in registers from its only load to its last use. `items`: elements of a row that a thread
    holds then, else packs in flight. `group`: threads that share a row; `rows`: rows side by side in a block;
    `cluster`: blocks that share a row; `staged`: the next row is copied to shared memory meanwhile, `chain`: rows that
    one cluster takes in turn; `once`: cache hints; `across`: threads side by side take rows, not columns.
    """

    vector: bool
    keep: bool
    items: int
    group: int
    rows: int
    cluster: int
    chain: int
    staged: bool
    once: bool
    across: bool

    @classmethod
    def of(cls, plan: Plan) -> Knobs:
        """The knobs a plan sets, the others at their plain values."""
        get = {name: int(value) for name, value in plan.knobs.items()}.get
        return cls(
            vector=bool(get("vector", 0)), keep=bool(get("keep", 0)), items=get("items", 1), group=get("group", 256),
            rows=get("rows", 1), cluster=get("cluster", 1), chain=get("chain", 1), staged=bool(get("staged", 0)),
            once=bool(get("once", 0)), across=bool(get("across", 0)),
        )  # fmt: skip

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.group * self.rows


def part_type(node: Node) -> str:
    """The type one thread's partial result has."""
    element = ELEMENT_TYPES[node.args[0].dtype]
    if node.op.startswith("arg"):
        return f"Best<{element}>"
    return "int64_t" if node.op in ("sum", "prod") and element not in ("float", "double") else element


def total_type(node: Node) -> str:
    """The type partial results are joined in: sums of floats one size up."""
    kind = part_type(node)
    return "double" if kind == "float" and node.op in ("sum", "prod") else kind


def neutral(node: Node) -> str:
    """The value that changes nothing."""
    kind = part_type(node)
    if not kind.startswith("Best"):
        return identity(node, kind)
    return f"{kind}{{{identity(node, ELEMENT_TYPES[node.args[0].dtype])}, INT64_MAX}}"


class CudaRowText(RowText):
    """A row program as one kernel."""

    def __init__(self, problem: Problem, plan: Plan, program: RowProgram) -> None:
        super().__init__(problem, plan, program)
        self.cuda = Knobs.of(plan)
        columns, rows = program.columns, program.rows
        self.extents = columns.extents + rows.extents
        count = len(program.targets)
        self.scalars = [(f"p{self.stems[node.op]}", node) for node in program.nodes if node.kind == "scalar"]
        self.row.names.update({id(node): name for name, node in self.scalars})

        def strides(place: int, flat: bool) -> tuple[int, ...]:
            first = (0,) * len(columns.extents) if flat else columns.strides[place]
            return first + rows.strides[place]

        self.loads = {
            id(node): Operand(
                self.load_name[id(node)], self.tensors[node.op], strides(count + k, program.flat(node)), node.offset
            )
            for k, node in enumerate(program.operands)
        }
        self.outputs = [
            Operand(self.stems[target.tensor.name], target.tensor, strides(k, not program.is_full(target)), output=True)
            for k, target in enumerate(program.targets)
        ]
        self.vector = self._width() if self.cuda.vector else 1

    def _width(self) -> int:
        columns, rows = self.program.columns, self.program.rows
        # Where the order matters the columns carry one operand more, which tells it.
        space = Space(self.extents, tuple(a + b for a, b in zip(columns.strides, rows.strides, strict=False)))
        return frame.pack_width(space, self.operands, tail=False)

    @property
    def operands(self) -> list[Operand]:
        """The loads, then the outputs."""
        return [*self.loads.values(), *self.outputs]

    @property
    def count(self) -> int:
        """Rows."""
        return self.program.rows.columns * self.program.rows.rows

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self._count

    @property
    def leading(self) -> Operand | None:
        """A load whose neighbours in memory belong to neighbouring rows."""
        columns = len(self.program.columns.extents)
        return next(
            (
                each for each in self.loads.values()
                if each.form == "gather" and each.strides[columns] == 1
            ),
            None,
        )  # fmt: skip

    @property
    def resident(self) -> list[Node]:
        """The loads that stay in registers: those of the row itself."""
        moving = len(self.program.columns.extents)
        return [
            node for node in self.program.operands
            if self.cuda.keep and not self.program.flat(node)
            and (any(self.loads[id(node)].strides[moving:]) or self.count == 1)
        ]  # fmt: skip

    @property
    def wide(self) -> bool:
        """Whether offsets need 64 bits."""
        spans = (
            1 + sum((extent - 1) * abs(step) for extent, step in zip(self.extents, each.strides, strict=True))
            for each in self.operands
        )
        slack = self.cuda.threads * self.cuda.cluster * self.cuda.items * 16
        return max(self._count + slack, *spans) >= frame.INT_SPAN

    @property
    def exact(self) -> bool:
        """Whether every thread holds as much of the row as every other."""
        return self.cuda.keep and self._count == self.cuda.items * self.cuda.group * self.cuda.cluster

    def functions_text(self) -> list[str]:
        """The sweeps' arithmetic and the joins. Call `kernel` first, which names the row values."""
        joins = []
        for each in self.program.reductions:
            name = self.reduction_name[id(each)]
            if each.op.startswith("arg"):
                beats = ">" if each.op == "argmax" else "<"
                joins += [
                    f"// The {'larger' if beats == '>' else 'smaller'}; NaN before all numbers, of equals the first.",
                    f"struct Join{name} {{",
                    "  template <class T>",
                    "  __device__ T operator()(T a, T b) const {",
                    "    bool const a_nan = a.value != a.value, b_nan = b.value != b.value;",
                    "    bool const same = a_nan ? b_nan : a.value == b.value;",
                    f"    bool const second = same ? b.index < a.index : !a_nan && (b_nan || b.value {beats} a.value);",
                    "    return second ? b : a;",
                    "  }",
                    "};",
                ]
                continue
            text = REDUCERS[each.op].join.format("a", "b")
            joins += [
                f"struct Join{name} {{",
                f"  template <class T> __device__ T operator()(T a, T b) const {{ return T({text}); }}",
                "};",
            ]
        return [*self.functions, *joins]

    def kernel(self) -> list[str]:
        """The kernel; fills `functions`."""
        cuda = self.cuda
        scalars = [f"{ELEMENT_TYPES[node.dtype]} {name}" for name, node in self.scalars]
        parameters = ", ".join([*(each.parameter for each in self.operands), *scalars])
        cluster = f"__cluster_dims__({cuda.cluster}) " if cuda.cluster > 1 else ""
        columns = len(self.program.columns.extents)
        body = [
            f"Index const kCount = Index({self._count}{'ll' if self.wide else ''} / V);  // packs a row",
            f"Index const kRowCount = {self.count};",
            *(line for each in self.operands for line in frame.tensor_lines(each, self.extents, columns)),
            f"Index const thread = threadIdx.x {'/ kRows' if cuda.across else '% kGroup'};",
            "Index const rank = blockIdx.x % kCluster;",
            *self._steps(),
            *self._preparation(),
            *self._rows(),
        ]
        head = f"__global__ void __launch_bounds__(kThreads) {cluster}rows({parameters})"
        return ["template <int V>", *frame.function(head, body)]

    def _steps(self) -> list[str]:
        if self.cuda.keep:
            return [
                "constexpr int kPacks = kItems / V;  // of a row in a thread's registers",
                "Index const start = rank * (kPacks * kGroup) + thread;",
            ]
        return [
            "constexpr int kPacks = kItems;  // in flight a thread",
            "Index const start = rank * kGroup + thread;",
            "Index const kStep = kGroup * kCluster;",
        ]

    def _preparation(self) -> list[str]:
        """Barriers that must stand before the first row."""
        lines = self._staging() if self.cuda.staged else []
        if self.cuda.cluster > 1:
            lines += ["cluster_sync();  // every block of the cluster must run before its shared memory is written"]
        elif self.cuda.staged:
            lines += ["__syncthreads();"]
        return lines

    def _staging(self) -> list[str]:
        slices, copies = [], []
        for node in self.resident:
            name, kind = self.loads[id(node)].name, self.loads[id(node)].type
            slices.append(
                f"Pack<{kind}, V>* s{name} = reinterpret_cast<Pack<{kind}, V>*>(staged + kPacks * kGroup * V * "
                f"{self._bytes_before(node)});  // (kPacks * kGroup)"
            )
            copies.append(
                f"SM90_BULK_COPY_G2S::copy(&m{name}(rank * (kPacks * kGroup), row), &full, s{name}, "
                f"packs * int(sizeof(*s{name})));"
            )
        total = " + ".join(f"sizeof(*s{self.loads[id(node)].name})" for node in self.resident)
        return [
            "extern __shared__ __align__(128) char staged[];",
            "__shared__ uint64_t full;",
            *slices,
            "auto const fetch = [&](Index row) {",
            "  if (V > 1 && threadIdx.x == 0 && row < kRowCount) {",
            "    int const packs = int(min(Index(kPacks * kGroup), kCount - rank * (kPacks * kGroup)));",
            f"    set_barrier_transaction_bytes(full, packs * int({total}));",
            *indented(copies, 4),
            "  }",
            "};",
            "if (threadIdx.x == 0) {",
            "  initialize_barrier(full, 1);",
            "  cutlass::arch::fence_barrier_init();",
            "}",
        ]

    def _bytes_before(self, node: Node) -> int:
        before = self.resident[: self.resident.index(node)]
        return sum(source_text.BYTES[self.loads[id(each)].tensor.dtype] for each in before)

    @property
    def staged_bytes(self) -> int:
        """Shared memory that holds the next row's share of one block."""
        share = self.cuda.items * self.cuda.group
        return share * sum(source_text.BYTES[self.loads[id(node)].tensor.dtype] for node in self.resident)

    def _rows(self) -> list[str]:
        cuda = self.cuda
        mine = "threadIdx.x % kRows" if cuda.across else "threadIdx.x / kGroup"
        if cuda.chain == 1:
            row = ["int const turn = 0;", f"Index const row = Index(blockIdx.x / kCluster) * kRows + {mine};"]
            return row + self._row()
        inner = [
            "int const turn = step % 2;",
            f"Index const row = (first + step) * kRows + {mine};",
            "if ((first + step) * kRows >= kRowCount) { break; }",
            *self._row(),
        ]
        return [
            "Index const first = Index(blockIdx.x / kCluster) * kChain;",
            *(["__syncthreads();", "fetch(first);"] if cuda.staged else []),
            "for (int step = 0; step < kChain; ++step) {",
            *indented(inner),
            "}",
        ]

    def _row(self) -> list[str]:
        """All that happens to one row."""
        whole = self.count % self.cuda.rows == 0
        lines = [
            "[[maybe_unused]] constexpr bool inside = true;" if whole else "bool const inside = row < kRowCount;",
            "Index const r = row;" if whole else "Index const r = inside ? row : 0;",
            *self._residents(),
            *self._row_code(0),
        ]
        for sweep in self.sweeps:
            self.functions += self._function(sweep)
            lines += [f"// sweep {sweep.index}", *self._sweep(sweep), *self._row_code(sweep.index + 1)]
        return lines

    def _guard(self) -> str:
        return "" if self.exact else "if (i < kCount) "

    def _residents(self) -> list[str]:
        """Load the row, or take it from where it was copied to."""
        operands = [self.loads[id(node)] for node in self.resident]
        kept = [
            f"{ELEMENT_TYPES[node.dtype]} r{self.kept_name[id(node)]}[kPacks][V];  // {node.origin}"
            for sweep in self.sweeps
            for node in sweep.writes
        ]
        if not operands:
            return kept
        lines = [f"{each.held} r{each.name}[kPacks];" for each in operands]
        direct = [line for each in operands for line in frame.load_lines(each, "[u]", "i, r", "kOnce")]
        loop = [
            "UNROLL",
            "for (int u = 0; u < kPacks; ++u) {",
            "  [[maybe_unused]] Index const i = start + u * kGroup;",
        ]
        plain = [*loop, f"  {self._guard()}{{", *indented(direct, 4), "  }", "}"]
        if not self.cuda.staged:
            return [*lines, *plain, *kept]
        taken = [f"r{each.name}[u] = load<false>(&s{each.name}[u * kGroup + thread]);" for each in operands]
        copied = [
            "wait_barrier(full, turn);", *loop, f"  {self._guard()}{{", *indented(taken, 4), "  }", "}",
            "__syncthreads();  // all of it is in registers: the next row may come",
            "if (step + 1 < kChain) { fetch(row + 1); }",
        ]  # fmt: skip
        return [
            *lines, "if constexpr (V > 1) {", *indented(copied), "} else {", *indented(plain), "}", *kept,
        ]  # fmt: skip

    def _row_code(self, level: int) -> list[str]:
        """The values of a row that are known after `level` sweeps; one thread stores the outputs among them."""
        stores = []
        lines = super()._row_code(level)
        for target in self.program.row_stores(level):
            name = self.stems[target.tensor.name]
            (line,) = (line for line in lines if line.startswith(f"m{name}(0, r) ="))
            lines.remove(line)
            stores.append(line)
        if stores:
            lines += ["if (inside && thread == 0 && rank == 0) {", *indented(stores), "}"]
        return lines

    def _function(self, sweep: Sweep) -> list[str]:
        """The arithmetic of one column."""
        emitter = Emitter(names=dict(self.row.names), numbers=frozenset(map(id, sweep.numbers)))
        parameters = []
        for node in (*sweep.loads, *sweep.reads):
            name = self.load_name.get(id(node)) or self.kept_name[id(node)]
            emitter.names[id(node)] = f"r{name}"
            parameters.append(f"{ELEMENT_TYPES[node.dtype]} r{name}")
        parameters += [f"{ELEMENT_TYPES[node.dtype]} {emitter.name(node)}" for node in sweep.numbers]
        stop = frozenset(map(id, sweep.reads))
        emitter.emit(node for node in self.program.cone(self.program.wanted(sweep.index), stop) if id(node) not in stop)
        for name, node in self._results(sweep):
            parameters.append(f"{ELEMENT_TYPES[node.dtype]}& r{name}")
            emitter.lines.append(f"r{name} = {emitter.name(node)};")
        return frame.function(f"__device__ inline void sweep{sweep.index}({', '.join(parameters)})", emitter.lines)

    def _sweep(self, sweep: Sweep) -> list[str]:
        lines = []
        for each in sweep.reductions:
            name, kind = self.reduction_name[id(each)], part_type(each)
            lines += [
                f"{kind} part{name}[V];",
                "UNROLL",
                f"for (int k = 0; k < V; ++k) {{ part{name}[k] = {neutral(each)}; }}",
            ]
            if self._flushed(each):
                lines.append(f"{total_type(each)} total{name} = {identity(each, total_type(each))};")
        lines += self._resident_loop(sweep) if self.cuda.keep else self._streaming_loop(sweep)
        for slot, each in enumerate(self.program.reductions):
            if each in sweep.reductions:
                lines += self._join(each, slot)
        return lines

    def _flushed(self, each: Node) -> bool:
        """Whether a thread's partial sum is long enough to lose digits."""
        packs = -(-self._count // (self.vector * self.cuda.group * self.cuda.cluster))
        return total_type(each) != part_type(each) and packs > 2 * FLUSH

    def _join(self, each: Node, slot: int) -> list[str]:
        name, kind = self.reduction_name[id(each)], total_type(each)
        lines = []
        if self._flushed(each):
            lines += self._flush(each)
        else:
            lines.append(
                f"{kind} total{name} = {kind}(part{name}[0]);"
                if not kind.startswith("Best")
                else f"{kind} total{name} = part{name}[0];"
            )
            value = f"part{name}[k]" if kind.startswith("Best") else f"{kind}(part{name}[k])"
            lines += [
                "UNROLL",
                f"for (int k = 1; k < V; ++k) {{ total{name} = Join{name}{{}}(total{name}, {value}); }}",
            ]
        lines.append(f"total{name} = reduced<{slot}>(total{name}, Join{name}{{}}, turn);")
        if each.op.startswith("arg"):
            lines.append(f"int64_t const index{name} = total{name}.index;")
        return lines

    def _flush(self, each: Node) -> list[str]:
        name, kind = self.reduction_name[id(each)], total_type(each)
        return [
            "UNROLL",
            "for (int k = 0; k < V; ++k) {",
            f"  total{name} = Join{name}{{}}(total{name}, {kind}(part{name}[k]));",
            f"  part{name}[k] = {neutral(each)};",
            "}",
        ]

    def _resident_loop(self, sweep: Sweep) -> list[str]:
        mine = {id(node) for node in self.resident}
        loads = [line for node in sweep.loads if id(node) not in mine for line in self._load_here(node, "")]
        body = [*loads, *self._pack(sweep, lambda node: "[u]" if id(node) in mine else "", "u")]
        return [
            "UNROLL", "for (int u = 0; u < kPacks; ++u) {", "  [[maybe_unused]] Index const i = start + u * kGroup;",
            f"  {self._guard()}{{", *indented(body, 4), "  }", "}",
        ]  # fmt: skip

    def _load_here(self, node: Node, slot: str) -> list[str]:
        operand = self.loads[id(node)]
        declared = [] if slot else [f"{operand.held} r{operand.name};"]
        return [*declared, *frame.load_lines(operand, slot, "i, r", "false")]

    def _streaming_loop(self, sweep: Sweep) -> list[str]:
        held = [f"{self.loads[id(node)].held} r{self.load_name[id(node)]}[kPacks];" for node in sweep.loads]
        loading = [line for node in sweep.loads for line in self._load_here(node, "[u]")]
        packs = self._pack(sweep, lambda _: "[u]", "u")
        inner = ["Index const i = base + u * kStep;"]
        unrolled = ["UNROLL", "for (int u = 0; u < kPacks; ++u) {"]
        body = [
            *held,
            *unrolled, *indented(inner), "  if (i < kCount) {", *indented(loading, 4), "  }", "}",
            *unrolled, *indented(inner), "  if (i < kCount) {", *indented(packs, 4), "  }", "}",
        ]  # fmt: skip
        flushed = [each for each in sweep.reductions if self._flushed(each)]
        if flushed:
            flush = [line for each in flushed for line in self._flush(each)]
            body += [f"if (++filled % {FLUSH} == 0) {{", *indented(flush), "}"]
        return [
            *(["int filled = 0;"] if flushed else []),
            "for (Index base = start; base < kCount; base += kPacks * kStep) {", *indented(body), "}",
        ]  # fmt: skip

    def _pack(self, sweep: Sweep, slot: object, step: str) -> list[str]:
        """The arithmetic of one pack, and its stores."""
        names = [self.stems[target.tensor.name] for target in sweep.stores]
        outputs = [each for each in self.outputs if each.name in names]
        lines = [f"{each.held} r{each.name};" for each in outputs]
        results = self._results(sweep)
        loads = [
            frame.converted(self.loads[id(node)], node.dtype, self.loads[id(node)].lane(slot(node)))  # type: ignore[operator]
            for node in sweep.loads
        ]
        reads = [f"r{self.kept_name[id(node)]}[{step}][k]" for node in sweep.reads]
        inner = [f"{ELEMENT_TYPES[node.dtype]} v{name};" for name, node in results]
        numbers = [self.row.name(node) for node in sweep.numbers]
        arguments = [*loads, *reads, *numbers, *(f"v{name}" for name, _ in results)]
        inner.append(f"sweep{sweep.index}({', '.join(arguments)});")
        inner += [line for each in sweep.reductions for line in self._take(each)]
        for target in sweep.stores:
            (operand,) = (each for each in outputs if each.name == self.stems[target.tensor.name])
            inner.append(f"{operand.lane()} = {frame.stored(operand, target.node.dtype, f'v{operand.name}')};")
        inner += [f"r{self.kept_name[id(node)]}[{step}][k] = v{self.kept_name[id(node)]};" for node in sweep.writes]
        lines += ["UNROLL", "for (int k = 0; k < V; ++k) {", *indented(inner), "}"]
        stores = [line for each in outputs for line in frame.store_lines(each, "i, r", "kOnce")]
        whole = self.count % self.cuda.rows == 0
        return lines + (stores if whole or not stores else ["if (inside) {", *indented(stores), "}"])

    def _take(self, each: Node) -> list[str]:
        name = self.reduction_name[id(each)]
        value = f"v{name}"
        if each.op.startswith("arg"):
            value = f"{part_type(each)}{{v{name}, int64_t(i) * V + k}}"
        elif part_type(each) != ELEMENT_TYPES[each.args[0].dtype]:
            value = f"{part_type(each)}(v{name})"
        return [f"part{name}[k] = Join{name}{{}}(part{name}[k], {value});"]

    def launch(self) -> list[str]:
        """The statements of `run` that start the kernel."""
        cuda = self.cuda
        blocks = -(-self.count // (cuda.rows * cuda.chain)) * cuda.cluster
        lines = [each.pointer(self.names[each.tensor.name]) for each in self.operands]
        scalars = [self.names[node.op] for _, node in self.scalars]
        arguments = ", ".join([*(f"p{each.name}" for each in self.operands), *scalars])
        memory = "kStaged" if cuda.staged else "0"

        def start(vector: str) -> list[str]:
            grown = f"cudaFuncSetAttribute(rows<{vector}>, cudaFuncAttributeMaxDynamicSharedMemorySize, kStaged);"
            large = [grown] if cuda.staged else []
            return [*large, f"rows<{vector}><<<{blocks}, kThreads, {memory}, stream>>>({arguments});"]

        if self.vector == 1:
            return [*lines, *start("1"), "launched();"]
        test = frame.alignment_test(self.operands, "kVector")
        return [
            *lines, f"if ({test}) {{", *indented(start("kVector")), "} else {", *indented(start("1")), "}",
            "launched();",
        ]  # fmt: skip


def render(problem: Problem, plan: Plan, lowered: Lowered, program: RowProgram) -> str:
    """The whole source file."""
    text = CudaRowText(problem, plan, program)
    kernel = text.kernel()
    functions = "\n".join(text.functions_text())
    body = [frame.stream(problem, text.names), *text.launch()]
    return load("softmax").with_sections(
        header=frame.header(_comment(problem, lowered, text), plan),
        knobs="\n".join(_knobs(text)),
        arithmetic=(frame.device_helpers(functions) + "\n" + functions).strip("\n"),
        kernel="\n".join(kernel),
        entry=frame.entry(problem, text.names, body),
    )


def _knobs(text: CudaRowText) -> list[str]:
    cuda = text.cuda
    items = "elements of a row in a thread's registers" if cuda.keep else "packs in flight a thread"
    lines = [
        f"constexpr int kGroup = {cuda.group};  // threads of a block that share a row",
        f"constexpr int kRows = {cuda.rows};  // rows side by side in a block",
        "constexpr int kThreads = kGroup * kRows;",
        f"constexpr bool kAcross = {str(cuda.across).lower()};  // threads side by side take rows, not columns",
        f"constexpr int kCluster = {cuda.cluster};  // blocks that share a row",
        f"constexpr int kItems = {cuda.items};  // {items}",
        f"[[maybe_unused]] constexpr int kVector = {text.vector};  // elements a pack",
        f"constexpr bool kOnce = {str(cuda.once).lower()};  // loads and stores that leave no trace in the caches",
        f"using Index = {'int64_t' if text.wide else 'int'};",
    ]
    if cuda.chain > 1:
        lines.append(f"constexpr int kChain = {cuda.chain};  // rows that a cluster takes in turn")
    if cuda.staged:
        lines.append(f"constexpr int kStaged = {text.staged_bytes};  // bytes of shared memory: the next row's share")
    return lines


def _comment(problem: Problem, lowered: Lowered, text: CudaRowText) -> list[str]:
    cuda = text.cuda
    passes = 1 if cuda.keep else text.program.sweeps
    return [
        f"Along rows: {source_text.summary(lowered)}.",
        f"  {text.count} rows of {text._count}, read from memory {passes} time{'s' if passes > 1 else ''}",
        f"  tile: {cuda.rows} rows, {cuda.cluster} blocks of {cuda.group} threads on each",
        f"  shared memory: {text.staged_bytes if cuda.staged else 0} bytes for the next row, and the partial results",
        f"  bytes moved at least: {source_text.bytes_moved(problem)}; operations: "
        f"{source_text.row_operations(text.program)}",
    ]
