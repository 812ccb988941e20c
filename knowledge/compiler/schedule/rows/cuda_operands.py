"""What a row kernel for GPUs reads and writes: its knobs, its tensors, what stays in registers."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.compiler.emit import cuda_frame as frame
from knowledge.compiler.emit.cuda_frame import Operand
from knowledge.compiler.emit.elements import ELEMENT_TYPES, identity
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.strides import Space
from knowledge.compiler.passes.row_program import RowProgram
from knowledge.compiler.plan import Plan, PlanKnobs
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.rows.text import RowText


@dataclass(frozen=True)
class Knobs(PlanKnobs):
    """A plan's knobs.

    `keep`: the row stays in registers from its only load to its last use. `items`: elements of a row that a thread
    holds then, else packs in flight. `group`: threads that share a row; `rows`: rows side by side in a block;
    `cluster`: blocks that share a row; `staged`: the next row is copied to shared memory meanwhile, `chain`: rows that
    one cluster takes in turn; `once`: cache hints; `across`: threads side by side take rows, not columns;
    `each`: rows that a thread takes at once, where what they share is read once for all of them;
    `split`: blocks that share a row and leave their results to a second kernel; `parts`: the memory of the next
    row is refilled in so many steps; `online`: one sweep finds a maximum and the sum of exponentials below it;
    `exact`: arithmetic in its cheaper spelling; `blocks`: that a multiprocessor holds at once, at least.
    """

    vector: bool = False
    keep: bool = False
    items: int = 1
    group: int = 256
    rows: int = 1
    cluster: int = 1
    chain: int = 1
    staged: bool = False
    once: bool = False
    across: bool = False
    each: int = 1
    split: int = 1
    parts: int = 1
    online: bool = False
    exact: bool = False
    blocks: int = 1

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
    """The type partial results are joined in: sums of float32 one size up, not what is rounded to 16 bits after."""
    kind = part_type(node)
    return "double" if node.args[0].dtype == "float32" and node.op in ("sum", "prod") else kind


def neutral(node: Node) -> str:
    """The value that changes nothing."""
    kind = part_type(node)
    if not kind.startswith("Best"):
        return identity(node, kind)
    return f"{kind}{{{identity(node, ELEMENT_TYPES[node.args[0].dtype])}, INT64_MAX}}"


def neutral_total(node: Node) -> str:
    """The same, in the type that partial results are joined in."""
    kind = total_type(node)
    return neutral(node) if kind.startswith("Best") else identity(node, kind)


class RowOperands(RowText):
    """A row program's tensors under a plan."""

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
    def moving(self) -> list[Node]:
        """The loads of the row itself: those that others rows do not share."""
        moving = len(self.program.columns.extents)
        return [
            node for node in self.program.operands
            if not self.program.flat(node) and (any(self.loads[id(node)].strides[moving:]) or self.count == 1)
        ]  # fmt: skip

    @property
    def resident(self) -> list[Node]:
        """The loads that stay in registers."""
        return self.moving if self.cuda.keep else []

    @property
    def whole(self) -> bool:
        """Whether every block has all its rows."""
        return self.count % (self.cuda.rows * self.cuda.each) == 0

    @property
    def wide(self) -> bool:
        """Whether offsets need 64 bits."""
        spans = (
            1 + sum((extent - 1) * abs(step) for extent, step in zip(self.extents, each.strides, strict=True))
            for each in self.operands
        )
        slack = self.cuda.threads * self.cuda.cluster * self.cuda.items * 16 * self.cuda.each
        return max(self._count + slack, *spans) >= frame.INT_SPAN

    @property
    def exact(self) -> bool:
        """Whether every thread holds as much of the row as every other."""
        return self.cuda.keep and self._count == self.cuda.items * self.cuda.group * self.cuda.cluster

    def _bytes_before(self, node: Node) -> int:
        before = self.resident[: self.resident.index(node)]
        return sum(BYTES[self.loads[id(each)].tensor.dtype] for each in before)

    @property
    def staged_bytes(self) -> int:
        """Shared memory that holds the next row's share of one block."""
        share = self.cuda.items * self.cuda.group
        return share * sum(BYTES[self.loads[id(node)].tensor.dtype] for node in self.resident)

    @property
    def guard(self) -> str:
        """The test whether pack `i` is one of the row's, where that is not certain."""
        return "" if self.exact else "if (i < kCount) "
