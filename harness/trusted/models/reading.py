"""An exported graph as plain data: values by their nodes' names, and what hinders a kernel in an operation's place."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_leaves

from harness.nouns.capture import Operation, Part
from harness.nouns.task import TensorSpec, TracedOp
from harness.trusted.facts.programs import Reader, UntraceableError, spec_of
from harness.trusted.facts.recurrent_shapes import by_shapes
from harness.trusted.facts.watching import draws, flop_counter
from harness.trusted.keeping import gives_nothing
from harness.trusted.models.exporting import Exported

_SIZES_BY_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def part_of(exported: Exported, ms: Mapping[str, float]) -> Part:
    """The part, with the time of each node in `ms` by its name."""
    graph, signature = exported.program.graph_module.graph, exported.program.graph_signature
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    kinds = dict(zip(placeholders, (spec.kind for spec in signature.input_specs), strict=True))
    specs = {node: spec for node in placeholders if (spec := _spec(node)) is not None}
    held = {node.name for node in specs}
    reader = _ModelReader({node.name: node.name for node in placeholders}, held, exported.path, ms)
    returned = next(node for node in graph.nodes if node.op == "output").args[0]
    operations = tuple(reader.operations(node for node in graph.nodes if node.op == "call_function"))
    return Part(
        path=exported.path,
        inputs=tuple(spec for node, spec in specs.items() if kinds[node] is InputKind.USER_INPUT),
        weights=tuple(spec for node, spec in specs.items() if kinds[node] is not InputKind.USER_INPUT),
        operations=operations,
        outputs=tuple(reader.names[node.name] for node in returned if isinstance(node, torch.fx.Node)),
    )


class _ModelReader(Reader):
    """Reads on where an operation is none that a task could have: that one is hindered, and who reads what it gives.

    `held` are the names of the values that a task could have.
    """

    def __init__(self, known: dict[str, str], held: set[str], path: str, ms: Mapping[str, float]) -> None:
        super().__init__(known, "export")
        self._held, self._path, self._ms = held, path, ms

    def operations(self, nodes: Iterator[torch.fx.Node]) -> Iterator[Operation]:
        for node in nodes:
            if node.target is operator.getitem:
                self.picked(node)
                continue
            if gives_nothing(node):  # a check that export adds, of types and devices that are known
                continue
            self.names[node.name] = node.name
            module, kind = _module(node, self._path)
            op, hindrance = self._read(node)
            yield Operation(
                op=op,
                node=node.name,
                module=module,
                module_type=kind,
                ms=self._ms.get(node.name, 0.0),
                flops=_flops(node) if op.results else 0,
                hindrance=hindrance,
            )

    def _read(self, node: torch.fx.Node) -> tuple[TracedOp, str]:
        try:
            op = self.traced(node, node.name)
        except UntraceableError as error:
            reads = tuple(self.argument(each) for each in node.all_input_nodes)
            return TracedOp(target=str(node.target), args=reads, results=()), str(error)
        self._held.update(result.name for result in op.results)
        strange = [name for each in node.all_input_nodes if (name := self.names[each.name]) not in self._held]
        return op, f"no task could be given {strange[0]}, which it reads" if strange else _hindrance(node)


def _flops(node: torch.fx.Node) -> int:
    """Told on shapes alone. A multiply-add counts as two; what does not run on shapes is not counted."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    assert callable(node.target)
    mode = next((each.fake_mode for each in tree_leaves((args, kwargs)) if isinstance(each, FakeTensor)), None)
    if mode is None:
        return 0
    with mode, by_shapes(), flop_counter() as counter, suppress(Exception):
        node.target(*args, **kwargs)
    return int(counter.get_total_flops())


def _hindrance(node: torch.fx.Node) -> str:
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    if target.namespace != "aten":
        return "it is no operation of PyTorch's own"
    if target._schema.is_mutable:
        return "it writes to what it is given"
    if torch.Tag.nondeterministic_seeded in target.tags and draws(target, node.args, node.kwargs):
        return "it draws random numbers"
    if any(tag in target.tags for tag in _SIZES_BY_VALUES):
        return "its sizes follow from values"
    return ""


def _spec(node: torch.fx.Node) -> TensorSpec | None:
    value = node.meta.get("val")
    try:
        return spec_of(node.name, value) if isinstance(value, torch.Tensor) else None
    except UntraceableError:
        return None


def _module(node: torch.fx.Node, below: str) -> tuple[str, str]:
    """The path of the innermost module, from the model on, and its class."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    path, kind = next(reversed(stack.values()), ("", ""))
    path = ".".join(filter(None, (below, path)))
    return path, (kind if isinstance(kind, str) else kind.__qualname__).rpartition(".")[2]
