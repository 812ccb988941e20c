"""The text of a kernel with reductions along rows for GPUs: sections for the exemplar `softmax.cu`."""

from __future__ import annotations

from knowledge.exemplars.source import load
from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook import source_text
from knowledge.playbook.cuda_rows_sweeps import RowSweeps
from knowledge.playbook.emission import ELEMENT_TYPES
from knowledge.playbook.lowering import Lowered
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Plan
from knowledge.playbook.row_program import RowProgram
from knowledge.playbook.source_text import indented


class CudaRowText(RowSweeps):
    """A row program as one kernel."""

    def kernel(self) -> list[str]:
        """The kernel; fills `functions`."""
        cuda = self.cuda
        scalars = [f"{ELEMENT_TYPES[node.dtype]} {name}" for name, node in self.scalars]
        parameters = ", ".join([*(each.parameter for each in self.operands), *scalars])
        cluster = f"__cluster_dims__({cuda.cluster}) " if cuda.cluster > 1 else ""
        columns = len(self.program.columns.extents)
        body = [
            f"Index const kCount = Index({self._count}{'ll' if self.wide else ''} / V);  // packs a row",
            f"[[maybe_unused]] Index const kRowCount = {self.count};",
            *(line for each in self.operands for line in frame.tensor_lines(each, self.extents, columns)),
            f"[[maybe_unused]] Index const thread = threadIdx.x {'/ kRows' if cuda.across else '% kGroup'};",
            "[[maybe_unused]] Index const rank = blockIdx.x % kCluster;",
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

    def _rows(self) -> list[str]:
        cuda = self.cuda
        mine = "threadIdx.x % kRows" if cuda.across else "threadIdx.x / kGroup"
        if cuda.chain == 1:
            turn = [] if cuda.each > 1 else ["int const turn = 0;"]
            row = [*turn, f"Index const row = Index(blockIdx.x / kCluster) * kRows + {mine};"]
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
        if self.cuda.each > 1:
            return self.blocked_rows()
        lines = [
            "[[maybe_unused]] constexpr bool inside = true;" if self.whole else "bool const inside = row < kRowCount;",
            "Index const r = row;" if self.whole else "Index const r = inside ? row : 0;",
            *self._residents(),
            *self._row_code(0),
        ]
        for sweep in self.sweeps:
            self.functions += self._function(sweep)
            lines += [f"// sweep {sweep.index}", *self._sweep(sweep), *self._row_code(sweep.index + 1)]
        return lines

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
        plain = [*loop, f"  {self.guard}{{", *indented(direct, 4), "  }", "}"]
        if not self.cuda.staged:
            return [*lines, *plain, *kept]
        taken = [f"r{each.name}[u] = load<false>(&s{each.name}[u * kGroup + thread]);" for each in operands]
        copied = [
            "wait_barrier(full, turn);", *loop, f"  {self.guard}{{", *indented(taken, 4), "  }", "}",
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

    def launch(self) -> list[str]:
        """The statements of `run` that start the kernel."""
        cuda = self.cuda
        blocks = -(-self.count // (cuda.rows * cuda.each * cuda.chain)) * cuda.cluster
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
        arithmetic=(frame.device_helpers("\n".join([functions, *kernel])) + "\n" + functions).strip("\n"),
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
        f"[[maybe_unused]] constexpr bool kOnce = {str(cuda.once).lower()};  // its data leaves the caches first",
        f"using Index = {'int64_t' if text.wide else 'int'};",
    ]
    if cuda.each > 1:
        lines.append(f"constexpr int kEach = {cuda.each};  // rows that a thread takes at once")
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
