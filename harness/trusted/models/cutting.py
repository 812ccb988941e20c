"""The cutting job: a captured model's regions as modules of their own, exported with the inputs that they met."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import torch
from torch.export.passes import move_to_device_pass

from harness.nouns.errors import UserError
from harness.trusted.facts.recurrent_shapes import without_steps
from harness.trusted.models.exporting import Exported, export_model
from harness.trusted.reference import Reference
from harness.wire.job import CutJob, RegionCut

MOST_KEPT = 16 << 20
"""Bytes of an input that are written down: a model's values may have gigabytes, and each task reads its own anew."""
_PLAIN = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
_CHANGED = "The model computes by other operations than when it was captured."


def cut(job: CutJob) -> dict[str, Any]:
    """Writes each region's program and inputs into a folder of its name, below the present one. Raises `UserError`."""
    torch.backends.mha.set_fastpath_enabled(False)
    reference = Reference(job.source, job.name, torch.device(job.device), variant=job.variant)
    inputs = reference.inputs(reference.given_seed or 0)
    with torch.no_grad():
        for exported in export_model(reference, inputs)[0]:
            regions = [region for region in job.regions if region.part == exported.path]
            values = _values(exported, {name for region in regions for name in (*region.inputs, *region.weights)})
            for region in regions:
                _write(exported, region, values, job.program, job.inputs)
    missing = [region.name for region in job.regions if not Path(region.name).is_dir()]
    if missing:
        raise UserError(f"{job.name}: {', '.join(missing)} could not be cut out. {_CHANGED}", "Capture it again.")
    return {}


def module_of(exported: Exported, region: RegionCut, values: dict[str, torch.Tensor]) -> torch.fx.GraphModule:
    """The region's operations alone: `x0` on are its inputs, `w0` on its weights. Raises `UserError`."""
    graph, root = torch.fx.Graph(), torch.nn.Module()
    known = {name: graph.placeholder(f"x{k}") for k, name in enumerate(region.inputs)}
    for k, name in enumerate(region.weights):
        weight = values[name].detach()
        if weight.is_floating_point():
            root.register_parameter(f"w{k}", torch.nn.Parameter(weight, requires_grad=False))
        else:
            root.register_buffer(f"w{k}", weight)
        known[name] = graph.get_attr(f"w{k}")
    wanted = set(region.operations)
    for node in exported.program.graph_module.graph.nodes:
        source = node.args[0] if node.target is operator.getitem else node
        if source.name in wanted and _name(node) not in known:
            known[_name(node)] = graph.node_copy(node, lambda each: known[_name(each)])
    graph.output(tuple(known[name] for name in region.outputs) if len(region.outputs) > 1 else known[region.outputs[0]])
    return torch.fx.GraphModule(root, graph)


def _write(exported: Exported, region: RegionCut, values: dict[str, torch.Tensor], program: str, inputs: str) -> None:
    folder = Path(region.name)
    folder.mkdir()
    given = tuple(_alone(values[name]) for name in region.inputs)
    try:
        with without_steps():
            made = torch.export.export(module_of(exported, region, values).eval(), given)
    except (KeyError, RuntimeError) as error:
        raise UserError(f"{region.name} could not be cut out: {error}. {_CHANGED}", "Capture it again.") from error
    torch.export.save(move_to_device_pass(made, "cpu"), folder / program)
    torch.save(tuple(map(kept_of, given)), folder / inputs)


def kept_of(value: torch.Tensor) -> torch.Tensor | dict[str, Any]:
    """What a task needs of an input: all of it, or, of a large one of no structure, its beginning along one axis.

    The task's file makes the whole of that again, of the same elements.
    """
    square = value.ndim > 1 and value.shape[-1] == value.shape[-2]
    axes = range(value.ndim - 2 if square else value.ndim - 1)
    size = value.numel() * value.element_size()
    axis = max(axes, key=lambda each: value.shape[each], default=None)
    if size <= MOST_KEPT or axis is None or value.dtype not in _PLAIN or _is_structured(value):
        return value.cpu()
    length = max(1, MOST_KEPT * value.shape[axis] // size)
    if 2 * length > value.shape[axis]:
        return value.cpu()
    piece = value.narrow(axis, 0, length).contiguous().cpu()
    mixed = [*(axes if square else range(value.ndim))]
    return {"piece": piece, "axis": axis, "shape": [*value.shape], "strides": [*value.stride()], "mixed": mixed}


def _is_structured(value: torch.Tensor) -> bool:
    """Of two values, as masks are, or in order along its rows, as positions are."""
    low, high = value.aminmax()
    if bool(((value == low) | (value == high)).all()):
        return True
    later, sooner = value[..., 1:], value[..., :-1]
    return bool((later >= sooner).all() or (later <= sooner).all())


def _values(exported: Exported, wanted: set[str]) -> dict[str, torch.Tensor]:
    """These values in one run of the program."""
    run = _Keeping(exported.program.graph_module, wanted)
    run.run(*exported.arguments)
    return run.kept


class _Keeping(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, wanted: set[str]) -> None:
        super().__init__(module)
        self._wanted = wanted
        self.kept: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Keeps the wanted values."""
        result = super().run_node(n)
        parts = {f"{n.name}.{k}": part for k, part in enumerate(result)} if isinstance(result, tuple | list) else {}
        self.kept |= {name: value for name, value in ({n.name: result} | parts).items() if name in self._wanted}
        return result


def _name(node: torch.fx.Node) -> str:
    if node.target is operator.getitem:
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        return f"{source.name}.{index}"
    return node.name


def _alone(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape, strides and elements in memory of its own."""
    reach = 1 + sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
    if reach < value.numel():
        return value.detach().clone()
    place = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return place.copy_(value.detach())
