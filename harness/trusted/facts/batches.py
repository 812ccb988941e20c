"""The batches job: at which batches beside its own a file's forward is the same, and what it is given there."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any

import torch

from harness.nouns.batches import Batches
from harness.nouns.errors import UserError
from harness.nouns.task import Traced
from harness.trusted.facts.describing import QUICK_BYTES, QUICK_FLOPS, Seen, look, program_of, require_one_entry
from harness.trusted.facts.tracing import require_same_between
from harness.trusted.reference import Reference

LEAST = 8
"""How far batches go at least; else to twice the file's own."""


def find_batches(source: str, name: str) -> dict[str, Any]:
    """See `Batches`, as JSON-ready data. Raises `UserError` for a file that is no usable task."""
    variants = Reference.variants(source, name)
    own = look(source, name, variants[0])
    batch = next((each.shape[0] for each in own.inputs if isinstance(each, torch.Tensor) and each.dim()), 0)
    if why := _refusal(own, len(variants), batch):
        return Batches(own=batch, refused=why).model_dump(mode="json")
    try:
        found = [each for size in _sizes(source, batch) if (each := _at(own, source, size))]
        if not found:
            raise UserError("other batches would take too much to be tried")
        odd = _between(source, batch)
        other = next((each for each in found if each.variant.batch == odd), found[-1])
        require_same_between(other.reference, other.inputs, max(batch, *(each.variant.batch or 0 for each in found)))
    except UserError as error:
        refused = error.problem.removeprefix(f"{name}: ").rstrip(".")
        return Batches(own=batch, refused=refused).model_dump(mode="json")
    program = program_of(other, one_shape=False)[0]
    workloads = tuple(each.workload for each in found)
    traced = Traced(signature=other.signature, program=program) if program else None
    return Batches(own=batch, workloads=workloads, traced=traced).model_dump(mode="json")


def _refusal(own: Seen, variants: int, batch: int) -> str:
    if variants > 1:
        return "the file declares its sizes itself"
    if own.reference.direction != "forward":
        return "a kernel with gradients is for its own sizes"
    if own.reference.exported is not None:
        return "a live module's program is exported for its own sizes"
    return "" if batch else "no input has a batch"


def _sizes(source: str, batch: int) -> list[int]:
    """Batches to try, increasing. One is drawn by the file's text."""
    high = max(LEAST, 2 * batch)
    return sorted({1, batch // 2, batch - 1, batch + 1, _between(source, batch), high} - {0, batch})


def _between(source: str, batch: int) -> int:
    """An odd one from above the file's own to the largest."""
    drawn = random.Random(int(sha256(source.encode()).hexdigest()[:8], 16))
    return drawn.randrange(batch + 1 + batch % 2, max(LEAST, 2 * batch), 2)


def _at(own: Seen, source: str, size: int) -> Seen | None:
    """The file at that batch; None where that is too much to be tried. Raises `UserError` where it takes none such."""
    name = own.reference.name
    try:
        other = look(source, name, own.variant.model_copy(update={"name": f"batch {size}", "batch": size}))
        require_one_entry(own, other)
    except UserError as error:
        raise UserError(
            f"PyTorch's forward itself takes no batch of {size} ({error.problem.removeprefix(f'{name}: ')})"
        ) from error
    fits = other.nbytes <= max(own.nbytes, QUICK_BYTES) and other.flops <= max(own.flops, QUICK_FLOPS)
    return other if fits else None
