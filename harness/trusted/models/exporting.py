"""A module as a flat graph of aten operations that change nothing in place; where that fails, the modules inside it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_flatten

from harness.trusted.facts.recurrent_shapes import without_steps
from harness.trusted.reference import Reference, Value

MOST_PARTS = 64
"""Modules that are captured one by one where the whole cannot be; a model of more has no part worth the time."""


@dataclass(frozen=True)
class Exported:
    """One module, its program, and the values of the program's placeholders in order."""

    path: str
    module: torch.nn.Module
    program: ExportedProgram
    arguments: list[Any]
    given: tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Failed:
    """A module that cannot be exported."""

    path: str
    module: torch.nn.Module
    reason: str


@dataclass(frozen=True)
class Call:
    """How a module was called."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def export_model(reference: Reference, inputs: list[Value]) -> tuple[list[Exported], list[Failed]]:
    """The whole model as one program, or the largest modules inside it that are; and those that are not."""
    args, kwargs = reference.arranged(inputs)
    call = Call(reference.model, args, kwargs)
    whole = _export("", call, reference.exported)
    if isinstance(whole, Exported):
        return [whole], []
    with torch.no_grad():
        calls = _calls(reference.model, args, kwargs)
    done: list[Exported] = []
    return done, [whole, *_inside("", reference.model, calls, done)]


def _inside(path: str, module: torch.nn.Module, calls: dict[str, Call], done: list[Exported]) -> Iterator[Failed]:
    """Exports the modules right inside one, and what is inside those that fail; yields the failures."""
    for name, child in module.named_children():
        below = f"{path}.{name}" if path else name
        call = calls.get(below)
        if len(done) >= MOST_PARTS:
            return
        if call is None:  # a list of modules, or one that was not called
            yield from _inside(below, child, calls, done)
            continue
        exported = _export(below, call)
        if isinstance(exported, Exported):
            done.append(exported)
            continue
        if next(child.children(), None) is not None:
            yield from _inside(below, child, calls, done)
        yield exported


def _calls(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Call]:
    """The first call of every module inside, by its path."""
    seen: dict[str, Call] = {}
    handles = [
        module.register_forward_pre_hook(_noting(path, seen), with_kwargs=True)
        for path, module in model.named_modules()
        if path
    ]
    try:
        model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _noting(path: str, seen: dict[str, Call]) -> Any:
    def note(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.setdefault(path, Call(module, args, kwargs))

    return note


def _export(path: str, call: Call, already: ExportedProgram | None = None) -> Exported | Failed:
    """Functionalized, so that every value is written once; no operation is taken apart."""
    try:
        with torch.no_grad(), without_steps(), warnings.catch_warnings(action="ignore"):
            program = already or torch.export.export(call.module, call.args, call.kwargs, strict=False)
            program = program.run_decompositions({})
            drop_copies(program.graph_module)
            return Exported(path, call.module, program, _arguments(program, call), (call.args, call.kwargs))
    except Exception as error:  # noqa: BLE001 (export raises many kinds; each says what it cannot follow)
        return Failed(path, call.module, _short(error))


def _arguments(program: ExportedProgram, call: Call) -> list[Any]:
    """The values of the placeholders, weights first, as the graph's signature has them."""
    given = iter(tree_flatten((call.args, call.kwargs))[0])
    held: dict[str, Any] = {**program.constants, **program.state_dict}
    return [
        next(given) if spec.kind is InputKind.USER_INPUT else held[str(spec.target)]
        for spec in program.graph_signature.input_specs
    ]


def drop_copies(module: torch.fx.GraphModule) -> None:
    """Takes out what dropout leaves behind in evaluation mode: copies that nobody can tell from what they copy.

    A copy of the model's own inputs or weights stays: whoever gets it may write to it.
    """
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten.clone.default and not node.kwargs:
            source = node.args[0]
            if _is_made(source) and source.meta["val"].stride() == node.meta["val"].stride():
                node.replace_all_uses_with(source)
                module.graph.erase_node(node)
    module.recompile()


def _is_made(node: torch.fx.Node) -> bool:
    """Whether an operation wrote a value's memory: it is none of the program's arguments, nor a view of one."""
    while isinstance(node.target, torch._ops.OpOverload) and any(
        each.alias_info for each in node.target._schema.returns
    ):
        node = node.all_input_nodes[0]
    return node.op != "placeholder"


def _short(error: Exception) -> str:
    """The first lines of what export says, without its advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(" ".join(lines[:2]).split())[:240] or type(error).__name__
