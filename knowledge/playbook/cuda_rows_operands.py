"""What a row kernel for GPUs reads and writes: its tensors, how wide they are accessed, what stays in registers."""

from __future__ import annotations

from knowledge.playbook import cuda_pointwise_frame as frame
from knowledge.playbook.cuda_pointwise_frame import Operand
from knowledge.playbook.cuda_rows_knobs import Knobs
from knowledge.playbook.expressions import Node
from knowledge.playbook.problem import Problem
from knowledge.playbook.recipe import Plan
from knowledge.playbook.reductions_text import RowText
from knowledge.playbook.row_program import RowProgram
from knowledge.playbook.source_text import BYTES
from knowledge.playbook.space import Space


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
