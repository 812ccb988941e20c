"""Kernels put into a graph of Dynamo's: it is traced as the kernels' patterns were, and searched for them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from . import archive
from .backend import Compiled
from .kernels_folder import Kernel, Refused, kernels_of
from .matching import replace
from .tracing import CONSTANT, Dynamo, Untraceable, results_of, traced

_LOG = logging.getLogger("cutegen")
_TO_COPY = torch.ops.aten._to_copy.default
MOST_NUMBERS = 1024
"""Of a tensor that a model makes of numbers in each call."""
Tell = Callable[[str], None]


def place(
    gm: torch.fx.GraphModule, folders: Sequence[Path] | None, tell: Tell
) -> tuple[torch.fx.GraphModule, Compiled]:
    """The graph with the folders' kernels where it computes what they do; itself where that is nowhere.

    Without folders those of the user's archive, of which nothing is told: nobody has named them.
    """
    device = _device(gm)
    if device is None:
        return gm, Compiled(reasons=("it has no tensor on a processor or GPU",))
    kept = archive.entries(archive.device_name(device.type, device.index)) if folders is None else []
    kernels = list(_usable(folders, device, tell)) if folders is not None else []
    if not kernels and not kept:
        return gm, Compiled(reasons=(f"the {'archive' if folders is None else 'folder'} has no kernel for it",))
    try:
        graph, held = _traced(gm)
    except Untraceable as error:
        _LOG.info("no kernel is placed in a graph: %s", error)
        return gm, Compiled(reasons=(str(error),))
    if kept:
        kernels = list(_usable(archive.fitting(kept, _kinds(graph)), device, _LOG.info))
    placed = Counter(replace(graph, [pattern for each in kernels for pattern in each.patterns]))
    unused = tuple(f"{each.name} fits nowhere in it" for each in kernels if each.name not in placed)
    _LOG.info("kernels placed in a graph: %s", dict(placed) or "none")
    return (_module(gm, graph, held) if placed else gm), Compiled(placed, unused)


def _kinds(graph: torch.fx.Graph) -> frozenset[str]:
    """The types, sizes and strides that occur among its values, where they are known."""
    values = [each for node in graph.nodes for each in tree_leaves(node.meta.get("val"))]
    tensors = [each for each in values if isinstance(each, torch.Tensor)]
    return frozenset(archive.kind(each.dtype, each.shape, each.stride()) for each in tensors)


def _usable(folders: Iterable[Path], device: torch.device, tell: Tell) -> list[Kernel]:
    """The kernels whose libraries are loaded by now: what cannot be is told here, and not by a call that fails."""
    found: list[Kernel] = []
    for folder in folders:
        for each in kernels_of(folder, device.type):
            why = each.said if isinstance(each, Refused) else _unloadable(each, device)
            if why:
                tell(f"{why}; Inductor compiles without it")
            elif isinstance(each, Kernel):
                found.append(each)
    return found


def _unloadable(kernel: Kernel, device: torch.device) -> str:
    try:
        kernel.held._entry(device)
    except Exception as error:  # noqa: BLE001 (compilers and loaders raise many kinds; each is told)
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"the kernel {kernel.name} cannot be loaded on this machine: {first}"
    return ""


def _device(gm: torch.fx.GraphModule) -> torch.device | None:
    values = (node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder"))
    devices = {each.device for each in values if isinstance(each, torch.Tensor) and each.dim()}
    known = sorted((each for each in devices if each.type in ("cpu", "cuda")), key=lambda each: each.type == "cpu")
    return known[0] if known else None


def _traced(gm: torch.fx.GraphModule) -> tuple[torch.fx.Graph, list[str]]:
    """Its aten operations, and the names of the tensors that it holds, which are further placeholders."""
    given = list(gm.graph.find_nodes(op="placeholder"))
    if any(_unbacked(node) for node in gm.graph.nodes):
        raise Untraceable("a size in it follows from values")
    device = _device(gm)
    if device is not None and torch.is_autocast_enabled(device.type):
        raise Untraceable("it computes under autocast")
    held = list(dict.fromkeys(node.target for node in gm.graph.find_nodes(op="get_attr")))
    tensors = [_attribute(gm, name) for name in held]
    if not all(isinstance(each, torch.Tensor) for each in tensors):
        raise Untraceable("it has operators of higher order")
    values = [node.meta.get("example_value") for node in given]
    mode = next((each.fake_mode for each in values if hasattr(each, "fake_mode")), None)
    if mode is None or None in values:
        raise Untraceable("its inputs are not known")
    values += [mode.from_tensor(each) for each in tensors]
    count = len(values) - len(held)
    with mode:
        graph = traced(Dynamo(gm, held).run_on, values)
    constants = [each.meta[CONSTANT] for each in graph.find_nodes(op="get_attr")]
    if any(isinstance(each, FakeTensor) or each.numel() > MOST_NUMBERS for each in constants):
        raise Untraceable("it makes a tensor of many numbers, or of unknown ones")
    if any(each.users for each in list(graph.find_nodes(op="placeholder"))[:count] if "val" not in each.meta):
        raise Untraceable("its inputs are not known")
    return graph, held


def _unbacked(node: torch.fx.Node) -> bool:
    return bool(free_unbacked_symbols(node.meta.get("example_value")))


def _attribute(gm: torch.fx.GraphModule, name: str) -> Any:
    found: Any = gm
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _module(gm: torch.fx.GraphModule, graph: torch.fx.Graph, held: list[str]) -> torch.fx.GraphModule:
    """The graph as Dynamo's own looks: with its inputs' names and sources, and its tensors within."""
    _drop_conversions(graph)
    theirs, mine = list(gm.graph.find_nodes(op="placeholder")), list(graph.find_nodes(op="placeholder"))
    for old, new in zip(theirs, mine, strict=False):
        new.target, new.name, new.type, new.meta = old.target, old.name, old.type, dict(old.meta)
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    for node in list(graph.find_nodes(op="get_attr")):  # as Dynamo's graph has it: a tensor made of numbers
        value = node.meta[CONSTANT]
        with graph.inserting_before(node):
            fresh = graph.call_function(torch.tensor, (value.tolist(),), {"dtype": value.dtype, "device": value.device})
        node.replace_all_uses_with(fresh)
        graph.erase_node(node)
    graph.owning_module = gm  # whose tensors the nodes below name
    for name, new in zip(held, mine[len(theirs) :], strict=True):
        with graph.inserting_before(new):
            new.replace_all_uses_with(graph.get_attr(name))
        graph.erase_node(new)
    made = torch.fx.GraphModule(gm, graph, type(gm).__name__)
    # The same tensors under the same roof: Dynamo lets go of an optimizer's by taking them out of its own module.
    made._parameters, made._buffers = gm._parameters, gm._buffers
    made.meta = gm.meta
    for name, value in vars(gm).items():
        made.__dict__.setdefault(name, value)
    return made


def _drop_conversions(graph: torch.fx.Graph) -> None:
    """Conversions to the type that a value has are copies only where they were traced; here they are none again."""
    returned = set(results_of(graph))
    for node in list(graph.find_nodes(op="call_function", target=_TO_COPY)):
        source: Any = node.args[0]
        value, made = source.meta.get("val"), node.meta["val"]
        if node in returned or not isinstance(value, torch.Tensor) or "memory_format" in node.kwargs:
            continue
        if (value.dtype, value.device, value.stride()) == (made.dtype, made.device, made.stride()):
            node.replace_all_uses_with(source)
            graph.erase_node(node)
