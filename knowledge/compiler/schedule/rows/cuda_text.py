"""The text of a kernel with reductions along rows for GPUs: sections for the exemplar `softmax.cu`."""

from __future__ import annotations

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit.elements import ELEMENT_TYPES
from knowledge.compiler.emit.source_text import indented
from knowledge.compiler.schedule.rows.cuda_sweeps import RowSweeps

# Blocks a cluster that every GPU with clusters runs; more it must be asked for.
PORTABLE_CLUSTER = 8


class CudaRowText(RowSweeps):
    """A row program as one kernel."""

    def kernel(self) -> list[str]:
        """The kernel; fills `functions`."""
        cuda = self.cuda
        cluster = f"__cluster_dims__({cuda.cluster}) " if cuda.cluster > 1 else ""
        columns = len(self.program.columns.extents)
        body = [
            f"Index const kCount = Index({self._count}{'ll' if self.wide else ''} / V);  // packs a row",
            f"[[maybe_unused]] Index const kRowCount = {self.count};",
            *(line for each in self.operands for line in frame.tensor_lines(each, self.extents, columns)),
            f"[[maybe_unused]] Index const thread = threadIdx.x {'/ kRows' if cuda.across else '% kGroup'};",
            "[[maybe_unused]] Index const rank = blockIdx.x % kShares;",
            *self._steps(),
            *self._preparation(),
            *self._rows(),
        ]
        bounds = f"kThreads, {cuda.blocks}" if cuda.blocks > 1 else "kThreads"
        head = f"__global__ void __launch_bounds__({bounds}) {cluster}rows({', '.join(self.parameters())})"
        return ["template <int V>", *frame.function(head, body)]

    def parameters(self) -> list[str]:
        """The kernel's parameters."""
        scalars = [f"{ELEMENT_TYPES[node.dtype]} {name}" for name, node in self.scalars]
        return [*(each.parameter for each in self.operands), *scalars]

    def arguments(self) -> str:
        """What the kernel is called with."""
        return ", ".join(
            [*(f"p{each.name}" for each in self.operands), *(self.names[node.op] for _, node in self.scalars)]
        )

    def _steps(self) -> list[str]:
        if self.cuda.keep:
            return [
                "constexpr int kPacks = kItems / V;  // of a row in a thread's registers",
                "Index const start = rank * (kPacks * kGroup) + thread;",
            ]
        return [
            "constexpr int kPacks = kItems;  // in flight a thread",
            "Index const start = rank * kGroup + thread;",
            "Index const kStep = kGroup * kShares;",
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
        """The memory for the next row and its barriers; `fetch` starts the copy of one part of a row."""
        slices, copies = [], []
        for node in self.resident:
            name, kind = self.loads[id(node)].name, self.loads[id(node)].type
            slices.append(
                f"Pack<{kind}, V>* s{name} = reinterpret_cast<Pack<{kind}, V>*>(staged + kPacks * kGroup * V * "
                f"{self._bytes_before(node)});  // (kPacks * kGroup)"
            )
            copies.append(
                f"SM90_BULK_COPY_G2S::copy(&m{name}(begin, row), &full[part], s{name} + part * kPart, "
                f"packs * int(sizeof(*s{name})));"
            )
        total = " + ".join(f"sizeof(*s{self.loads[id(node)].name})" for node in self.resident)
        fetch = [
            "if (V == 1 || threadIdx.x != 0) { return; }",
            "Index const begin = rank * (kPacks * kGroup) + part * kPart;",
            "int const packs = int(max(Index(0), min(Index(kPart), kCount - begin)));",
            f"set_barrier_transaction_bytes(full[part], packs * int({total}));",
            "if (packs > 0) {",
            *indented(copies),
            "}",
        ]
        return [
            "extern __shared__ __align__(128) char staged[];",
            "__shared__ uint64_t full[kParts];",
            'static_assert(V == 1 || kPacks % kParts == 0, "a part is a number of whole packs");',
            "constexpr int kPart = kPacks * kGroup / kParts;",
            *slices,
            "auto const fetch = [&](Index row, int part) {",
            *indented(fetch),
            "};",
            "if (threadIdx.x == 0) {",
            "  for (int part = 0; part < kParts; ++part) { initialize_barrier(full[part], 1); }",
            "  cutlass::arch::fence_barrier_init();",
            "}",
        ]

    def _rows(self) -> list[str]:
        cuda = self.cuda
        mine = "threadIdx.x % kRows" if cuda.across else "threadIdx.x / kGroup"
        if not cuda.staged:
            turn = [] if cuda.each > 1 else ["int const turn = 0;"]
            row = [*turn, f"Index const row = Index(blockIdx.x / kShares) * kRows + {mine};"]
            return row + self.one_row()
        return [
            "Index const first = Index(blockIdx.x / kShares) * kChain;",
            "Index const last = min(first + kChain, kRowCount);",
            "__syncthreads();",
            "for (int part = 0; part < kParts; ++part) { fetch(first, part); }",
            "int turn = 0;",
            "for (Index row = first; row < last; ++row, turn ^= 1) {",
            *indented(self.one_row()),
            "}",
        ]

    def one_row(self) -> list[str]:
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
            "UNROLL",
            "for (int part = 0; part < kParts; ++part) {",
            "  wait_barrier(full[part], turn);",
            "  UNROLL",
            "  for (int u = part * (kPacks / kParts); u < (part + 1) * (kPacks / kParts); ++u) {",
            "    [[maybe_unused]] Index const i = start + u * kGroup;",
            f"    {self.guard}{{", *indented(taken, 6), "    }",
            "  }",
            "  cutlass::arch::fence_view_async_shared();  // these reads come before a bulk copy's writes",
            "  __syncthreads();  // this part is in registers: the next row's may come",
            "  if (row + 1 < last) { fetch(row + 1, part); }",
            "}",
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
        blocks = str(-(-self.count // (cuda.rows * cuda.each)) * cuda.cluster * cuda.split)
        if cuda.staged:
            blocks = f"({self.count} + kChain - 1) / kChain * kShares"
        lines = [each.pointer(self.names[each.tensor.name]) for each in self.operands]
        memory = "kStaged" if cuda.staged else "0"

        def start(vector: str) -> list[str]:
            grown = f"cudaFuncSetAttribute(rows<{vector}>, cudaFuncAttributeMaxDynamicSharedMemorySize, kStaged);"
            wide = f"cudaFuncSetAttribute(rows<{vector}>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);"
            asked = [grown] * cuda.staged + [wide] * (cuda.cluster > PORTABLE_CLUSTER)
            return [*asked, f"rows<{vector}><<<{blocks}, kThreads, {memory}, stream>>>({self.arguments()});"]

        if self.vector == 1:
            return [*lines, *start("1"), "launched();"]
        test = frame.alignment_test(self.operands, "kVector")
        return [
            *lines, f"if ({test}) {{", *indented(start("kVector")), "} else {", *indented(start("1")), "}",
            "launched();",
        ]  # fmt: skip
