"""Row kernels for GPUs as source: in `softmax.cu`'s sections, split among blocks, or in one sweep online."""

from __future__ import annotations

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit import source_text
from knowledge.compiler.emit.source_text import indented
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.kernels.source import load
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.row_program import RowProgram
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.rows.cuda_operands import Knobs, neutral_total, part_type, total_type
from knowledge.compiler.schedule.rows.cuda_sweeps import FLUSH, walk
from knowledge.compiler.schedule.rows.cuda_text import CudaRowText
from knowledge.compiler.schedule.rows.text import Sweep

RUNNING = """\
// The largest so far, and the sum of e^(x - largest).
template <class T, class S>
struct Running {
  T largest;
  S sum;
};

template <class T, class S>
__device__ inline Running<T, S> exchanged(Running<T, S> running, int mask) {
  return {exchanged(running.largest, mask), exchanged(running.sum, mask)};
}

struct JoinRunning {
  template <class T, class S>
  __device__ Running<T, S> operator()(Running<T, S> a, Running<T, S> b) const {
    T const largest = math::maximum(a.largest, b.largest);
    // Equal ones are not subtracted: both may be -inf.
    S const sum_a = a.largest == largest ? a.sum : a.sum * S(std::exp(a.largest - largest));
    S const sum_b = b.largest == largest ? b.sum : b.sum * S(std::exp(b.largest - largest));
    return {largest, sum_a + sum_b};
  }
};
"""


def joins(program: RowProgram) -> bool:
    """Whether a first sweep finds one maximum and the sum below it, and nothing else."""
    first = program.reductions_of(0)
    return [each.op for each in first] == ["amax", "sum"] and program.maximum_of.get(id(first[1])) is first[0]


class OnlineRowText(CudaRowText):
    """A program whose first sweep `joins` a maximum and a sum."""

    def functions_text(self) -> list[str]:
        """The sweeps' arithmetic and the join."""
        return [*self.functions, *RUNNING.splitlines()]

    def _results(self, sweep: Sweep) -> list[tuple[str, Node]]:
        """Of the first sweep the maximum's operand alone: the sum is made from that."""
        return super()._results(sweep)[: None if sweep.index else 1]

    def _sweep(self, sweep: Sweep) -> list[str]:
        if sweep.index:
            return super()._sweep(sweep)
        element, wide = (f(each) for f, each in zip((part_type, total_type), sweep.reductions, strict=True))
        maximum, total = (self.reduction_name[id(each)] for each in sweep.reductions)
        join = [
            "UNROLL",
            f"for (int k = 0; k < V; ++k) {{ running.sum += {wide}(part[k]); }}",
        ]
        clear = ["UNROLL", f"for (int k = 0; k < V; ++k) {{ part[k] = {element}(0); }}"]
        return [
            f"Running<{element}, {wide}> running{{-{element}(INFINITY), 0}};",
            f"{element} part[V];  // the sum's last terms",
            *clear,
            "int filled = 0;",
            *walk(backward=False),
            *indented([*self._loading(sweep), *self._largest(sweep, element), *_corrected(element, wide)]),
            f"  if (++filled % {FLUSH} == 0) {{", *indented([*join, *clear], 4), "  }",
            "}",
            *join,
            "running = reduced<0>(running, JoinRunning{}, turn);",
            f"{element} const total{maximum} = running.largest;",
            "// a row of -inf alone has no sum",
            f"{wide} const total{total} = running.sum + {wide}(running.largest - running.largest);",
        ]  # fmt: skip

    def _loading(self, sweep: Sweep) -> list[str]:
        held = [f"{self.loads[id(node)].held} r{self.load_name[id(node)]}[kPacks];" for node in sweep.loads]
        loads = [line for node in sweep.loads for line in self._load_here(sweep, node, "[u]")]
        return [*held, *_PACKS, *indented([*_INSIDE, *indented(loads), "}"]), "}"]

    def _largest(self, sweep: Sweep, element: str) -> list[str]:
        """Each column's value, and the largest of them and of all before."""
        lanes = ["UNROLL", "for (int k = 0; k < V; ++k) {"]
        column = [
            *self._compute(sweep, lambda _: "[u]"),
            f"x[u][k] = v{self.reduction_name[id(sweep.reductions[0])]};",
            "largest = math::maximum(largest, x[u][k]);",
        ]
        pack = [
            "UNROLL",
            f"for (int k = 0; k < V; ++k) {{ x[u][k] = -{element}(INFINITY); }}",
            *_INSIDE, *indented([*lanes, *indented(column), "}"]), "}",
        ]  # fmt: skip
        return [f"{element} x[kPacks][V], largest = running.largest;", *_PACKS, *indented(pack), "}"]


def _corrected(element: str, wide: str) -> list[str]:
    """Scale the sum down where the maximum has grown, and add the new terms. Where all is -inf yet there are none."""
    term = "part[k] += std::exp(x[u][k] - largest);"
    return [
        "if (largest != running.largest) {  // or NaN",
        f"  {element} const less = std::exp(running.largest - largest);",
        f"  running = {{largest, running.sum * {wide}(less)}};",
        "  UNROLL",
        "  for (int k = 0; k < V; ++k) { part[k] *= less; }",
        "}",
        f"if (largest != -{element}(INFINITY)) {{",
        *indented([*_PACKS, "  UNROLL", f"  for (int k = 0; k < V; ++k) {{ {term} }}", "}"]),
        "}",
    ]


_PACKS = ("UNROLL", "for (int u = 0; u < kPacks; ++u) {")
_INSIDE = ("Index const i = base + u * kStep;", "if (i < kCount) {")


class SplitRowText(CudaRowText):
    """A program of one sweep without outputs along it, as two kernels and a buffer between them."""

    def kernel(self) -> list[str]:
        """Both kernels; fills `functions`."""
        return [*super().kernel(), "", *self._finish()]

    def parameters(self) -> list[str]:
        """The kernel's parameters: the partial results come last."""
        return [*super().parameters(), *(f"{total_type(each)}* parts{name}" for name, each in self._named())]

    def one_row(self) -> list[str]:
        """One block's share of a row, up to its partial results."""
        (sweep,) = self.sweeps
        self.functions += self._function(sweep)
        stores = [f"parts{name}[r * kShares + rank] = total{name};" for name, _ in self._named()]
        return ["Index const r = row;", *self._sweep(sweep), "if (thread == 0) {", *indented(stores), "}"]

    def _named(self) -> list[tuple[str, Node]]:
        return [(self.reduction_name[id(each)], each) for each in self.program.reductions]

    def _finish(self) -> list[str]:
        columns = len(self.program.columns.extents)
        flat = [each for each in self.operands if not any(each.strides[:columns])]
        lines = [line for each in flat for line in frame.tensor_lines(each, self.extents, columns)]
        lines += [
            "constexpr bool inside = true;",
            "constexpr int turn = 0, rank = 0;",
            "Index const thread = threadIdx.x, r = blockIdx.x;",
        ]
        for slot, (name, each) in enumerate(self._named()):
            join = f"Join{name}{{}}"
            lines += [
                f"{total_type(each)} total{name} = {neutral_total(each)};",
                "for (Index i = thread; i < kShares; i += kGroup) {",
                f"  total{name} = {join}(total{name}, parts{name}[r * kShares + i]);",
                "}",
                f"total{name} = reduced<{slot}>(total{name}, {join}, turn);",
                *self._index(each),
            ]
        lines += self._row_code(1)
        head = f"__global__ void __launch_bounds__(kThreads) finish({', '.join(self.parameters())})"
        return ["template <int V>", *frame.function(head, lines)]

    def launch(self) -> list[str]:
        """The statements of `run`: scratch for the partial results, and both kernels."""
        count = self.count * self.cuda.split
        sizes = [f"{count} * sizeof({total_type(each)})" for _, each in self._named()]
        output = self.names[self.operands[-1].tensor.name]
        lines = [
            "// From the caller's allocator, which hands it out again in the order of the stream.",
            "auto const buffer = tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc,",
            f"    {{int64_t({' + '.join(sizes)})}}, DLDataType{{kDLUInt, 8, 1}}, {output}.device());",
        ]
        start = "buffer.data_ptr()"
        for name, each in sorted(self._named(), key=lambda item: -_alignment(item[1])):
            lines.append(f"auto* parts{name} = reinterpret_cast<{total_type(each)}*>({start});")
            start = f"parts{name} + {count}"
        return [
            *lines,
            *super().launch(),
            f"finish<1><<<{self.count}, kThreads, 0, stream>>>({self.arguments()});",
            "launched();",
        ]

    def arguments(self) -> str:
        """What the kernels are called with."""
        return ", ".join([super().arguments(), *(f"parts{name}" for name, _ in self._named())])


def _alignment(each: Node) -> int:
    """Bytes to which a partial result is aligned: the buffer holds the widest first, so that none lies askew."""
    kind = total_type(each)
    if kind.startswith("Best") or kind in ("double", "int64_t"):
        return 8
    return {"float": 4, "int32_t": 4, "int16_t": 2}.get(kind, 1)


def render(problem: Problem, plan: Plan, lowered: Lowered, program: RowProgram) -> str:
    """The whole source file."""
    text = text_of(problem, plan, program)
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


def text_of(problem: Problem, plan: Plan, program: RowProgram) -> CudaRowText:
    """The kernel's text in the form that the plan's knobs ask for."""
    knobs = Knobs.of(plan)
    kind = SplitRowText if knobs.split > 1 else OnlineRowText if knobs.online else CudaRowText
    return kind(problem, plan, program)


def _knobs(text: CudaRowText) -> list[str]:
    cuda = text.cuda
    items = "elements of a row in a thread's registers" if cuda.keep else "packs in flight a thread"
    lines = [
        f"constexpr int kGroup = {cuda.group};  // threads of a block that share a row",
        f"constexpr int kRows = {cuda.rows};  // rows side by side in a block",
        "constexpr int kThreads = kGroup * kRows;",
        f"constexpr bool kAcross = {str(cuda.across).lower()};  // threads side by side take rows, not columns",
        f"constexpr int kCluster = {cuda.cluster};  // blocks that share a row and their shared memory",
        f"constexpr int kShares = {cuda.cluster * cuda.split};  // blocks that share a row",
        f"constexpr int kItems = {cuda.items};  // {items}",
        f"[[maybe_unused]] constexpr int kVector = {text.vector};  // elements a pack",
        f"[[maybe_unused]] constexpr bool kOnce = {str(cuda.once).lower()};  // its data leaves the caches first",
        f"using Index = {'int64_t' if text.wide else 'int'};",
    ]
    if cuda.each > 1:
        lines.append(f"constexpr int kEach = {cuda.each};  // rows that a thread takes at once")
    if cuda.staged:
        lines.append(f"constexpr int kChain = {cuda.chain};  // rows that a cluster takes in turn")
        lines.append(f"constexpr int kParts = {cuda.parts};  // parts of a row that are refilled one by one")
        lines.append(f"constexpr int kStaged = {text.staged_bytes};  // bytes of shared memory: the next row's share")
    return lines


def _comment(problem: Problem, lowered: Lowered, text: CudaRowText) -> list[str]:
    cuda = text.cuda
    passes = 1 if cuda.keep else text.program.sweeps
    return [
        f"Along rows: {source_text.summary(lowered)}.",
        f"  {text.count} rows of {text.columns}, read from memory {passes} time{'s' if passes > 1 else ''}",
        f"  tile: {cuda.rows} rows, {cuda.cluster} blocks of {cuda.group} threads on each",
        f"  shared memory: {text.staged_bytes if cuda.staged else 0} bytes for the next row, and the partial results",
        f"  bytes moved at least: {source_text.bytes_moved(problem)}; operations: "
        f"{source_text.row_operations(text.program)}",
    ]
