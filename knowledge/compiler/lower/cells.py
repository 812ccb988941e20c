"""Cells of recurrent networks as the operations that they are, for loops over steps that call one at each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge.compiler.ir.strides import packed_strides
from knowledge.compiler.problem import Argument, Op, Ref, Tensor, base_name

_CELLS = ("aten.lstm_cell.default", "aten.gru_cell.default", "aten.rnn_tanh_cell.default", "aten.rnn_relu_cell.default")


def spelled(ops: Sequence[Op], least: int) -> tuple[Op, ...]:
    """The operations, with cells as their products and gates where there are as many as `least`."""
    if sum(op.target in _CELLS for op in ops) < least:
        return tuple(ops)
    return tuple(each for op in ops for each in (_Cell(op).all() if op.target in _CELLS else (op,)))


class _Cell:
    """One cell's operations: its input, state or states, weights by inputs and by units, and their biases."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.x, given, self.inputs, self.units, *self.biases = op.args
        self.states = given if isinstance(given, tuple) else (given,)
        self.made: list[Op] = []

    def all(self) -> Iterator[Op]:
        """In order; the last ones have the cell's own results."""
        kind = base_name(self.op.target)
        if kind == "lstm_cell":
            self._lstm()
        elif kind == "gru_cell":
            self._gru()
        else:
            nonlinear = "tanh" if kind == "rnn_tanh_cell" else "relu"
            self._do(nonlinear, self._do("add.Tensor", *self._products(1)), result=0)
        yield from self.made

    def _lstm(self) -> None:
        gates = self._do("add.Tensor", *self._products(4), blocks=4)
        taken, forgotten, shown = (self._do("sigmoid", self._block(gates, each)) for each in (0, 1, 3))
        new = self._do("mul.Tensor", taken, self._do("tanh", self._block(gates, 2)))
        cell = self._do("add.Tensor", self._do("mul.Tensor", forgotten, self.states[1]), new, result=1)
        self._do("mul.Tensor", shown, self._do("tanh", cell), result=0)

    def _gru(self) -> None:
        given, hidden = self._products(3)
        reset, update = (
            self._do("sigmoid", self._do("add.Tensor", self._block(given, each), self._block(hidden, each)))
            for each in (0, 1)
        )
        scaled = self._do("mul.Tensor", reset, self._block(hidden, 2))
        new = self._do("tanh", self._do("add.Tensor", self._block(given, 2), scaled))
        rest = self._do("mul.Tensor", self._do("sub.Tensor", self.states[0], new), update)
        self._do("add.Tensor", rest, new, result=0)

    def _products(self, blocks: int) -> tuple[Ref, Ref]:
        one, other = (*self.biases, None, None)[:2]
        given = self._do("linear", self.x, self.inputs, one, blocks=blocks)
        return given, self._do("linear", self.states[0], self.units, other, blocks=blocks)

    def _block(self, of: Ref, place: int) -> Ref:
        units = self.op.results[0].shape[-1]
        return self._do("slice.Tensor", of, -1, place * units, (place + 1) * units)

    def _do(self, target: str, *args: Argument, blocks: int = 1, result: int | None = None) -> Ref:
        """Adds an operation whose result is as wide as so many blocks."""
        like = self.op.results[0] if result is None else self.op.results[result]
        made = like if result is not None else self._between(like, blocks)
        target = target if "." in target else f"{target}.default"
        self.made.append(Op(target=f"aten.{target}", args=args, results=(made,)))
        return Ref(ref=made.name)

    def _between(self, like: Tensor, blocks: int) -> Tensor:
        shape = (*like.shape[:-1], like.shape[-1] * blocks)
        name = f"{like.name} part {len(self.made)}"
        return like.model_copy(update={"name": name, "shape": shape, "strides": packed_strides(shape)})
