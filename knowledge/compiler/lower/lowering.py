"""Turns traced operations into values, one an output of the module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.nouns.aten import ALIASING
from knowledge.compiler.ir import dtypes
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.index import Axis, number, places
from knowledge.compiler.ir.nodes import Value, Values
from knowledge.compiler.ir.sizes import real
from knowledge.compiler.lower.looping import gathered, looped
from knowledge.compiler.lower.rolling import Loop, rolled
from knowledge.compiler.lower.schemas import completed
from knowledge.compiler.lower.writes import aliases
from knowledge.compiler.problem import Argument, DTypeArg, Op, Problem, Ref, Tensor, base_name, reads

Lower = Callable[["Lowering", Op], "Node | tuple[Node, ...]"]

# Checks that the tracer leaves in the program.
WITHOUT_EFFECT = frozenset(("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range"))


@dataclass
class Lowering:
    """The values known so far. Operand numbers become constants of the type that the operation computes in.

    `changed` names, for each value that an in-place write made stale, the operation that wrote. `traced` are the
    arguments and results as the trace has them; `unmade` the results that a lowering does not make, with its operation.
    `steps` are those of loops, each a step of a value, and `loops` the axes of all loops so far.
    """

    graph: Values
    values: dict[str, Node] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    traced: dict[str, Tensor] = field(default_factory=dict)
    unmade: dict[str, str] = field(default_factory=dict)
    steps: dict[str, tuple[Value, int]] = field(default_factory=dict)
    loops: list[Axis] = field(default_factory=list)

    def argument(self, op: Op, position: int, name: str) -> Argument:
        """An argument by position, or by name where the schema has it by name; None where the overload has none."""
        return op.args[position] if position < len(op.args) else op.kwargs.get(name)

    def value(self, argument: Argument) -> Node:
        """The node an argument refers to; a bare number becomes a float64, int64 or bool constant."""
        if isinstance(argument, Ref):
            if argument.ref in self.changed:
                raise UnwritableError(f"an in-place write that other values may see ({self.changed[argument.ref]})")
            if argument.ref in self.unmade:
                raise UnwritableError(f"{self.unmade[argument.ref]}'s result {argument.ref}")
            if argument.ref not in self.values and argument.ref in self.steps:
                of, step = self.steps[argument.ref]
                body = self.graph.read(of, (number(step), *places(of.shape[1:])))
                self.values[argument.ref] = self.graph.map(of.shape[1:], body)
            if argument.ref not in self.values:
                raise UnwritableError(f"{argument.ref}, which the trace does not define")
            return self.values[argument.ref]
        if isinstance(argument, bool):
            return self.graph.const(argument, "bool")
        if isinstance(argument, int | float):
            return self.graph.const(argument, "int64" if isinstance(argument, int) else "float64")
        raise UnwritableError(f"an operand {argument!r}")

    def traced_of(self, argument: Argument) -> Tensor | None:
        """An operand's shape, strides and type in the trace; None of a number."""
        return self.traced.get(argument.ref) if isinstance(argument, Ref) else None

    def operand(self, argument: Argument, dtype: str) -> Node:
        """An operand, converted to `dtype`."""
        return self.cast(self.value(argument), dtype)

    def cast(self, node: Node, dtype: str) -> Node:
        """Convert to another element type."""
        if node.dtype == dtype:
            return node
        if node.kind == "const":
            (number,) = node.payload
            kind = bool if dtype == "bool" else real if dtypes.is_float(dtype) else int
            return self.graph.const(kind(number), dtype)
        return self.graph.compute("cast", dtype, node)

    def promoted(self, *arguments: Argument) -> str:
        """The type that torch compares these operands in."""
        tensors: list[str] = []
        zero_dim: list[str] = []
        numbers: list[float | int | bool] = []
        for argument in arguments:
            node = self.value(argument)
            if not isinstance(argument, Ref) or node.kind == "scalar":
                numbers.append({"bool": True, "int64": 1}.get(node.dtype, 1.0))
            else:
                (tensors if node.shape else zero_dim).append(node.dtype)
        return dtypes.promote(tensors, zero_dim, numbers)


@dataclass(frozen=True)
class Lowered:
    """The module as expressions: the node that each output tensor holds."""

    graph: Values
    outputs: tuple[tuple[Tensor, Node], ...]
    operations: tuple[str, ...]


def live(problem: Problem) -> list[Op]:
    """The operations that an output comes from, and all that write in place."""
    return [each for each in _live(problem.ops, problem.returns) if isinstance(each, Op)]


def _live(items: Sequence[Op | Loop], returns: Iterable[str]) -> list[Op | Loop]:
    """The same of operations and loops; of a loop as much as is asked for."""
    wanted: set[str] = {*returns}
    kept: list[Op | Loop] = []
    for each in reversed(items):
        if isinstance(each, Loop):
            if not wanted.isdisjoint(each.shows):
                kept.append(each.showing(wanted))
                wanted.update(kept[-1].reads)  # type: ignore[union-attr]
        elif base_name(each.target).endswith("_") or not wanted.isdisjoint(result.name for result in each.results):
            wanted.update(reads(each))
            kept.append(each)
    return kept[::-1]


def lower(problem: Problem, table: Mapping[str, Lower], graph: Values) -> Lowered:
    """The outputs as expressions of a graph.

    Raises `UnwritableError` naming what has no place in `table` or cannot be written.
    """
    state = Lowering(graph)
    for given in (*problem.inputs, *problem.parameters):
        state.values[given.name] = state.graph.load(given) if isinstance(given, Tensor) else state.graph.scalar(given)
        if isinstance(given, Tensor):
            state.traced[given.name] = given
    for each in _live(rolled(problem), problem.returns):
        if isinstance(each, Loop):
            looped(state, each, lambda inside, op: _apply(inside, completed(op), table))
        else:
            _apply(state, gathered(state, completed(each)), table)
    outputs = []
    for tensor, name in zip(problem.outputs, problem.returns, strict=True):
        node = state.cast(state.value(Ref(ref=name)), tensor.dtype)
        outputs.append((tensor, graph.expand(node, tensor.shape)))
    return Lowered(state.graph, tuple(outputs), tuple(op.target for op in problem.ops))


def _apply(state: Lowering, op: Op, table: Mapping[str, Lower]) -> None:
    name = base_name(op.target)
    if name in WITHOUT_EFFECT:
        return
    in_place = name.endswith("_") and name[:-1] in table
    lowering = table.get(name[:-1] if in_place else name)
    if lowering is None:
        raise UnwritableError(op.target)
    state.graph.origin = op.target.removesuffix(".default")
    made = lowering(state, op)
    nodes = made if isinstance(made, tuple) else (made,)
    for result, node in zip(op.results, nodes, strict=False):
        # What is written in place takes the type of the operand.
        kept = state.cast(node, result.dtype) if in_place else node
        state.values[result.name] = _as_traced(state, op, kept, result)
        state.graph.results |= {id(kept), id(state.values[result.name])}
        state.traced[result.name] = result
    for result in op.results[len(nodes) :]:
        state.unmade[result.name] = op.target
    for alias, source in aliases(op):
        state.roots[alias] = state.roots.get(source, source)
    if in_place and name[:-1] in ALIASING and isinstance(op.args[0], Ref):
        state.values[op.args[0].ref] = state.values[op.results[0].name]
    elif in_place:
        _overwrite(state, op, state.values[op.results[0].name])


def _as_traced(state: Lowering, op: Op, node: Node, result: Tensor) -> Node:
    """The result in the shape that the trace tells: a constant among the operands has lost its own."""
    constant = any(isinstance(each, Ref) and state.value(each).uniform for each in op.args)
    if node.dtype != result.dtype or not (node.uniform or node.shape == result.shape or constant):
        raise UnwritableError(f"{op.target} as {result.dtype}{list(result.shape)}")
    return state.graph.expand(node, result.shape)


def _overwrite(state: Lowering, op: Op, node: Node) -> None:
    """The operand of an in-place operation holds the result from now on; values sharing its storage are lost."""
    target = op.args[0]
    if not isinstance(target, Ref):
        raise UnwritableError(op.target)
    before = state.values[target.ref]
    if before.shape != node.shape and not (before.uniform or node.uniform):
        raise UnwritableError(f"{op.target} whose result has another shape than its operand")
    root = state.roots.get(target.ref, target.ref)
    results = {result.name for result in op.results}
    for name in [name for name in state.values if state.roots.get(name, name) == root]:
        del state.values[name]
        state.changed[name] = op.target
    for name in {target.ref, *results}:
        state.changed.pop(name, None)
        state.values[name] = node
        state.roots[name] = root


def by_index(lower: Lower) -> Lower:
    """A lowering that reads its operands by index: a constant among them has the shape that the trace tells."""

    def lowered(state: Lowering, op: Op) -> Node | tuple[Node, ...]:
        for name in reads(op):
            node, traced = state.values.get(name), state.traced.get(name)
            if node is not None and node.uniform and traced is not None:
                state.values[name] = state.graph.map(traced.shape, node)
        return lower(state, op)

    return lowered


def dtype_argument(argument: Argument, default: str) -> str:
    """An element type among the arguments, or the default where none was given."""
    return argument.dtype if isinstance(argument, DTypeArg) else default
