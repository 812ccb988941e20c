"""Which inputs name places of tables of a fixed size: eager refuses what names none."""

from __future__ import annotations

from collections.abc import Iterator

from harness.nouns.aten import ALONG_AN_AXIS, of_kinds
from harness.nouns.devices import on_gpu
from harness.nouns.task import Argument, Ref, Signature, Task, TensorSpec, TracedOp

_SAME_VALUES = of_kinds("reshape", "permute", "expand", "alias", "cast") | {"clone", "contiguous"}
_SIGNED = ("int64", "int32", "int16", "int8")

Place = tuple[int, int, int]
"""An argument by its number, the least place and the one after the last."""


def places(task: Task, device: str) -> tuple[Place, ...]:
    """Inputs that the forward reads or writes tables at: parameters and buffers, and where there is but one workload
    whatever else. None on a GPU, where eager looks only during a launch.
    """
    if task.program is None or on_gpu(device):
        return ()
    signature = task.signature
    inputs = [spec for spec in _tensors(signature) if spec.dtype in _SIGNED]
    sized = len(task.workloads) == 1
    tables = {spec.name: spec.shape for spec in (*signature.parameters, *(_tensors(signature) if sized else ()))}
    known = {spec.name: spec.name for spec in inputs}
    found: dict[str, tuple[int, int]] = {}
    for op in task.program.ops:
        name = op.target.split(".")[1] if op.target.count(".") else ""
        first = _ref(op.args[0]) if op.args else ""
        if name in _SAME_VALUES and first in known and op.results[0].dtype in _SIGNED:
            known[op.results[0].name] = known[first]
        if sized:
            tables |= {spec.name: spec.shape for spec in op.results}
        for index, low, high in _named(op, name.rstrip("_"), tables.get(first, ())):
            if index in known:
                least, most = found.get(known[index], (low, high))
                found[known[index]] = max(low, least), min(high, most)
    order = [spec.name for spec in signature.inputs]
    return tuple((order.index(name), *found[name]) for name in order if name in found)


def _named(op: TracedOp, name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, int, int]]:
    """The indices of an operation on a table of this shape, each with the least and the end of what it may hold."""
    if not shape:
        return
    if name == "embedding":
        yield _ref(op.args[1]), 0, shape[0]
    elif name in ALONG_AN_AXIS and isinstance(op.args[1], int):
        yield _ref(op.args[2]), 0, shape[op.args[1]]
    elif name in ("index", "index_put") and isinstance(op.args[1], tuple):
        for index, extent in zip(op.args[1], shape, strict=False):
            yield _ref(index), -extent, extent


def _tensors(signature: Signature) -> list[TensorSpec]:
    return [spec for spec in signature.inputs if isinstance(spec, TensorSpec)]


def _ref(argument: Argument) -> str:
    return argument.ref if isinstance(argument, Ref) else ""
