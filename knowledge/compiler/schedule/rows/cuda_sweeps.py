"""The sweeps of a row kernel for GPUs: what one thread computes, and how threads join their results."""

from __future__ import annotations

import re
from collections.abc import Callable

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit.cuda_math import DeviceEmitter
from knowledge.compiler.emit.elements import ELEMENT_TYPES, REDUCERS, Emitter
from knowledge.compiler.emit.source_text import indented
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.schedule.rows.cuda_operands import RowOperands, neutral, neutral_total, part_type, total_type
from knowledge.compiler.schedule.rows.text import Sweep

# Steps of a long sweep after which partial sums move to the thread's total.
FLUSH = 32


class RowSweeps(RowOperands):
    """The arithmetic of each sweep, and the loops over the columns."""

    def functions_text(self) -> list[str]:
        """The sweeps' arithmetic and the joins. Call `kernel` first, which names the row values."""
        joins = [line for each in self.program.reductions for line in self._join_struct(each)]
        return [*self.functions, *joins]

    def _join_struct(self, each: Node) -> list[str]:
        name = self.reduction_name[id(each)]
        if not each.op.startswith("arg"):
            text = REDUCERS[each.op].join.format("a", "b")
            member = f"  template <class T> __device__ T operator()(T a, T b) const {{ return T({text}); }}"
            return [f"struct Join{name} {{", member, "};"]
        size, beats = ("larger", ">") if each.op == "argmax" else ("smaller", "<")
        return [
            f"// The {size}; NaN before all numbers, of equals the first.",
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

    def _emitter(self) -> Emitter:
        return DeviceEmitter(cheaper=self.cuda.exact)

    def _defined(self, head: str, body: list[str]) -> list[str]:
        return frame.function(f"__device__ inline {head}", body)

    def _sweep(self, sweep: Sweep) -> list[str]:
        lines = []
        for each in sweep.reductions:
            name, kind = self.reduction_name[id(each)], part_type(each)
            lines += [
                f"{kind} part{name}[V];",
                "UNROLL",
                f"for (int k = 0; k < V; ++k) {{ part{name}[k] = {self._first(sweep, each)}; }}",
            ]
            if self._flushed(each):
                lines.append(f"{total_type(each)} total{name} = {neutral_total(each)};")
        lines += self._resident_loop(sweep) if self.cuda.keep else self._streaming_loop(sweep)
        for slot, each in enumerate(self.program.reductions):
            if each in sweep.reductions:
                lines += self._join(each, slot)
        return lines

    def _forward(self, sweep: Sweep) -> bool:
        """Whether each thread meets columns from the first on."""
        return self.cuda.keep or sweep.index % 2 == 0

    def _first(self, sweep: Sweep, each: Node) -> str:
        """What a thread's part begins with; of an extremum's place its own first column, where it has one."""
        if not each.op.startswith("arg") or not self._forward(sweep):
            return neutral(each)
        return neutral(each).replace("INT64_MAX", "start < kCount ? int64_t(start) * V + k : INT64_MAX")

    def _flushed(self, each: Node) -> bool:
        """Whether a thread's partial sum is long enough to lose digits."""
        packs = -(-self._count // (self.vector * self.cuda.group * self.cuda.cluster * self.cuda.split))
        return part_type(each) == "float" and each.op in ("sum", "prod") and packs > 2 * FLUSH

    def _join(self, each: Node, slot: int) -> list[str]:
        name, kind = self.reduction_name[id(each)], total_type(each)
        if self._flushed(each):
            lines = self._flush(each, "")
        else:
            lines = [f"{kind} total{name} = {_as(kind, f'part{name}[0]')};", *self._fold(each, "", 1)]
        lines.append(f"total{name} = reduced<{slot}>(total{name}, Join{name}{{}}, turn);")
        return [*lines, *self._index(each)]

    def _index(self, each: Node) -> list[str]:
        name = self.reduction_name[id(each)]
        return [f"int64_t const index{name} = total{name}.index;"] if each.op.startswith("arg") else []

    def _fold(self, each: Node, row: str, start: int) -> list[str]:
        """Join the lanes' results from `start` on into the thread's; `row` selects one of several rows."""
        name, kind = self.reduction_name[id(each)], total_type(each)
        value = _as(kind, f"part{name}{row}[k]")
        return [
            "UNROLL",
            f"for (int k = {start}; k < V; ++k) {{ total{name}{row} = Join{name}{{}}(total{name}{row}, {value}); }}",
        ]

    def _flush(self, each: Node, row: str) -> list[str]:
        """Join the lanes' results into the thread's and start them anew."""
        name = self.reduction_name[id(each)]
        cleared = f"for (int k = 0; k < V; ++k) {{ part{name}{row}[k] = {neutral(each)}; }}"
        return [*self._fold(each, row, 0), "UNROLL", cleared]

    def _resident_loop(self, sweep: Sweep) -> list[str]:
        mine = {id(node) for node in self.resident}
        loads = [line for node in sweep.loads if id(node) not in mine for line in self._load_here(sweep, node, "")]
        body = [*loads, *self._pack(sweep, lambda node: "[u]" if id(node) in mine else "")]
        return [
            "UNROLL", "for (int u = 0; u < kPacks; ++u) {", "  [[maybe_unused]] Index const i = start + u * kGroup;",
            f"  {self.guard}{{", *indented(body, 4), "  }", "}",
        ]  # fmt: skip

    def _load_here(self, sweep: Sweep, node: Node, slot: str) -> list[str]:
        """Only what the last sweep loads of the row itself is of no further use."""
        operand = self.loads[id(node)]
        declared = [] if slot else [f"{operand.held} r{operand.name};"]
        hint = "kOnce" if sweep is self.sweeps[-1] and node in self.moving else "false"
        return [*declared, *frame.load_lines(operand, slot, "i, r", hint)]

    def _streaming_loop(self, sweep: Sweep) -> list[str]:
        held = [f"{self.loads[id(node)].held} r{self.load_name[id(node)]}[kPacks];" for node in sweep.loads]
        loading = [line for node in sweep.loads for line in self._load_here(sweep, node, "[u]")]
        return self._columns_loop(sweep, held, loading, self._pack(sweep, lambda _: "[u]"), "")

    def _columns_loop(self, sweep: Sweep, held: list[str], loading: list[str], packs: list[str], row: str) -> list[str]:
        """Over the columns: all loads of kPacks packs, then their arithmetic."""
        inner = ["  Index const i = base + u * kStep;", "  if (i < kCount) {"]
        unrolled = ["UNROLL", "for (int u = 0; u < kPacks; ++u) {", *inner]
        body = [*held, *unrolled, *indented(loading, 4), "  }", "}", *unrolled, *indented(packs, 4), "  }", "}"]
        flushed = [each for each in sweep.reductions if self._flushed(each)]
        if flushed:
            flush = [line for each in flushed for line in self._flush(each, row)]
            flush = _rows_loop(flush) if row else flush
            body += [f"if (++filled{sweep.index} % {FLUSH} == 0) {{", *indented(flush), "}"]
        filled = [f"int filled{sweep.index} = 0;"] if flushed else []
        return [*filled, *walk(backward=sweep.index % 2 == 1), *indented(body), "}"]

    def _pack(self, sweep: Sweep, slot: Callable[[Node], str], row: str = "") -> list[str]:
        """The arithmetic of one pack, and its stores; `slot` selects what was loaded, `row` one of several rows."""
        inner = [
            *self._compute(sweep, slot),
            *(line for each in sweep.reductions for line in self._absorb(sweep, each, row)),
        ]
        operands = {each.name: each for each in self.outputs}
        outputs = [(operands[self.stems[target.tensor.name]], target.node) for target in sweep.stores]
        inner += [
            f"{operand.lane()} = {frame.stored(operand, node.dtype, f'v{operand.name}')};" for operand, node in outputs
        ]
        inner += [f"r{self.kept_name[id(node)]}[u][k] = v{self.kept_name[id(node)]};" for node in sweep.writes]
        lines = [f"{operand.held} r{operand.name};" for operand, _ in outputs]
        lines += ["UNROLL", "for (int k = 0; k < V; ++k) {", *indented(inner), "}"]
        stores = [line for operand, _ in outputs for line in frame.store_lines(operand, "i, r", "kOnce")]
        return lines + (stores if self.whole or not stores else ["if (inside) {", *indented(stores), "}"])

    def _compute(self, sweep: Sweep, slot: Callable[[Node], str]) -> list[str]:
        """Compute one column into registers that begin with v."""
        results = self._results(sweep)
        loads = [
            frame.converted(self.loads[id(node)], node.dtype, self.loads[id(node)].lane(slot(node)))
            for node in sweep.loads
        ]
        reads = [f"r{self.kept_name[id(node)]}[u][k]" for node in sweep.reads]
        numbers = [self.row.name(node) for node in sweep.numbers]
        arguments = ", ".join([*loads, *reads, *numbers, *(f"v{name}" for name, _ in results)])
        declared = [f"{ELEMENT_TYPES[node.dtype]} v{name};" for name, node in results]
        return [*declared, f"sweep{sweep.index}({arguments});"]

    def _absorb(self, sweep: Sweep, each: Node, row: str) -> list[str]:
        name = self.reduction_name[id(each)]
        value, part = f"v{name}", f"part{name}{row}[k]"
        if each.op.startswith("arg") and self._forward(sweep):
            # Of what comes later only more, or the first NaN: a third of a join's instructions.
            held, beaten = f"{part}.value", "<=" if each.op == "argmax" else ">="
            new = f"{part_type(each)}{{{value}, int64_t(i) * V + k}}"
            return [f"if (!({value} {beaten} {held}) && {held} == {held}) {{ {part} = {new}; }}"]
        if each.op.startswith("arg"):
            value = f"{part_type(each)}{{v{name}, int64_t(i) * V + k}}"
        elif part_type(each) != ELEMENT_TYPES[each.args[0].dtype]:
            value = f"{part_type(each)}(v{name})"
        return [f"{part} = Join{name}{{}}({part}, {value});"]

    def blocked_rows(self) -> list[str]:
        """Several rows at once: one sweep that reads what they share once, then the end of each row."""
        (sweep,) = self.sweeps
        self.functions += self._function(sweep)
        lines = []
        for each in sweep.reductions:
            name = self.reduction_name[id(each)]
            lines += [f"{part_type(each)} part{name}[kEach][V];", f"{total_type(each)} total{name}[kEach];"]
            start = [f"total{name}[e] = {neutral_total(each)};", "UNROLL"]
            start.append(f"for (int k = 0; k < V; ++k) {{ part{name}[e][k] = {self._first(sweep, each)}; }}")
            lines += [*_rows_loop(start)]
        lines += self._blocked_loop(sweep)
        ends = [
            "Index const r = min(row * kEach + e, kRowCount - 1);",
            "bool const inside = row * kEach + e < kRowCount;",
        ]
        ends += self._row_code(0)
        for slot, each in enumerate(sweep.reductions):
            name = self.reduction_name[id(each)]
            ends += [
                *self._fold(each, "[e]", 0),
                f"{total_type(each)} const total{name}_ = reduced<{slot}>(total{name}[e], Join{name}{{}}, e % 2);",
            ]
        ends += [re.sub(r"\b(total\w+\d)\b", r"\1_", line) for line in self._row_code(1)]
        return [*lines, *_rows_loop(ends)]

    def _blocked_loop(self, sweep: Sweep) -> list[str]:
        moving = {id(node) for node in self.moving}
        held: list[str] = []
        shared: list[str] = []
        own: list[str] = []
        for node in sweep.loads:
            operand = self.loads[id(node)]
            rows = "[kEach]" if id(node) in moving else ""
            held.append(f"{operand.held} r{operand.name}[kPacks]{rows};")
            hint = "kOnce" if rows else "false"
            (own if rows else shared).extend(frame.load_lines(operand, "[u][e]" if rows else "[u]", "i, r", hint))
        loading = [line.replace("i, r)", "i, 0)") for line in shared]
        loading += _rows_loop(["Index const r = min(row * kEach + e, kRowCount - 1);", *own])
        packs = _rows_loop(self._pack(sweep, lambda node: "[u][e]" if id(node) in moving else "[u]", "[e]"))
        return self._columns_loop(sweep, held, loading, packs, "[e]")


def walk(*, backward: bool) -> list[str]:
    """The head of a loop over a row's packs. Backward it meets first what the sweep before left in the L2 cache."""
    if not backward:
        return ["for (Index base = start; base < kCount; base += kPacks * kStep) {"]
    last = "start + (kCount - 1 - start) / (kPacks * kStep) * (kPacks * kStep);"
    return [f"for (Index base = {last}", "     base >= start; base -= kPacks * kStep) {"]


def _rows_loop(lines: list[str]) -> list[str]:
    return ["UNROLL", "for (int e = 0; e < kEach; ++e) {", *indented(lines), "}"]


def _as(kind: str, value: str) -> str:
    """The value in that type; an extremum with its place has no other."""
    return value if kind.startswith("Best") else f"{kind}({value})"
