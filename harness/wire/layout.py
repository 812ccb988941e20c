"""Where each argument of each slot lies in the two shared segments. Plain data: judge and runner both read it.

A slot is one complete set of arguments. Several slots rotate while timing, so that no call finds its inputs in the
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.nouns.task import DTYPE_BYTES, ScalarSpec, Signature, TensorSpec

PAGE = 4096
ALIGNMENT = 64
"""Every tensor of a call begins at a multiple of so many bytes, and a kernel may count on that: PyTorch's own do,
and a drop-in copies what does not."""
ORACLE_SETS = 6
"""On a GPU there must be room for this many sets of arguments beside the slots: the reference's result, operands and
temporaries in float64, the file's own inputs. Measured on elementwise tasks, where nothing else is large."""
GUARD = PAGE
"""Bytes before and after each output that must keep their pattern: an overrun of up to a page is seen, not felt."""


@dataclass(frozen=True)
class Placement:
    """A tensor's offset (bytes) in the segment "in" or "out"."""

    memory: str
    offset: int
    spec: TensorSpec

    def argument(self) -> dict[str, Any]:
        """As the runner reads it."""
        fields = self.spec.model_dump(mode="json", include={"kind", "shape", "strides", "dtype"})
        return {**fields, "memory": self.memory, "offset": self.offset}


@dataclass(frozen=True)
class Layout:
    """All slots: `places[slot][name]`, and the size of both segments in bytes."""

    places: tuple[dict[str, Placement], ...]
    input_bytes: int
    output_bytes: int


def span_bytes(spec: TensorSpec) -> int:
    """Bytes that the tensor's storage must hold."""
    return spec.span * DTYPE_BYTES[spec.dtype]


def values_file(position: int) -> str:
    """Name of the file that holds the values of the argument at that place of the call."""
    return f"argument{position}.bin"


def slot_bytes(signature: Signature) -> int:
    """Bytes of one slot in both segments, guards and alignment included."""
    layout = lay_out(signature, 1)
    return layout.input_bytes + layout.output_bytes


def lay_out(signature: Signature, slots: int) -> Layout:
    """Places for `slots` sets of arguments, each argument on pages of its own."""
    return lay_out_each([signature] * slots)


def lay_out_each(signatures: Sequence[Signature]) -> Layout:
    """One slot for each of these signatures."""
    ends = {"in": 0, "out": 0}
    # In the second slot, where every other trial is made, no argument is better aligned than the contract says.
    places = tuple(_slot(signature, ends, ALIGNMENT * (slot == 1)) for slot, signature in enumerate(signatures))
    return Layout(places, max(ends["in"], PAGE), max(ends["out"], PAGE))


def _slot(signature: Signature, ends: dict[str, int], offset: int) -> dict[str, Placement]:
    placed = {}
    gap = PAGE * (offset > 0)  # nor do arguments lie as far apart there as elsewhere
    for spec in signature.arguments:
        if isinstance(spec, ScalarSpec):
            continue
        memory = "out" if spec in signature.outputs else "in"
        guard = GUARD if memory == "out" else 0
        begin = ends[memory] + guard + offset
        ends[memory] = _align(begin + span_bytes(spec) + guard) + gap
        placed[spec.name] = Placement(memory, begin, spec)
    return placed


def _align(offset: int) -> int:
    return -(-offset // PAGE) * PAGE
