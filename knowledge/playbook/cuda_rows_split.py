"""Few long rows: many blocks share one, and a second kernel joins what they found."""

from __future__ import annotations

from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook.cuda_rows_knobs import neutral_total, total_type
from knowledge.playbook.cuda_rows_text import CudaRowText
from knowledge.playbook.expressions import Node
from knowledge.playbook.source_text import indented


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
