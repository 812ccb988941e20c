"""Results that share memory with an argument: views, as eager gives them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.nouns.task import View
from harness.trusted.reference import Reference, Value


def views(
    reference: Reference, names: Sequence[str], inputs: Sequence[Value], outputs: Sequence[torch.Tensor]
) -> list[View | None]:
    """Of each output where it lies within an input or parameter; None for one with memory or a type of its own, or
    of an argument whose elements share memory.

    A forward that writes a state has none: what it returned may have been written since.
    """
    given = dict(zip(names, inputs, strict=True)) | reference.parameters()
    owners: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            owners.setdefault(value.untyped_storage()._cdata, []).append((name, value))
    found = [_view(owners.get(output.untyped_storage()._cdata, []), output) for output in outputs]
    if reference.state or reference.gradients is not None or not any(found):
        return [None] * len(found)
    kept = _differentiable(reference, inputs)
    return [each and each.model_copy(update={"detached": not kept[place]}) for place, each in enumerate(found)]


def _view(owners: Sequence[tuple[str, torch.Tensor]], output: torch.Tensor) -> View | None:
    """Within the only argument in that memory."""
    if len(owners) != 1 or owners[0][1].dtype != output.dtype:
        return None
    ((name, base),) = owners
    offset = int(output.storage_offset() - base.storage_offset())
    repeats = any(step == 0 and extent > 1 for extent, step in zip(base.shape, base.stride(), strict=True))
    return None if repeats or offset < 0 else View(of=name, strides=tuple(output.stride()), offset=offset)


def _differentiable(reference: Reference, inputs: Sequence[Value]) -> list[bool]:
    """Of each output whether gradients go through it."""
    wanting = [
        each.detach().requires_grad_() if isinstance(each, torch.Tensor) and each.is_floating_point() else each
        for each in inputs
    ]
    given, named = reference.arranged(wanting)
    with torch.enable_grad():
        outputs = reference.opened(reference.guarded("forward", lambda: reference.model(*given, **named)))
    return [each.requires_grad or not each.is_floating_point() for each in outputs]
