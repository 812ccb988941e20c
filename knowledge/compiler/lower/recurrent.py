"""Recurrent layers: the input's product for all steps at once, then steps, each a product with the state and its gates.

The number of layers, the directions and the biases are the trace's; what is between two layers lies in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Index, along, axes, number, places
from knowledge.compiler.ir.nodes import Values
from knowledge.compiler.lower.contracting import contracted
from knowledge.compiler.lower.lowering import Lower, Lowering
from knowledge.compiler.lower.moving import integer
from knowledge.compiler.lower.pointwise import result_dtype
from knowledge.compiler.problem import Argument, Op

Gates = Callable[["Elements", list[Node], list[Node], list[Node]], list[Node]]


@dataclass(frozen=True)
class Elements:
    """Arithmetic on elements of one type."""

    graph: Values
    dtype: str

    def __call__(self, op: str, *operands: Node) -> Node:
        """One primitive."""
        return self.graph.element(op, self.dtype, *operands)

    def number(self, value: float) -> Node:
        """A constant."""
        return self.graph.const(value, self.dtype)

    def sigmoid(self, x: Node) -> Node:
        """1 / (1 + exp(-x))."""
        one = self.number(1.0)
        return self("div", one, self("add", one, self("exp", self("neg", x))))


def _lstm(f: Elements, given: list[Node], hidden: list[Node], before: list[Node]) -> list[Node]:
    """c = forget * c + input * candidate, h = output * tanh(c)."""
    taken, forgotten, candidate, shown = (f("add", x, h) for x, h in zip(given, hidden, strict=True))
    kept = f("mul", f.sigmoid(forgotten), before[1])
    cell = f("add", kept, f("mul", f.sigmoid(taken), f("tanh", candidate)))
    return [f("mul", f.sigmoid(shown), f("tanh", cell)), cell]


def _gru(f: Elements, given: list[Node], hidden: list[Node], before: list[Node]) -> list[Node]:
    """h = (1 - update) * candidate + update * h; the reset scales what the candidate has from the state."""
    reset, update = (f.sigmoid(f("add", x, h)) for x, h in zip(given[:2], hidden[:2], strict=True))
    candidate = f("tanh", f("add", given[2], f("mul", reset, hidden[2])))
    rest = f("sub", f.number(1.0), update)
    return [f("add", f("mul", rest, candidate), f("mul", update, before[0]))]


def _plain(nonlinearity: str) -> Gates:
    def made(f: Elements, given: list[Node], hidden: list[Node], before: list[Node]) -> list[Node]:
        total = f("add", given[0], hidden[0])
        return [f("tanh", total) if nonlinearity == "tanh" else f("maximum", total, f.number(0.0))]

    return made


@dataclass(frozen=True)
class Cell:
    """What a step does: blocks of rows that its weights have, states that go from step to step, and the gates.

    `gates` takes, of each block, the input's and the state's part with their biases, and the states before.
    """

    blocks: int
    states: int
    gates: Gates


@dataclass(frozen=True)
class _Weights:
    """Of one layer in one direction: by inputs (blocks * units, inputs), by units, and both biases or none."""

    inputs: Node
    units: Node
    biases: tuple[Node, ...]


@dataclass(frozen=True)
class _Run:
    """The states of one layer in one direction, `ahead` places behind the start of their memory."""

    states: Node
    steps: int
    backward: bool
    ahead: int

    def at(self, time: Index) -> Index:
        """Where the states after the input's step `time` lie."""
        return _order(time, self.steps, self.backward) + self.ahead

    @property
    def last(self) -> Index:
        """Where the states after all steps lie."""
        return number(self.steps - 1 + self.ahead)


def _order(step: Index, steps: int, backward: bool) -> Index:
    """The input's step for one of the recurrence, and the other way round."""
    return step * -1 + (steps - 1) if backward else step


def _run(graph: Values, cell: Cell, x: Node, weights: _Weights, first: list[Node], backward: bool) -> _Run:
    """All steps over an input (steps, batch, inputs); `first` are the states before, (batch, units) or a number."""
    count, batch, inputs = x.shape
    units, dtype = weights.units.shape[1], x.dtype
    rows = cell.blocks * units
    t, b, row = places((count, batch, rows))
    (r,) = map(along, axes("r", (inputs,)))
    given = contracted(graph, (count, batch, rows), (inputs,), (x, (t, b, r)), (weights.inputs, (row, r)))
    # States that are given are those of a step of their own, ahead of all others; before any step they are 0.
    zero = all(each.kind == "const" and not each.payload[0] for each in first)
    ahead = 0 if zero else 1
    shape = (cell.states, count + ahead, batch, units)
    state, step, b, unit = places(shape)
    (r,) = map(along, axes("r", (units,)))
    blocks = [unit + block * units for block in range(cell.blocks)]
    held = graph.before(dtype, (number(0), b, r))
    sums = tuple(graph.element("mul", dtype, held, graph.read(weights.units, (row, r))) for row in blocks)
    f, time = Elements(graph, dtype), _order(step - ahead, count, backward)
    mine = [graph.read(given, (time, b, row), partial=True) for row in blocks]
    hidden = [graph.total(f"s{block}", dtype) for block in range(cell.blocks)]
    if weights.biases:
        one, other = weights.biases
        mine = [f("add", x, graph.read(one, (row,))) for x, row in zip(mine, blocks, strict=True)]
        hidden = [f("add", h, graph.read(other, (row,))) for h, row in zip(hidden, blocks, strict=True)]
    made = cell.gates(f, mine, hidden, [graph.before(dtype, (number(k), b, unit)) for k in range(cell.states)])
    if ahead:
        started = (graph.read(each, (b, unit)) for each in first)
        after = graph.within(step - 1, count)
        made = [f("select", after, new, start) for new, start in zip(made, started, strict=True)]
    body = made[0] if cell.states == 1 else f("select", graph.within(state, 1), *made)
    return _Run(graph.steps(shape, (units,), sums, body), count, backward, ahead)


@dataclass(frozen=True)
class _Layers:
    """One traced operation: its layers in their directions, over an input (steps, batch, inputs)."""

    state: Lowering
    op: Op
    cell: Cell
    first: tuple[Argument, ...]
    weights: tuple[Node, ...]
    biased: bool
    directions: int

    def runs(self, x: Node, layers: int) -> Iterator[list[_Run]]:
        """Each layer's runs, one a direction; all of them read what the layer before made."""
        graph, each = self.state.graph, 4 if self.biased else 2
        if len(self.weights) != each * layers * self.directions:
            raise UnwritableError(f"{self.op.target} with projections")
        for layer in range(layers):
            made = []
            for direction in range(self.directions):
                place = layer * self.directions + direction
                inputs, units, *biases = self.weights[place * each : (place + 1) * each]
                first = [self._first(argument, place, x.dtype) for argument in self.first]
                made.append(_run(graph, self.cell, x, _Weights(inputs, units, tuple(biases)), first, direction == 1))
            yield made
            x = self.shown(made)

    def _first(self, argument: Argument, place: int, dtype: str) -> Node:
        """Of the states (layers * directions, batch, units), those of one run; a number where all are the same."""
        graph, node = self.state.graph, self.state.operand(argument, dtype)
        if node.uniform:
            return node
        node = node if len(node.shape) == 3 else graph.reshape(node, (node.shape[0], 1, node.shape[1]))
        shape = node.shape[1:]
        return graph.map(shape, graph.read(node, (number(place), *places(shape))))

    def shown(self, runs: list[_Run]) -> Node:
        """What all steps show, (steps, batch, directions * units)."""
        graph, run = self.state.graph, runs[0]
        _, _, batch, units = run.states.shape
        shape = (run.steps, batch, len(runs) * units)
        t, b, unit = places(shape)
        parts = [graph.read(each.states, (number(0), each.at(t), b, unit - direction * units), partial=True)
                 for direction, each in enumerate(runs)]  # fmt: skip
        return graph.map(shape, _first_within(graph, unit, units, parts))

    def last(self, runs: list[_Run], state: int) -> Node:
        """One state of every run after all steps, (layers * directions, batch, units)."""
        graph = self.state.graph
        _, _, batch, units = runs[0].states.shape
        shape = (len(runs), batch, units)
        which, b, unit = places(shape)
        parts = [graph.read(run.states, (number(state), run.last, b, unit)) for run in runs]
        return graph.map(shape, _first_within(graph, which, 1, parts))


def _first_within(graph: Values, index: Index, extent: int, parts: list[Node]) -> Node:
    """The part in whose turn an index is, `extent` to each."""
    *others, body = parts
    for place, part in reversed(list(enumerate(others, 1))):
        body = graph.element("select", part.dtype, graph.within(index, place * extent), part, body)
    return body


def _recurrent(cell: Cell) -> Lower:
    def made(state: Lowering, op: Op) -> tuple[Node, ...]:
        """x, the states (of an lstm a list), weights, has_biases, layers, dropout, train, both ways, batch first."""
        given, weights, biased, layers, dropout, train, both, batch_first = op.args[1:9]
        if op.target.split(".")[-1] != "input" or not isinstance(weights, tuple):
            raise UnwritableError(f"{op.target} of packed sequences")
        if dropout and train:
            raise UnwritableError(f"{op.target} with dropout")
        graph, dtype = state.graph, result_dtype(op)
        x = state.operand(op.args[0], dtype)
        if x.uniform:
            raise UnwritableError(f"{op.target} of a constant")
        flat = len(x.shape) == 2
        x = graph.reshape(x, (x.shape[0], 1, x.shape[1])) if flat else _turned(graph, x) if batch_first else x
        first = given if isinstance(given, tuple) else (given,)
        held = tuple(state.operand(each, dtype) for each in weights)
        all_ = _Layers(state, op, cell, first, held, biased is True, 2 if both else 1)
        made = list(all_.runs(x, integer(layers, op)))
        out, runs = all_.shown(made[-1]), [run for layer in made for run in layer]
        out = out if flat or not batch_first else _turned(graph, out)
        ends = (all_.last(runs, place) for place in range(cell.states))
        return tuple(graph.reshape(node, result.shape) for node, result in zip((out, *ends), op.results, strict=True))

    return made


def _step(cell: Cell) -> Lower:
    """x, the states (of an lstm a list), weights by inputs and by units, and their biases: a layer of one step."""

    def made(state: Lowering, op: Op) -> tuple[Node, ...]:
        graph, dtype = state.graph, result_dtype(op)
        x, given = state.operand(op.args[0], dtype), op.args[1]
        if x.uniform:
            raise UnwritableError(f"{op.target} of a constant")
        first = [state.operand(each, dtype) for each in (given if isinstance(given, tuple) else (given,))]
        inputs, units = (state.operand(each, dtype) for each in op.args[2:4])
        biases = tuple(state.operand(each, dtype) for each in op.args[4:6] if each is not None)
        run = _run(graph, cell, graph.reshape(x, (1, *x.shape)), _Weights(inputs, units, biases), first, False)
        shape = op.results[0].shape
        ends = (graph.read(run.states, (number(k), run.last, *places(shape))) for k in range(cell.states))
        return tuple(graph.map(shape, each) for each in ends)

    return made


def _turned(graph: Values, node: Node) -> Node:
    """The first two dimensions the other way round."""
    one, other, *rest = node.shape
    i, j, *k = places((other, one, *rest))
    return graph.map((other, one, *rest), graph.read(node, (j, i, *k)))


RECURRENT: dict[str, Lower] = {
    "lstm": _recurrent(Cell(4, 2, _lstm)), "gru": _recurrent(Cell(3, 1, _gru)),
    "lstm_cell": _step(Cell(4, 2, _lstm)), "gru_cell": _step(Cell(3, 1, _gru)),
    "rnn_tanh_cell": _step(Cell(1, 1, _plain("tanh"))), "rnn_relu_cell": _step(Cell(1, 1, _plain("relu"))),
    "rnn_tanh": _recurrent(Cell(1, 1, _plain("tanh"))), "rnn_relu": _recurrent(Cell(1, 1, _plain("relu"))),
}  # fmt: skip
