"""The drawing job: a task file's own inputs and weights, written down for a process that has no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harness.nouns.task import Variant
from harness.trusted.reference import Reference
from harness.wire.layout import values_file

KEPT_BYTES = 512 << 20
"""Of all tensors together. Of larger ones the first elements are kept, and whoever reads them repeats those."""
_PIECE = 4096


def draw(payload: dict[str, Any]) -> dict[str, Any]:
    """Write each tensor's bytes, as they lie in its storage, into this job's folder; by its place among the arguments.

    `payload`: source, name, variant. Raises `UserError` for whatever the file does that a task may not.
    """
    reference = Reference(payload["source"], payload["name"], variant=Variant.model_validate(payload["variant"]))
    values = [*reference.inputs(seed=0), *reference.parameters().values()]
    tensors = {place: value for place, value in enumerate(values) if isinstance(value, torch.Tensor)}
    most = max(_PIECE, KEPT_BYTES // max(1, len(tensors)) // _PIECE * _PIECE)
    for place, tensor in tensors.items():
        Path(values_file(place)).write_bytes(storage_bytes(tensor, most))
    return {"tensors": len(tensors)}


def storage_bytes(tensor: torch.Tensor, most: int) -> bytes:
    """The bytes from a tensor's first element to its last, gaps included: at most `most`, whole elements."""
    reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    elements = min(1 + reach, most // tensor.element_size())
    flat = tensor.detach().as_strided((elements,), (1,))
    return flat.view(torch.uint8).numpy().tobytes()
