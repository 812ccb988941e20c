"""Where tensors that pass between kernels lie: in one piece of memory, which those that never meet share."""

from __future__ import annotations

from knowledge.playbook.problem import Tensor
from knowledge.playbook.sizes import Size
from knowledge.playbook.source_text import BYTES


def arena(lives: list[tuple[int, int, Tensor]]) -> tuple[dict[str, int], int]:
    """A place in bytes for each tensor, by the first and the last kernel that needs it, largest first; and the size."""
    if any(isinstance(tensor.numel, Size) for _, _, tensor in lives):
        return _one_after_the_other([tensor for _, _, tensor in lives])
    taken: list[tuple[int, int, int, int]] = []
    places: dict[str, int] = {}
    for first, last, tensor in sorted(lives, key=lambda life: -life[2].numel * BYTES[life[2].dtype]):
        size = _padded(tensor)
        place = 0
        for start, end, begins, ends in sorted(taken):
            if begins <= last and first <= ends and place < end and start < place + size:
                place = end
        places[tensor.name] = place
        taken.append((place, place + size, first, last))
    return places, max((end for _, end, _, _ in taken), default=0)


def _one_after_the_other(tensors: list[Tensor]) -> tuple[dict[str, int], int]:
    """Places where it is not known which of two is larger."""
    places, end = {}, 0
    for tensor in tensors:
        places[tensor.name] = end
        end = end + _padded(tensor)
    return places, end


def _padded(tensor: Tensor) -> int:
    return -(-max(tensor.numel, 1) * BYTES[tensor.dtype] // 256) * 256
