"""What a module keeps from call to call beside its parameters: tensors as plain attributes, and what it overwrites.

A kernel starts each call from what it is given. So what a forward overwrites before anything reads it is no state, and
goes unseen; what the call before left for this one has to be an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

Parts = Mapping[Any, Callable[..., Any]]
"""Decompositions, by the operation."""
Attributes = dict[torch.nn.Module, dict[str, Any]]
"""What modules have beside their parameters, buffers and submodules."""


def attributes_of(model: torch.nn.Module) -> Attributes:
    """All that its modules have now; the values themselves, not copies."""
    return {module: _plain(module) for module in model.modules()}


def _plain(module: torch.nn.Module) -> dict[str, Any]:
    registries = (module._parameters, module._buffers, module._modules)
    return {name: value for name, value in vars(module).items() if not any(value is each for each in registries)}


@contextmanager
def having(attributes: Attributes) -> Iterator[None]:
    """Its modules have these attributes while it lasts, and then again those that they had."""
    before = {module: _plain(module) for module in attributes}
    _give(attributes)
    try:
        yield
    finally:
        _give(before)


def _give(attributes: Attributes) -> None:
    for module, values in attributes.items():
        for name in _plain(module).keys() - values.keys():
            del module.__dict__[name]
        module.__dict__.update(values)


@contextmanager
def as_buffers(model: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Tensors that are plain attributes are buffers while it lasts, by their paths: a tracer sees writes to those."""
    found = [(path, module, name, value) for path, module in model.named_modules()
             for name, value in vars(module).items() if isinstance(value, torch.Tensor)]  # fmt: skip
    before = attributes_of(model)
    for _, module, name, value in found:
        del module.__dict__[name]
        module.register_buffer(name, value.detach(), persistent=False)
    try:
        yield {f"{path}.{name}" if path else name: value for path, _, name, value in found}
    finally:
        for _, module, name, _ in found:
            module._buffers.pop(name, None)
            module._non_persistent_buffers_set.discard(name)
        _give(before)


@contextmanager
def over_copies(
    model: torch.nn.Module, copies: Mapping[str, torch.Tensor], ties: Mapping[str, str] = MappingProxyType({})
) -> Iterator[None]:
    """These tensors stand in the places of parameters and buffers while it lasts, and the model's own ones then.

    `ties` are further names of a tensor, and its first one.
    """
    places = [(name, copies[name]) for name in copies] + [(tied, copies[first]) for tied, first in ties.items()
                                                          if first in copies]  # fmt: skip
    before = list[tuple[dict[str, Any], str, torch.Tensor]]()
    for name, copy in places:
        owner, _, leaf = name.rpartition(".")
        holder = model.get_submodule(owner)
        registry: dict[str, Any] = holder._parameters if leaf in holder._parameters else holder._buffers
        before.append((registry, leaf, registry[leaf]))
        registry[leaf] = (
            torch.nn.Parameter(copy, registry[leaf].requires_grad) if registry is holder._parameters else copy
        )
    try:
        yield
    finally:
        for registry, leaf, own in before:
            registry[leaf] = own


def number_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor with its values, which one without memory has only where it was made of a number."""
    if isinstance(tensor, FakeTensor):
        constant = getattr(tensor, "constant", None)
        return constant if isinstance(constant, torch.Tensor) else None
    return tensor


def without_writes(
    exported: ExportedProgram, assigned: Sequence[str], parts: Parts, state: Sequence[str] = ()
) -> tuple[ExportedProgram, set[str]]:
    """The program without its writes to what the module keeps, and the names of what it overwrites.

    Operations that `parts` has a decomposition for are decomposed.

    The last results are what the buffers `assigned` are after the call; in their place the program returns what those
    of `state` are then. What is read of a buffer after a write is what was written; reads before it stay reads of the
    buffer. An attribute that is written to in part is read as it was given: whether the rest matters is for those to
    see who call it twice. Raises `KeyError` for a state that the program does not write.
    """
    graph, written = exported.graph_module.graph, set[str]()
    if parts or state or _writes(exported) or any(map(_writes_to_part, graph.nodes)):
        for node in _copies(graph, torch.ops.aten.copy_.default):
            _fit(graph, node)
        exported.graph_module.recompile()
        exported = exported.run_decompositions(dict(parts))
        graph = exported.graph_module.graph
        for node in _copies(graph, torch.ops.aten.copy.default):
            node.replace_all_uses_with(node.args[1])  # type: ignore[arg-type]
    results = exported.graph_signature.output_specs
    (output,) = (node for node in graph.nodes if node.op == "output")
    pairs = list(zip(output.args[0], results, strict=True))
    kept = [node for node, spec in pairs if spec.kind is OutputKind.USER_OUTPUT]
    mutated = {str(spec.target): node for node, spec in pairs if spec.kind in _MUTATIONS}
    written |= {name for name, node in mutated.items() if not _in_part(node)}
    kept, after = kept[: len(kept) - len(assigned)], kept[len(kept) - len(assigned) :]
    given = {getattr(each.arg, "name", ""): str(each.target) for each in exported.graph_signature.input_specs}
    written |= {name for name, node in zip(assigned, after, strict=True) if given.get(_whole(node).name) != name}
    new = mutated | dict(zip(assigned, after, strict=True))
    output.args = ((*kept, *(new[name] for name in state)),)
    for node in [node for node in graph.nodes if gives_nothing(node)]:
        graph.erase_node(node)
    graph.eliminate_dead_code()
    return exported, written - {*state}


_MUTATIONS = (OutputKind.BUFFER_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", OutputKind.BUFFER_MUTATION))


def _writes(exported: ExportedProgram) -> bool:
    """Whether it writes to a buffer, or to a tensor that the module keeps elsewhere."""
    specs = exported.graph_signature.input_specs
    own = {getattr(each.arg, "name", "") for each in specs if each.kind is not InputKind.USER_INPUT}
    return any(_changes(node) and _whole(node).name in own for node in exported.graph_module.graph.nodes)


def _writes_to_part(node: torch.fx.Node) -> bool:
    """Whether it writes to a view, or to what others view: each then has what the other was written."""
    if not _changes(node) or not isinstance(node.args[0], torch.fx.Node):
        return False
    return any(isinstance(each.target, torch._ops.OpOverload) and each.target.is_view
               for each in (node.args[0], *node.args[0].users))  # fmt: skip


def _changes(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _in_part(node: torch.fx.Node) -> bool:
    name = str(node.target).split(".")[1] if isinstance(node.target, torch._ops.OpOverload) else ""
    return name.endswith("scatter") or name.startswith("index_")


_SAME = ("to", "_to_copy", "contiguous", "clone", "detach", "alias", "lift_fresh_copy")


def _whole(node: torch.fx.Node) -> torch.fx.Node:
    """Whose elements a node's are: behind views, conversions to its own type, and writes, which return their target."""
    while isinstance(node.target, torch._ops.OpOverload):
        first = node.args[0] if node.args else None
        if not isinstance(first, torch.fx.Node) or not (_changes(node) or node.target.is_view or _same(node, first)):
            break
        node = first
    return node


def _same(node: torch.fx.Node, first: torch.fx.Node) -> bool:
    return str(node.target).split(".")[1] in _SAME and node.meta["val"].dtype == first.meta["val"].dtype


def gives_nothing(node: torch.fx.Node) -> bool:
    """Whether it only checks something: of types and devices, which are known here."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and not target._schema.returns and not node.users


def _copies(graph: torch.fx.Graph, target: torch._ops.OpOverload) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.target is target and isinstance(node.args[1], torch.fx.Node)]


def _fit(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """What is copied gets the type and shape of where it goes: PyTorch forgets them where it leaves the write out."""
    source, (target, now) = node.args[1], (node.args[0], node.meta["val"])
    was = source.meta["val"]  # type: ignore[union-attr]
    with graph.inserting_before(node):
        if was.dtype != now.dtype:
            source = _added(graph, node, torch.ops.aten.to.dtype, source, now.dtype)
        if was.shape != now.shape:
            source = _added(graph, node, torch.ops.aten.expand.default, source, list(now.shape))
    node.args = (target, source)


def _added(graph: torch.fx.Graph, like: torch.fx.Node, target: Any, source: Any, wanted: object) -> torch.fx.Node:
    made = graph.call_function(target, (source, wanted))  # type: ignore[arg-type]
    made.meta = dict(like.meta, val=target(source.meta["val"], wanted))
    return made
