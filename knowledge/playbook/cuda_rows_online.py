"""Rows longer than any block can hold, with sums of exponentials: the maximum and the sum below it in one sweep."""

from __future__ import annotations

from knowledge.exemplars.source import load
from knowledge.playbook.cuda_rows_knobs import part_type, total_type
from knowledge.playbook.cuda_rows_sweeps import FLUSH, walk
from knowledge.playbook.cuda_rows_text import CudaRowText
from knowledge.playbook.expressions import Node
from knowledge.playbook.reductions_text import Sweep
from knowledge.playbook.row_program import RowProgram
from knowledge.playbook.source_text import indented


def joins(program: RowProgram) -> bool:
    """Whether a first sweep finds one maximum and the sum below it, and nothing else."""
    first = program.reductions_of(0)
    return [each.op for each in first] == ["amax", "sum"] and program.maximum_of.get(id(first[1])) is first[0]


class OnlineRowText(CudaRowText):
    """A program whose first sweep `joins` a maximum and a sum."""

    def functions_text(self) -> list[str]:
        """The sweeps' arithmetic and the join."""
        return [*self.functions, *load("softmax_online").section("running").splitlines()]

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
