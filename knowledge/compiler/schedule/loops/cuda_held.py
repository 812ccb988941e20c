"""The text of rows that a GPU's threads hold (`schedule/loops/held.py`): one kernel that reads and writes them once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from knowledge.compiler.emit.cuda_math import DeviceEmitter
from knowledge.compiler.emit.elements import ELEMENT_TYPES, STORED_TYPES, literal
from knowledge.compiler.emit.source_text import decoded, indented
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index
from knowledge.compiler.ir.nodes import children, elements, neutral
from knowledge.compiler.passes.loops import Place, Total, count
from knowledge.compiler.problem import Device, Tensor
from knowledge.compiler.schedule.loops import cuda
from knowledge.compiler.schedule.loops.cpu import BLOCK, Choice, LaneStatements, joined, wide
from knowledge.compiler.schedule.loops.cpu import KernelText as Loops
from knowledge.compiler.schedule.loops.held import Rows, Sweep
from knowledge.compiler.schedule.loops.held_shape import divides


@dataclass
class HeldEmitter(DeviceEmitter):
    """`rounded` are products that others compare with: no later addition may take them in before they are rounded."""

    rounded: set[int] = field(default_factory=set)

    def spell(self, node: Node) -> str:
        """The right-hand side of a node's statement."""
        if id(node) in self.rounded and node.op == "mul" and ELEMENT_TYPES[node.dtype] == "float":
            return f"__fmul_rn({self.name(node.args[0])}, {self.name(node.args[1])})"
        return super().spell(node)


class HeldText(cuda.KernelText):
    """One kernel for some nests. Its functions take packs of `V` elements, or one where memory is not aligned."""

    who = "block"

    def __init__(
        self, name: str, rows: Rows, stems: Mapping[str, str], scalars: Mapping[str, str], device: Device,
        aligned: frozenset[str],
    ) -> None:  # fmt: skip
        Loops.__init__(self, name, Choice(rows.nest, None, 1), stems, scalars, device)
        self.rows, self.shape, self.aligned = rows, rows.shape, aligned
        self.statements: LaneStatements
        self.statements.emitter = HeldEmitter(rounded={*rows.held})
        self.column = (rows.steps if rows.along_steps else rows.places)[-1]

    def text(self, parameters: str) -> str:
        """The kernel."""
        shape, rows = self.shape, self.rows
        body = [*self._loads()]
        for at, sweep in enumerate(rows.sweeps):
            body += self._sweep(at, sweep)
        across, along = ("1", "V") if rows.along_steps else ("V", "1")
        block, part = "Index(blockIdx.x)", "threadIdx.x / kApart % kShares"
        if shape.cluster > 1:
            block, part = f"{block} / kCluster", f"Index(blockIdx.x) % kCluster * kShares + {part}"
        start = [
            f"constexpr int kApart = {shape.apart}, kShares = {shape.shares}, kBlock = {shape.block};",
            f"constexpr int kCluster = {shape.cluster}, kAll = kShares * kCluster;",
            f"constexpr int R = {across}, K = ({count(rows.steps)} - 1) / (kAll * {along}) + 1;",
            f"int const lane = threadIdx.x % kApart, share = {part};",
            f"Index const group = {block} * (kBlock / (kApart * kShares)) + threadIdx.x / (kApart * kShares);",
            *self._first(),
            *self._decoded(rows.places, "t"),
        ]
        cluster = f"__cluster_dims__({shape.cluster}, 1, 1) " if shape.cluster > 1 else ""
        head = [
            "template <int V>",
            f"__global__ void {cluster}__launch_bounds__({shape.block}) {self.name}({parameters}) {{",
        ]
        return "\n".join([*head, *indented([*self.tensors(), *start, *body]), "}"])

    @property
    def results(self) -> int:
        """How many rows."""
        return count(self.rows.places)

    def launch(self, arguments: str) -> str:
        """The statement of `run` that starts it: with packs where all of them are aligned."""
        width, start = self.shape.vector, self._start_of(self.shape.vector, arguments)
        unsure = [f"p{self.stem(name)}" for name in self._packed() if name not in self.aligned]
        if width == 1 or not unsure:
            return start
        test = f"aligned<{width}>({', '.join(unsure)})"
        return f"if ({test}) {{\n    {start}\n  }} else {{\n    {self._start_of(1, arguments)}\n  }}"

    def _start_of(self, width: int, arguments: str) -> str:
        blocks = -(-self.results // self._rows_a_block(width)) * self.shape.cluster
        return f"{self.name}<{width}><<<{blocks}, {self.shape.block}, 0, stream>>>({arguments});"

    def _packed(self) -> dict[str, None]:
        """The tensors that are moved in packs, by name."""
        read = [(self.nest.tensor(each).name, self.nest.address(each)) for _, each in self.rows.wide]
        written = [(each.tensor.name, each.address) for sweep in self.rows.sweeps for each in sweep.stores]
        return {name: None for name, address in (*read, *written) if self._near(address)}

    def _near(self, address: Index) -> bool:
        return address.times(self.column) == 1 and divides(address, self.column, self.shape.vector)

    def _decoded(self, axes: tuple[Axis, ...], task: str) -> list[str]:
        """The loops' steps; along packs, that of the first element."""
        here = f"Index const {self.column.name} ="
        lines = list(decoded(axes, task, 1, "Index"))
        return [line.replace(here, f"Index const {self.column.name}_ =") for line in lines]

    def _first(self) -> list[str]:
        """The thread's first row: one that is there already for those who have none, so that all may wait for all."""
        place, rows = "(group * kApart + lane) * R", self.results
        if self._whole:
            return [f"Index const t = {place};"]
        return [f"bool const inside = {place} < {rows};", f"Index const t = inside ? {place} : 0;"]

    @property
    def _whole(self) -> bool:
        """Whether every thread has rows."""
        return self.results % (self._rows_a_block(self.shape.vector)) == 0

    def _rows_a_block(self, width: int) -> int:
        return self.shape.block // self.shape.shares * (1 if self.rows.along_steps else width)

    @property
    def far(self) -> bool:
        """Whether indices need 64 bits."""
        ends = (end for _, read in self.rows.wide for end in self.nest.address(read).bounds)
        return super().far or max(map(abs, ends)) >= 1 << 31

    def _each(self, lines: list[str]) -> list[str]:
        """For each of a thread's packs."""
        first = "(share + k * kAll) * V" if self.rows.along_steps else "share + k * kAll"
        steps = count(self.rows.steps)
        body = [*self._decoded(self.rows.steps, "f"), *lines]
        if steps % (self.shape.steps * (self.shape.vector if self.rows.along_steps else 1)):
            body = [f"if (f < {steps}) {{", *indented(body), "}"]
        return ["UNROLL", "for (int k = 0; k < K; ++k) {",
                *indented([f"[[maybe_unused]] Index const f = {first};", *body]), "}"]  # fmt: skip

    def _lanes(self, lines: list[str], extent: str = "V") -> list[str]:
        name = self.column.name
        moved = extent == "V" or not self.rows.along_steps
        here = [f"[[maybe_unused]] Index const {name} = {name}_ + v;"] if moved else []
        return ["UNROLL", f"for (int v = 0; v < {extent}; ++v) {{", *indented([*here, *lines]), "}"]

    def _loads(self) -> Iterator[str]:
        """All that is held of memory, before anything waits for it."""
        for name, read in self.rows.wide:
            yield f"Pack<{STORED_TYPES[self.nest.tensor(read).dtype]}, V> {name}[K];"
        lines = []
        for name, read in self.rows.wide:
            place = self._place(self.nest.tensor(read), self.nest.address(read))
            if self._near(self.nest.address(read)):
                column = self.column.name
                lines += ["{", f"  Index const {column} = {column}_;",
                          f"  {name}[k] = load<false>(packs<V>(&{place}));", "}"]  # fmt: skip
            else:
                lines += self._lanes([f"{name}[k].lane[v] = {place};"])
        yield from self._each(lines)

    def _place(self, tensor: Tensor, address: Index) -> str:
        view = self.views.of(tensor, address)
        return f"m{view.name}({view.at(address, self.statements.emitter.name)})"

    def _sweep(self, at: int, sweep: Sweep) -> Iterator[str]:
        emitter = self.statements.emitter
        before = dict(emitter.names)
        made = [(name, node) for name, first, node in self.rows.held.values() if first == at]
        for name, first, node in self.rows.held.values():
            if first < at:
                emitter.names[id(node)] = f"{name}[k][v]"
        for name, node in made:
            yield f"{ELEMENT_TYPES[node.dtype]} {name}[K][V];"
        for total in sweep.totals:
            start = literal(neutral(total.op, total.dtype), total.dtype)
            yield f"{ELEMENT_TYPES[total.dtype]} {total.name}[R];"
            yield from ["UNROLL", f"for (int v = 0; v < R; ++v) {{ {total.name}[v] = {start}; }}"]
        if sweep.totals or sweep.stores:
            yield from self._elements(sweep, made)
        emitter.names = dict(before)
        for total in sweep.totals:
            yield from self._joined(total)
        for name, place in sweep.rows:
            yield from self._row(name, place)
            emitter.names = dict(before)

    def _elements(self, sweep: Sweep, made: list[tuple[str, Node]]) -> list[str]:
        names = self.statements.emitter
        self._pass_over(sweep)
        lines = self.statements.write([*(total.body for total in sweep.totals), *(s.body for s in sweep.stores)])
        lines = [*lines, *(f"{name}[k][v] = {names.name(node)};" for name, node in made)]
        for total in sweep.totals:
            into = f"{total.name}{'[0]' if self.rows.along_steps else '[v]'}"
            lines.append(f"{into} = {joined(total, into, names.name(total.body))};")
        before, after = [], []
        inside = "" if self._whole else "if (inside) "
        for number, store in enumerate(sweep.stores):
            kind, place = STORED_TYPES[store.tensor.dtype], self._place(store.tensor, store.address)
            if self._near(store.address):
                column = self.column.name
                before.append(f"Pack<{kind}, V> y{number};")
                lines.append(f"y{number}.lane[v] = {kind}({names.name(store.body)});")
                after += ["{", f"  Index const {column} = {column}_;",
                          f"  {inside}store<false>(packs<V>(&{place}), y{number});", "}"]  # fmt: skip
            else:
                lines.append(f"{inside}{place} = {kind}({names.name(store.body)});")
        return self._each([*before, *self._lanes(lines), *after])

    def _pass_over(self, sweep: Sweep) -> None:
        """Do not write what only numbers that are held are made of."""
        names, needed = self.statements.emitter.names, set[int]()
        roots = [*(total.body for total in sweep.totals), *(store.body for store in sweep.stores)]
        stack = [*roots]
        while stack:
            node = stack.pop()
            if id(node) not in needed:
                needed.add(id(node))
                stack += children(node) if id(node) not in names else ()
        for node in elements(*roots):
            if id(node) not in needed and node.kind != "const":
                names.setdefault(id(node), "")

    def _joined(self, total: Total) -> Iterator[str]:
        """A total of all threads that have a part of the row: of many elements in a wider type."""
        shape, kind, join = self.shape, ELEMENT_TYPES[total.dtype], f"Join_{total.op}{{}}"
        if shape.shares == 1:
            return
        if count(self.rows.steps) <= BLOCK or wide(total) == total.dtype:
            yield from self._over(total.name, join)
            return
        parts = f"{total.name}w"
        yield f"{ELEMENT_TYPES[wide(total)]} {parts}[R];"
        yield from ["UNROLL", f"for (int v = 0; v < R; ++v) {{ {parts}[v] = {total.name}[v]; }}"]
        yield from self._over(parts, join)
        yield from ["UNROLL", f"for (int v = 0; v < R; ++v) {{ {total.name}[v] = {kind}({parts}[v]); }}"]

    def _over(self, parts: str, join: str) -> Iterator[str]:
        yield f"over_shares<kShares, kApart, kBlock>({parts}, {join});"
        if self.shape.cluster > 1:
            yield f"over_cluster<kCluster>({parts}, {join});"

    def _row(self, name: str, place: Place) -> Iterator[str]:
        """A number of each row, and where it is stored."""
        kind = ELEMENT_TYPES[place.tensor.dtype]
        lines = self.statements.write([place.body])
        lines.append(f"{name}[v] = {self.statements.emitter.name(place.body)};")
        if place.tensor.name not in self.rows.kept:
            stored = f"{STORED_TYPES[place.tensor.dtype]}({name}[v])"
            own = "share == 0" if self._whole else "inside && share == 0"
            lines.append(f"if ({own}) {{ {self._place(place.tensor, place.address)} = {stored}; }}")
        yield f"{kind} {name}[R];"
        yield from self._lanes(lines, "R")
